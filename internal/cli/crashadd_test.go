package cli_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
)

// TestKilledWhileAdding kills daemons with SIGKILL at the request that makes a task. The next
// daemon answers the same request with the outcome, and there is never a second task.
func TestKilledWhileAdding(t *testing.T) {
	takesSeconds(t)
	t.Parallel()
	v := newVictim(t)
	titled := func(title string) (ids []string) {
		for _, p := range v.notion.Pages(v.notion.Databases().Tasks) {
			if p.Title() == title {
				ids = append(ids, p.ID)
			}
		}
		return ids
	}
	for _, c := range []struct {
		name string
		kind emulator.FaultKind
		body string
	}{
		{"before the task is made", emulator.Stop, ""},
		{"once the task is made", emulator.StopAfter, ""},
		{"once the task with content is made", emulator.StopAfter, "# Plan\n"},
	} {
		var arrived atomic.Bool
		v.notion.Inject(emulator.Fault{Method: http.MethodPost, Path: "/v1/pages", Kind: c.kind, Times: 1, Match: func(_ *http.Request, body []byte) bool {
			hit := strings.Contains(string(body), c.name)
			if hit {
				arrived.Store(true)
			}
			return hit
		}})
		add := func() (api.Added, error) {
			return v.Add(t.Context(), api.AddRequest{Title: c.name, Body: c.body}, "add "+c.name)
		}
		asked := make(chan error, 1)
		go func() {
			_, err := add()
			asked <- err
		}()
		v.until("the request arrives", func() bool {
			return arrived.Load() && (c.kind == emulator.Stop || len(titled(c.name)) == 1)
		})
		v.kill()
		if err := <-asked; err == nil {
			t.Errorf("killed %s: the request was answered", c.name)
		}
		v.start()
		made, err := add()
		there := titled(c.name)
		switch {
		case c.kind == emulator.Stop && (codeOf(err) != api.Code(claim.CodeNotionUnavailable) || len(there) > 0):
			t.Errorf("killed %s: the same request gets %+v, %v, and there are %d tasks", c.name, made, err, len(there))
		case c.kind == emulator.StopAfter && (err != nil || len(there) != 1 || string(made.Task.ID) != there[0]):
			t.Errorf("killed %s: the same request gets %+v, %v, and there are the tasks %q", c.name, made, err, there)
		}
	}
	// A repeated request gets the same answer.
	first, err := v.Add(t.Context(), api.AddRequest{Title: "answered"}, "answered")
	if err != nil {
		t.Fatal(err)
	}
	v.kill()
	v.start()
	if again, err := v.Add(t.Context(), api.AddRequest{Title: "answered"}, "answered"); err != nil || again.Task.ID != first.Task.ID || len(titled("answered")) != 1 {
		t.Errorf("the same request gets %+v, %v; want %+v", again, err, first)
	}
}
