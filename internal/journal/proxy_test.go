package journal

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"testing"
)

// fault is what a proxy does to the next COMMIT.
type fault string

const (
	loseAnswer   fault = "the answer is lost"
	loseQuestion fault = "it never comes to the server, which sees the connection end"
	hangQuestion fault = "it never comes to the server, which sees nothing"
	refuseAll    fault = "it comes to the server, and nobody gets there any more"
)

// proxy is a way to a server that can fail.
type proxy struct {
	t      *testing.T
	listen net.Listener
	target string
	url    string // of the server, by this way

	mu    sync.Mutex
	next  fault
	conns []net.Conn
	shut  bool
	met   chan struct{} // closed when next has happened
}

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	at, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, target: at.Host}
	if p.listen, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.listen.Close(); p.cut() })
	at.Host = p.listen.Addr().String()
	p.url = at.String()
	go func() {
		for {
			client, err := p.listen.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		conn.Close()
	}
	p.conns = nil
}

// set says whether nobody gets through.
func (p *proxy) set(shut bool) {
	p.mu.Lock()
	p.shut = shut
	p.mu.Unlock()
	if shut {
		p.cut()
	}
}

// plan says what is to happen to the next COMMIT.
func (p *proxy) plan(f fault) (met <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next, p.met = f, make(chan struct{})
	return p.met
}

// takes returns what is to happen to data, if that ends with COMMIT.
func (p *proxy) takes(data []byte) (f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == "" || !bytes.Contains(data, []byte("COMMIT\x00")) {
		return ""
	}
	f, p.next = p.next, ""
	p.shut = p.shut || f == refuseAll
	close(p.met)
	return f
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	p.mu.Lock()
	if err != nil || p.shut {
		client.Close()
		if server != nil {
			server.Close()
		}
		p.mu.Unlock()
		return
	}
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	var mu sync.Mutex
	lost := false
	go func() { // answers
		defer client.Close()
		buffer := make([]byte, 1<<16)
		for {
			n, err := server.Read(buffer)
			mu.Lock()
			gone := lost
			mu.Unlock()
			if err != nil || gone {
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			server.Close()
			return
		}
		switch p.takes(buffer[:n]) {
		case loseQuestion:
			client.Close()
			server.Close()
			return
		case hangQuestion:
			client.Close() // and the server's end stays
			return
		case loseAnswer, refuseAll:
			mu.Lock()
			lost = true
			mu.Unlock()
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			client.Close()
			return
		}
	}
}
