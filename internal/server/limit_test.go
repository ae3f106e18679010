package server_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"dibs/internal/api"
)

// TestTooManyConnections opens as many connections as there may be, and asks on
// one more.
func TestTooManyConnections(t *testing.T) {
	inBubble(t, "many", func(t *testing.T) {
		f := start(t)
		var open []net.Conn
		for range 512 {
			conn, err := f.pipe.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, conn)
		}
		defer func() {
			for _, conn := range open {
				conn.Close()
			}
		}()
		synctest.Wait()

		got := f.must("POST", "/v1/sweep", "{}")
		if p := problemIn(t, got); got.status != 503 || p.Code != api.CodeBusy || got.header.Get("Retry-After") != "1" {
			t.Errorf("answered %d %s, want busy and a Retry-After", got.status, got.body)
		}
		if n := strings.Count(f.logged(), "too many connections"); n != 1 {
			t.Errorf("logged %d times, want once: %s", n, f.logged())
		}

		// Who was let in is served, and makes room.
		go io.WriteString(open[0], "POST /v1/sweep HTTP/1.1\r\nHost: dibs\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		if resp, err := http.ReadResponse(bufio.NewReader(open[0]), nil); err != nil || resp.StatusCode != 200 {
			t.Errorf("one that was let in was answered %v, %v", resp, err)
		}
		open[0].Close()
		synctest.Wait()
		if got := f.must("POST", "/v1/sweep", "{}"); got.status != 200 {
			t.Errorf("with room again: answered %d %s, want 200", got.status, got.body)
		}
	})
}
