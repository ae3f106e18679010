package cluster_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dibs/internal/cluster"
	"dibs/internal/journal"
	"dibs/internal/testkit/pgtest"
)

// counted returns the URL of a server by a way that counts how often somebody asks for its members.
func counted(t *testing.T, s *pgtest.Server) (string, *atomic.Int64) {
	t.Helper()
	var asked atomic.Int64
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", s.Address())
			if err != nil {
				client.Close()
				return
			}
			go func() { io.Copy(client, server); client.Close() }()
			go func() {
				defer server.Close()
				buffer := make([]byte, 1<<16)
				for {
					n, err := client.Read(buffer)
					if bytes.Contains(buffer[:n], []byte(".members ORDER BY")) {
						asked.Add(1)
					}
					if _, werr := server.Write(buffer[:n]); err != nil || werr != nil {
						return
					}
				}
			}()
		}
	}()
	where, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	where.Host = l.Addr().String()
	return where.String(), &asked
}

// However many strangers call, the database is asked no more often than without them, and who is
// new is let in all the same.
func TestManyStrangers(t *testing.T) {
	s := pgtest.Run(t)
	where, asked := counted(t, s)
	database, err := journal.Dial(t.Context(), journal.Postgres{URL: where, Schema: "dibs", Board: "board"})
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	m, err := cluster.New(t.Context(), cluster.Config{Database: database, Name: "a", Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.Listen(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	l = m.Secure(l)
	defer l.Close()
	go answer(l)
	go m.Run(t.Context())
	strangers := t.TempDir()
	if _, err := join(t, pgtest.Run(t), "b", strangers); err != nil {
		t.Fatal(err)
	}
	key := keyIn(t, strangers)

	before, begun := asked.Load(), time.Now()
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{key}})
			if err != nil {
				return
			}
			defer conn.Close()
			if said, err := io.ReadAll(conn); err == nil || len(said) > 0 {
				t.Errorf("a stranger hears %q, %v", said, err)
			}
		})
	}
	late, _ := mustJoin(t, s, "late", t.TempDir())
	to := knows(t, late, "a")
	if said, err := hears(t.Context(), func(ctx context.Context) (net.Conn, error) { return late.Dial(ctx, to) }); said != "hello" {
		t.Errorf("a new member hears %q, %v", said, err)
	}
	all.Wait()
	if n, most := asked.Load()-before, int64(time.Since(begun)/time.Second)+2; n > most {
		t.Errorf("the database was asked %d times, want %d at most", n, most)
	}
}
