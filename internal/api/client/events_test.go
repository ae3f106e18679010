package client_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/apitest"
	"dibs/internal/api/client"
	"dibs/internal/broker"
	"dibs/internal/feed"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := daemon(t)
		f := broker.EventFilter{After: 4, Agent: "a & b", Task: taskID}
		further := f
		further.After = 6
		events := []feed.Event{
			{ID: 5, At: noon, Kind: feed.Edited, Task: taskID, Title: "line\nend", Priority: task.Low, Changed: []string{"title"}},
			{ID: 6, At: noon, Kind: feed.LeaseExpiring, Task: taskID, Agent: "a & b", Claim: claimID, ExpiresAt: noon.Add(time.Minute)},
		}
		reading := apitest.Call{Method: "Events", Args: []any{f, 15 * time.Second}, Result: broker.Page{Events: events, Next: 6}}
		b.Expect(reading, apitest.Call{Method: "Events", Args: []any{further, 15 * time.Second}, Err: broker.ErrStopping})

		want := []api.FeedEvent{
			{ID: 5, At: api.Time{Time: noon}, Kind: feed.Edited, Task: &api.TaskRef{ID: taskID, Title: "line\nend", Priority: "low"}, Changed: []string{"title"}},
			{ID: 6, At: api.Time{Time: noon}, Kind: feed.LeaseExpiring, Task: &api.TaskRef{ID: taskID, Priority: "none"}, Agent: "a & b", Claim: claimID, ExpiresAt: api.Time{Time: noon.Add(time.Minute)}},
		}
		var got []api.FeedEvent
		filter := client.EventFilter{After: 4, Agent: "a & b", Task: taskID, Follow: true}
		err := c.Events(t.Context(), filter, func(e api.FeedEvent) error { got = append(got, e); return nil })
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("err = %v, events (-want +got):\n%s", err, diff)
		}

		enough := errors.New("enough")
		b.Expect(reading, apitest.Call{Method: "Events", Args: []any{further, 15 * time.Second}, Err: broker.ErrStopping})
		err = c.Events(t.Context(), filter, func(api.FeedEvent) error { return enough })
		if !errors.Is(err, enough) {
			t.Errorf("err = %v, want that of the reader", err)
		}
	})
}

func TestEventsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := daemon(t)
		err := c.Events(t.Context(), client.EventFilter{After: -2}, nil)
		if p, ok := errors.AsType[*api.Problem](err); !ok || p.Code != api.CodeInvalidRequest {
			t.Errorf("err = %v, want an invalid request", err)
		}
		nowhere := client.Over("/run/dibs.sock", func(context.Context) (net.Conn, error) { return nil, net.ErrClosed })
		if _, ok := errors.AsType[*client.UnreachableError](nowhere.Events(t.Context(), client.EventFilter{}, nil)); !ok {
			t.Error("no daemon: the error is not one of being unreachable")
		}
		// A reader that goes away says so itself.
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		cancel(gone)
		if err := c.Events(ctx, client.EventFilter{}, nil); !errors.Is(err, gone) {
			t.Errorf("err = %v, want the cause of the end", err)
		}
	})
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := daemon(t)
		b.Expect(apitest.Call{
			Method: "Watch", Args: []any{broker.Ref{Claim: string(claimID), Agent: "Sandman"}, int64(7), 90 * time.Second},
			Result: apitest.Watched{Claim: brokers, Event: &feed.Event{ID: 8, At: noon, Kind: feed.Conflict, Task: taskID, Holder: "Oracle"}},
		})
		got, err := c.Watch(t.Context(), string(claimID), "Sandman", 7, 90*time.Second)
		want := clients
		want.Event = &api.FeedEvent{ID: 8, At: api.Time{Time: noon}, Kind: feed.Conflict, Task: &api.TaskRef{ID: taskID, Priority: "none"}, Holder: "Oracle"}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("err = %v, claim (-want +got):\n%s", err, diff)
		}
	})
}
