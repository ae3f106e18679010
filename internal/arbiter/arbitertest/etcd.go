// Package arbitertest has an etcd for tests, inside of the test's process or of several
// processes, and a way to it that can be cut.
package arbitertest

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Etcd is an etcd of one member.
type Etcd struct {
	t       testing.TB
	dir     string
	client  url.URL
	peer    url.URL
	running *embed.Etcd
}

// Start starts an etcd, which is stopped when the test ends.
func Start(t testing.TB) *Etcd {
	t.Helper()
	e := &Etcd{t: t, dir: t.TempDir(), client: free(t), peer: free(t)}
	e.Begin()
	t.Cleanup(e.Stop)
	return e
}

// URL is where clients find it.
func (e *Etcd) URL() string { return e.client.String() }

// Begin starts it again after Stop, with the data that it had.
func (e *Etcd) Begin() {
	e.t.Helper()
	c := embed.NewConfig()
	c.Dir = e.dir
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{e.client}, []url.URL{e.client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{e.peer}, []url.URL{e.peer}
	c.InitialCluster = c.Name + "=" + e.peer.String()
	c.UnsafeNoFsync = true
	c.TickMs, c.ElectionMs = 20, 200
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	running, err := embed.StartEtcd(c)
	if err != nil {
		e.t.Fatal(err)
	}
	select {
	case <-running.Server.ReadyNotify():
	case <-time.After(20 * time.Second):
		e.t.Fatal("etcd does not start")
	}
	e.running = running
}

// Stop stops it, if it runs.
func (e *Etcd) Stop() {
	if e.running != nil {
		e.running.Close()
		e.running = nil
	}
}

// Empty gives it no data for the next Begin.
func (e *Etcd) Empty() { e.dir = e.t.TempDir() }

func free(t testing.TB) url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return url.URL{Scheme: "http", Host: l.Addr().String()}
}

// Way is a way to an address that can be cut.
type Way struct {
	to     string
	listen net.Listener
	mu     sync.Mutex
	cut    bool
	open   map[net.Conn]bool
}

// NewWay makes a way to the etcd of that URL.
func NewWay(t testing.TB, to string) *Way {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Way{to: u.Host, listen: l, open: make(map[net.Conn]bool)}
	go w.serve()
	t.Cleanup(func() { l.Close(); w.Cut() })
	return w
}

// URL is where it begins.
func (w *Way) URL() string { return "http://" + w.listen.Addr().String() }

// Cut cuts it: nothing gets through until Mend.
func (w *Way) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for c := range w.open {
		c.Close()
	}
	clear(w.open)
}

// Mend opens it again.
func (w *Way) Mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = false
}

func (w *Way) serve() {
	for {
		near, err := w.listen.Accept()
		if err != nil {
			return
		}
		go w.carry(near)
	}
}

func (w *Way) carry(near net.Conn) {
	defer near.Close()
	w.mu.Lock()
	cut := w.cut
	w.mu.Unlock()
	if cut {
		return
	}
	far, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer far.Close()
	w.mu.Lock()
	cut = w.cut // meanwhile, perhaps
	if !cut {
		w.open[near], w.open[far] = true, true
	}
	w.mu.Unlock()
	if cut {
		return
	}
	go func() { io.Copy(far, near); far.Close(); near.Close() }()
	io.Copy(near, far)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, near)
	delete(w.open, far)
}
