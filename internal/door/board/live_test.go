package board_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
)

// heard is one server-sent event.
type heard struct{ id, kind, data string }

// listen reads the news until an event for which enough says so, or the stream ends.
func (v *visitor) listen(after string, enough func(heard) bool) []heard {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", v.server.URL+"/live", nil)
	if err != nil {
		v.t.Fatal(err)
	}
	r.AddCookie(v.cookie)
	r.Header.Set("Last-Event-ID", after)
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	var out []heard
	var e heard
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		switch field, value, _ := strings.Cut(lines.Text(), ": "); field {
		case "id":
			e.id = value
		case "event":
			e.kind = value
		case "data":
			e.data = value
		case "":
			out = append(out, e)
			if enough(e) {
				return out
			}
			e = heard{}
		}
	}
	return out
}

// TestNewsGoesOn reads the news, goes away, and comes back.
func TestNewsGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: left out with -short")
	}
	t.Parallel()
	m := newMesh(t, "empty", 3)
	v := &visitor{t: t, server: httptest.NewServer(m.board.Handler())}
	t.Cleanup(v.server.Close)
	v.enter(m.board)
	var now struct {
		Place string
		Cards []struct{ ID string }
	}
	m.until("the board has the tasks", func() bool {
		_, body := v.ask("GET", "/board.json")
		return json.Unmarshal([]byte(body), &now) == nil && len(now.Cards) == 3
	})

	first := m.claim("Sandman", "")
	claimed := func(id string) func(heard) bool {
		return func(e heard) bool { return e.kind == "tasks" && strings.Contains(e.data, `"claim":"`+id+`"`) }
	}
	news := v.listen(now.Place, claimed(string(first.ID)))
	last := news[len(news)-1]
	if last.id == "" || news[0].kind != "hello" {
		t.Fatalf("the news is %+v", news)
	}

	// What happened meanwhile is told, and nothing that was told before.
	second := m.claim("Oracle", "")
	for _, e := range v.listen(last.id, claimed(string(second.ID))) {
		if e.id != "" && e.id <= last.id && len(e.id) == len(last.id) {
			t.Errorf("%s was told before: %+v", e.id, e)
		}
	}
	if _, err := m.client.Complete(t.Context(), string(first.ID), api.CompleteRequest{Summary: "Done."}, ""); err != nil {
		t.Fatal(err)
	}
	v.listen(last.id, func(e heard) bool { return e.kind == "event" && strings.Contains(e.data, `"kind":"completed"`) })

	// Who knows another run of the program, or nothing, begins anew.
	for _, after := range []string{"", "x", "AAAAAAAA.3", last.id + "000", strings.Split(last.id, ".")[0] + ".-1"} {
		news := v.listen(after, func(e heard) bool { return e.kind == "tasks" })
		if got := news[len(news)-1].kind; got != "reset" {
			t.Errorf("after %q, the news ends with %q, want a reset", after, got)
		}
	}

	// A daemon that is gone is told of, and so is its return.
	m.kill()
	v.listen(last.id, func(e heard) bool { return e.kind == "health" && strings.Contains(e.data, `"up":false`) })
	m.serve()
	v.listen(last.id, func(e heard) bool {
		return e.kind == "hello" && strings.Contains(e.data, `"up":true`) || e.kind == "health" && strings.Contains(e.data, `"up":true`)
	})
}
