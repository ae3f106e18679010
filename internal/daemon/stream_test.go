package daemon_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// stream is a manual reader of server-sent events.
type stream struct {
	cancel context.CancelFunc
	mu     sync.Mutex
	lines  []string
	ended  chan struct{}
}

func (n *node) stream(path, lastID string) *stream {
	n.w.Helper()
	ctx, cancel := context.WithCancel(n.w.Context())
	s := &stream{cancel: cancel, ended: make(chan struct{})}
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return n.dial(ctx) },
		DisableKeepAlives: true,
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://dibs"+path, nil)
	if err != nil {
		n.w.Fatal(err)
	}
	if lastID != "" {
		r.Header.Set(api.LastEventID, lastID)
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		n.w.Fatal(err)
	}
	if media := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || media != api.EventStream {
		body, _ := io.ReadAll(resp.Body)
		n.w.Fatalf("%s: %s, %s: %s", path, resp.Status, media, body)
	}
	go func() {
		defer close(s.ended)
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			s.mu.Lock()
			s.lines = append(s.lines, lines.Text())
			s.mu.Unlock()
		}
	}()
	return s
}

func (s *stream) read() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.lines...)
}

func TestStreamOfEvents(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		other := w.add("other", nil)
		n := w.daemon(quiet)
		all := n.stream("/v1/events", "")
		oracles := n.stream("/v1/events?agent=Oracle", "")
		others := n.stream("/v1/events?task="+other, "")
		time.Sleep(time.Second)
		cl := n.mustClaim("Sandman", id)
		n.mustClaim("Oracle", other)
		time.Sleep(14 * time.Second)

		lines := all.read()
		want := []string{": alive", "id: 0", "", "id: 1", "event: claimed", "", "id: 2", "event: claimed", ""}
		var got []string
		for _, line := range lines {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				if !strings.HasPrefix(data, `{"id":`) || !strings.Contains(data, `"kind":"claimed","task":{"id":"`) {
					w.Errorf("data: %s", data)
				}
				continue
			}
			got = append(got, line)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			w.Errorf("stream (-want +got):\n%s", diff)
		}
		for name, s := range map[string]*stream{"Oracle's": oracles, "the other task's": others} {
			if text := strings.Join(s.read(), "\n"); strings.Count(text, "data: ") != 1 || !strings.Contains(text, "id: 2\nevent: claimed\n") {
				w.Errorf("%s stream is %s", name, text)
			}
		}
		// A quiet stream sends signs of life with its position.
		mustDo(w, n.complete(cl))
		time.Sleep(16 * time.Second)
		quiet := oracles.read()
		if diff := cmp.Diff([]string{": alive", "id: 3", ""}, quiet[len(quiet)-3:]); diff != "" {
			w.Errorf("the end of a quiet stream (-want +got):\n%s", diff)
		}
		// A reader that reconnects continues where it was.
		again := n.stream("/v1/events?after=0", "1")
		time.Sleep(time.Second)
		if text := strings.Join(again.read(), "\n"); strings.Count(text, "data: ") != 2 || !strings.Contains(text, "id: 3\nevent: completed\n") {
			w.Errorf("the stream after event 1 is %s", text)
		}
		// Readers that leave or stay do not delay the daemon.
		oracles.cancel()
		start := time.Now()
		n.stop()
		if took := time.Since(start); took > time.Second {
			w.Errorf("the daemon took %v to stop", took)
		}
		<-all.ended
	})
}

// TestSlowReader leaves a stream unread while a lot happens.
func TestSlowReader(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		var ids []string
		for i := range 40 {
			ids = append(ids, w.add(fmt.Sprint("Task ", i), nil))
		}
		n := w.daemon(func(c *config.Config) { c.Notion.Rate, c.Notion.Burst = 100, 100 })
		conn, err := n.dial(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /v1/events HTTP/1.1\r\nHost: dibs\r\n\r\n"); err != nil {
			w.Fatal(err)
		}
		start := time.Now()
		for _, id := range ids {
			mustDo(w, n.complete(n.mustClaim("Sandman", id)))
		}
		if took := time.Since(start); took > 40*4*time.Second {
			w.Errorf("40 claims took %v beside a reader that does not read", took)
		}
		time.Sleep(time.Minute)
		// It was disconnected, and can continue where it was.
		conn.SetReadDeadline(time.Now().Add(time.Second))
		if data, err := io.ReadAll(conn); err != nil {
			w.Errorf("the connection of the slow reader is still open: %v after %q", err, data)
		}
		if got := len(n.eventsAfter(0)); got != 80 {
			w.Errorf("%d events, want 80", got)
		}
	})
}

func TestEventsNoLongerKept(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		n := w.daemon(func(c *config.Config) {
			quiet(c)
			c.Events.Keep = 2 * time.Hour
		})
		for range 3 {
			if _, err := n.Release(w.Context(), string(n.mustClaim("Sandman", id).ID), api.StopRequest{}, ""); err != nil {
				w.Fatal(err)
			}
		}
		time.Sleep(5 * time.Hour)
		n.mustClaim("Sandman", id)
		time.Sleep(2 * time.Hour) // the first nine are pruned by then
		told := n.eventsAfter(3)
		if len(told) < 2 || told[0] != "gap" || told[1] != `claimed Sandman "work"` {
			w.Errorf("events after 3 = %q, want a gap, then those that are kept", told)
		}
		if told := n.eventsAfter(0); told[0] != `claimed Sandman "work"` {
			w.Errorf("all events = %q, want no gap", told)
		}
		if told := n.eventsAfter(9); told[0] == "gap" {
			w.Errorf("events after 9 = %q, want no gap", told)
		}
		if told := n.eventsAfter(1000); len(told) == 0 || told[0] != "gap" {
			w.Errorf("events after one that never was = %q, want a gap", told)
		}
		// A connected reader that selects few events has no gap.
		s := n.stream("/v1/events?agent=Maria", "")
		time.Sleep(time.Hour)
		n.mustClaim("Sandman", id)
		time.Sleep(6 * time.Hour) // and this one, too
		if text := strings.Join(s.read(), "\n"); strings.Contains(text, "gap") {
			w.Errorf("a reader that was there all the time was told of a gap")
		}
		s.cancel()
	})
}
