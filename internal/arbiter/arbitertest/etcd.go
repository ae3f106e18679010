// Package arbitertest has an etcd for tests, inside of the test's process or of several
// processes, and a way to it that can be cut.
package arbitertest

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
)

// Etcd is an etcd of one member.
type Etcd struct {
	t       testing.TB
	dir     string
	client  url.URL
	peer    url.URL
	running *embed.Etcd
	// configure, if set, changes how it is started.
	configure func(*Etcd, *embed.Config)
	way       *Way // for clients: etcd waits for those that watch before it stops
}

// Start starts an etcd, which is stopped when the test ends.
func Start(t testing.TB) *Etcd {
	t.Helper()
	return start(t, nil)
}

// start starts an etcd as configure, if set, changes it.
func start(t testing.TB, configure func(*Etcd, *embed.Config)) *Etcd {
	t.Helper()
	e := prepare(t, configure)
	e.Begin()
	return e
}

// prepare makes an etcd that does not run yet.
func prepare(t testing.TB, configure func(*Etcd, *embed.Config)) *Etcd {
	t.Helper()
	e := &Etcd{t: t, dir: t.TempDir(), client: free(t), peer: free(t), configure: configure}
	e.way = NewWay(t, e.client.String())
	t.Cleanup(e.Stop)
	return e
}

// StartThree starts an etcd of three members.
func StartThree(t testing.TB) []*Etcd {
	t.Helper()
	var all []*Etcd
	var list []string
	for i := range 3 {
		name := fmt.Sprint("etcd-", i)
		e := prepare(t, func(_ *Etcd, c *embed.Config) { c.Name, c.InitialCluster = name, strings.Join(list, ",") })
		all, list = append(all, e), append(list, name+"="+e.peer.String())
	}
	var started sync.WaitGroup
	for _, e := range all { // they wait for each other
		started.Go(e.Begin)
	}
	started.Wait()
	return all
}

// URL is where clients find it.
func (e *Etcd) URL() string { return e.client.Scheme + strings.TrimPrefix(e.way.URL(), "http") }

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
	if e.configure != nil {
		e.configure(e, c)
	}
	running, err := embed.StartEtcd(c)
	if err != nil {
		e.t.Error(err)
		return
	}
	select {
	case <-running.Server.ReadyNotify():
	case <-time.After(20 * time.Second):
		e.t.Error("etcd does not start")
	}
	e.running = running
	e.way.Mend()
}

// Stop stops it, if it runs.
func (e *Etcd) Stop() {
	if e.running != nil {
		e.way.Cut()
		e.running.Server.HardStop() // which does not wait for members that are away
		e.running.Close()
		e.running = nil
	}
}

// Has reports whether a key has part in it.
func (e *Etcd) Has(part string) bool {
	e.t.Helper()
	return len(e.keys(part)) > 0
}

// Holds reports whether a value has part in it.
func (e *Etcd) Holds(part string) bool {
	e.t.Helper()
	all, err := v3client.New(e.running.Server).Get(e.t.Context(), "", clientv3.WithPrefix())
	if err != nil {
		e.t.Fatal(err)
	}
	for _, kv := range all.Kvs {
		if strings.Contains(string(kv.Value), part) {
			return true
		}
	}
	return false
}

// Expire deletes the keys in which there is part, as their leases would when what keeps them
// does not.
func (e *Etcd) Expire(part string) {
	e.t.Helper()
	client := v3client.New(e.running.Server)
	for _, key := range e.keys(part) {
		if _, err := client.Delete(e.t.Context(), key); err != nil {
			e.t.Fatal(err)
		}
	}
}

// keys returns the keys in which there is part.
func (e *Etcd) keys(part string) (keys []string) {
	e.t.Helper()
	all, err := v3client.New(e.running.Server).Get(e.t.Context(), "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		e.t.Fatal(err)
	}
	for _, kv := range all.Kvs {
		if strings.Contains(string(kv.Key), part) {
			keys = append(keys, string(kv.Key))
		}
	}
	return keys
}

// Compact forgets what its keys were before.
func (e *Etcd) Compact() {
	e.t.Helper()
	client := v3client.New(e.running.Server)
	now, err := client.Get(e.t.Context(), "now")
	if err == nil {
		_, err = client.Compact(e.t.Context(), now.Header.Revision)
	}
	if err != nil {
		e.t.Fatal(err)
	}
}

// Empty gives it no data for the next Begin.
func (e *Etcd) Empty() { e.dir = e.t.TempDir() }

// Copy returns a copy of the data that it has.
func (e *Etcd) Copy() string {
	e.t.Helper()
	e.Stop()
	folder := e.t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(e.dir)); err != nil {
		e.t.Fatal(err)
	}
	e.Begin()
	return folder
}

// Restore begins it again with the data of a copy, which it goes on to use.
func (e *Etcd) Restore(folder string) {
	e.t.Helper()
	e.Stop()
	e.dir = folder
	e.Begin()
}

// free is an address at which nobody listens: none of those that systems give to connections, of
// which one might have it while the etcd that it is for does not run.
func free(t testing.TB) url.URL {
	t.Helper()
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_000))); err == nil {
			defer l.Close()
			return url.URL{Scheme: "http", Host: l.Addr().String()}
		}
	}
	t.Fatal(err)
	return url.URL{}
}

// Way is a way to an address that can be cut.
type Way struct {
	to     string
	listen net.Listener
	mu     sync.Mutex
	cut    bool
	mutes  []byte // see MuteAt
	mute   bool
	slow   time.Duration // see Slow
	looks  []byte        // see Sees
	seen   chan struct{}
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

// MuteAt lets no answers through any more, once a request that has that text in it does.
func (w *Way) MuteAt(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mutes = []byte(text)
}

// Sees returns what is closed once a request that has that text in it gets through.
func (w *Way) Sees(text string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks, w.seen = []byte(text), make(chan struct{})
	return w.seen
}

// Slow has every answer take that much longer.
func (w *Way) Slow(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = by
}

// Mend opens it again, for new connections.
func (w *Way) Mend() {
	w.Cut()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut, w.mute, w.mutes = false, false, nil
}

// asks and answers are the two directions of a connection.
type asks struct {
	*Way
	net.Conn
}

func (a asks) Write(p []byte) (int, error) {
	a.mu.Lock()
	a.mute = a.mute || a.mutes != nil && bytes.Contains(p, a.mutes)
	if a.looks != nil && bytes.Contains(p, a.looks) {
		close(a.seen)
		a.looks = nil
	}
	a.mu.Unlock()
	return a.Conn.Write(p)
}

type answers struct {
	*Way
	net.Conn
}

func (a answers) Write(p []byte) (int, error) {
	a.mu.Lock()
	mute, slow := a.mute, a.slow
	a.mu.Unlock()
	time.Sleep(slow)
	if mute {
		return len(p), nil
	}
	return a.Conn.Write(p)
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
	go func() { io.Copy(asks{w, far}, near); far.Close(); near.Close() }()
	io.Copy(answers{w, near}, far)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, near)
	delete(w.open, far)
}

// Keys are the keys that begin like that.
func (e *Etcd) Keys(t testing.TB, prefix string) []string {
	t.Helper()
	end := []byte(prefix)
	end[len(end)-1]++
	r, err := e.running.Server.Range(t.Context(), &etcdserverpb.RangeRequest{Key: []byte(prefix), RangeEnd: end, KeysOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, kv := range r.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}
