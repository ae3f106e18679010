package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := []api.Event{
			{ID: 5, At: api.Time{Time: noon}, Kind: claim.KindEdited, Task: &api.TaskRef{ID: taskID, Title: "line\nend", Priority: "low"}, Changed: []string{"title"}},
			{ID: 6, At: api.Time{Time: noon}, Kind: api.LeaseExpiring, Task: &api.TaskRef{ID: taskID, Priority: "none"}, Agent: "a & b", Claim: claimID, ExpiresAt: api.Time{Time: noon.Add(time.Minute)}},
		}
		var line string
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			line = r.RequestURI
			w.Header().Set("Content-Type", api.EventStream)
			for _, e := range want {
				data, _ := json.Marshal(e)
				fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", e.ID, e.Kind, data)
			}
		})
		var got []api.Event
		filter := api.EventsInput{After: 4, Agent: "a & b", Task: string(taskID)}
		next, err := c.Events(t.Context(), filter, false, func(e api.Event) error { got = append(got, e); return nil })
		if diff := cmp.Diff(want, got); err != nil || next != 6 || diff != "" {
			t.Errorf("next = %d, want 6; err = %v; events (-want +got):\n%s", next, err, diff)
		}
		if want := "/v1/events?after=4&agent=a+%26+b&follow=false&task=" + string(taskID); line != want {
			t.Errorf("asked for %s, want %s", line, want)
		}

		enough := errors.New("enough")
		next, err = c.Events(t.Context(), filter, true, func(e api.Event) error {
			if e.ID == 6 {
				return enough
			}
			return nil
		})
		testkit.Check(t, errors.Is(err, enough) && next == 5,
			"next = %d, err = %v; want 5, which the reader took, and its error", next, err)
	})
}

func TestEventsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := daemon(t, http.StatusUnprocessableEntity, api.NewProblem(api.CodeInvalidRequest, "no"))
		_, err := c.Events(t.Context(), api.EventsInput{After: -2}, false, nil)
		p, ok := errors.AsType[*api.Problem](err)
		testkit.Check(t, ok && p.Code == api.CodeInvalidRequest, "err = %v, want an invalid request", err)
		nowhere := client.Over("/run/dibs.sock", func(context.Context) (net.Conn, error) { return nil, net.ErrClosed })
		next, err := nowhere.Events(t.Context(), api.EventsInput{After: 7}, false, nil)
		if u, ok := errors.AsType[*client.UnreachableError](err); !ok || u.Sent || next != 7 {
			t.Errorf("no daemon: next = %d, err = %v; want 7, and that it was not reached", next, err)
		}
		// A reader that goes away says so itself.
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		cancel(gone)
		if _, err := c.Events(ctx, api.EventsInput{}, false, nil); !errors.Is(err, gone) {
			t.Errorf("err = %v, want the cause of the end", err)
		}
	})
}

// TestEventsGoOn ends streams, in an orderly way and not, and looks from where a
// reader would go on.
func TestEventsGoOn(t *testing.T) {
	const event = "id: 17\nevent: ready\ndata: {\"id\":17,\"kind\":\"ready\"}\n\n"
	beat := func(id string) string { return ": alive\nid: " + id + "\n\n" }
	for name, tt := range map[string]struct {
		stream string
		next   int64
		events int
	}{
		"nothing":                            {"", 12, 0},
		"only beats":                         {beat("16") + beat("95"), 95, 0},
		"an event":                           {beat("16") + event, 17, 1},
		"an event, and others since":         {beat("16") + event + beat("18"), 18, 1},
		"within the id of a beat":            {beat("16") + ": alive\nid: 9", 16, 0},
		"after the id of an event":           {beat("16") + "id: 17\n", 16, 0},
		"within an event":                    {beat("16") + event[:len(event)-5], 16, 0},
		"an event, without its last line":    {beat("16") + event[:len(event)-1], 16, 0},
		"of a daemon that sends ids in vain": {beat("x"), 12, 0},
	} {
		for _, broken := range []bool{false, true} {
			testkit.Bubble(t, fmt.Sprintf("%s, broken: %v", name, broken), func(t *testing.T) {
				c := serve(t, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", api.EventStream)
					io.WriteString(w, tt.stream)
					http.NewResponseController(w).Flush()
					if broken {
						panic(http.ErrAbortHandler)
					}
				})
				heard := 0
				next, err := c.Events(t.Context(), api.EventsInput{After: 12}, true, func(api.Event) error { heard++; return nil })
				testkit.Check(t, next == tt.next && heard == tt.events,
					"next = %d after %d events, want %d after %d", next, heard, tt.next, tt.events)
				u, ok := errors.AsType[*client.UnreachableError](err)
				testkit.Check(t, ok == broken && (!ok || u.Sent) && (ok || err == nil), "err = %v", err)
			})
		}
	}
}
