// Package inboxtest has the tests that every inbox passes.
package inboxtest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"dibs/internal/journal/inbox"

	"github.com/google/go-cmp/cmp"
)

// Inbox is the interface under test.
type Inbox interface {
	TakeTriggers(context.Context, inbox.Take) ([]inbox.Trigger, error)
	ReturnTriggers(ctx context.Context, taker string) error
	Waiting(ctx context.Context, agent string) (inbox.Waiting, error)
	TriggerAgents(ctx context.Context, ids []string) (map[string]string, error)
	AckTriggers(ctx context.Context, agent string, ids []string) (unknown []string, err error)
	AddTriggers(ctx context.Context, triggers ...inbox.Trigger) (added int, err error)
}

// World is an inbox and its time.
type World struct {
	Inbox
	// Visibility is the visibility timeout, and Over returns once it is over for all that was
	// taken so far.
	Visibility time.Duration
	Over       func()
	Now        func() time.Time
}

// poll takes Oracle's triggers, and returns their texts and ids.
func (w *World) poll(t *testing.T, change func(*inbox.Take)) (said, ids []string) {
	t.Helper()
	now := w.Now()
	take := inbox.Take{Agent: "Oracle", Taker: inbox.NewID(now), Now: now, At: now, Visibility: w.Visibility}
	if change != nil {
		change(&take)
	}
	got, err := w.TakeTriggers(t.Context(), take)
	if err != nil {
		t.Fatal(err)
	}
	for _, trigger := range got {
		said, ids = append(said, string(trigger.Type)+" "+trigger.Text), append(ids, trigger.ID)
	}
	return said, ids
}

func (w *World) want(t *testing.T, change func(*inbox.Take), want ...string) []string {
	t.Helper()
	said, ids := w.poll(t, change)
	if diff := cmp.Diff(want, said); diff != "" {
		t.Fatalf("taken (-want +got):\n%s", diff)
	}
	return ids
}

func (w *World) add(t *testing.T, triggers ...inbox.Trigger) (added int) {
	t.Helper()
	for i := range triggers {
		triggers[i].Agent, triggers[i].At = "Oracle", w.Now()
	}
	added, err := w.AddTriggers(t.Context(), triggers...)
	if err != nil {
		t.Fatal(err)
	}
	return added
}

// Run tests the inboxes that make returns.
func Run(t *testing.T, make func(t *testing.T) *World) {
	for name, test := range map[string]func(*testing.T, *World){
		"order": order, "coming back": comingBack, "acknowledging": acknowledging, "available": available, "waiting": waiting, "a new name": newName,
	} {
		t.Run(name, func(t *testing.T) { test(t, make(t)) })
	}
}

func message(text string) inbox.Trigger { return inbox.Trigger{Type: inbox.Message, Text: text} }

// An agent that has not polled before may be refused, and gets nothing then.
func newName(t *testing.T, w *World) {
	full, asked := errors.New("too many names"), 0
	refuse := func(r *inbox.Take) { r.New = func() error { asked++; return full } }
	now := w.Now()
	take := inbox.Take{Agent: "Oracle", Taker: inbox.NewID(now), Now: now, At: now, Visibility: w.Visibility}
	refuse(&take)
	if got, err := w.TakeTriggers(t.Context(), take); !errors.Is(err, full) || len(got) > 0 {
		t.Fatalf("a new name got %v, %v", got, err)
	}
	w.want(t, func(r *inbox.Take) { r.New = func() error { asked++; return nil } }) // it is still new
	if asked != 2 {
		t.Errorf("%d were asked for, want 2", asked)
	}
	w.add(t, message("hello"))
	w.want(t, refuse, "message hello") // it is known by now
}

// Triggers come by type, and then by age.
func order(t *testing.T, w *World) {
	w.want(t, nil)
	var all []inbox.Trigger
	for _, text := range []string{"a", "b"} {
		for _, kind := range slices.Backward(inbox.Types[:6]) {
			all = append(all, inbox.Trigger{Type: kind, Text: text})
		}
	}
	w.add(t, all...)
	three := func(r *inbox.Take) { r.Limit = 3 }
	w.want(t, three, "claim_lost a", "claim_lost b", "task_offered a")
	w.want(t, three, "task_offered b", "task_assigned a", "task_assigned b")
	w.want(t, nil, "message a", "message b", "comment a", "comment b", "task_finished a", "task_finished b")
	w.want(t, nil)
}

func comingBack(t *testing.T, w *World) {
	w.want(t, nil)
	w.add(t, message("a"))
	w.want(t, nil, "message a")
	w.want(t, nil)
	w.Over()
	w.want(t, func(r *inbox.Take) { r.Process = "p" }, "message a")
	// A trigger comes back at once if its own process is gone, but not if another one is.
	w.want(t, func(r *inbox.Take) { r.Gone = []string{"q"} })
	w.want(t, func(r *inbox.Take) { r.Gone, r.Taker = []string{"p"}, "poll" }, "message a")
	// A repeated poll gets the same, and the next poll gets what that one returns.
	w.want(t, func(r *inbox.Take) { r.Taker = "poll" }, "message a")
	if err := w.ReturnTriggers(t.Context(), "poll"); err != nil {
		t.Fatal(err)
	}
	w.want(t, nil, "message a")
}

func acknowledging(t *testing.T, w *World) {
	w.want(t, nil)
	once := message("a")
	once.Key = "row a"
	if n := w.add(t, once); n != 1 {
		t.Errorf("%d were added, want 1", n)
	}
	ids := w.want(t, nil, "message a")
	ack := func(agent string, want ...string) {
		t.Helper()
		got, err := w.AckTriggers(t.Context(), agent, append([]string{"nothing"}, ids...))
		if err != nil || !slices.Equal(append([]string{"nothing"}, want...), got) {
			t.Errorf("%s: unknown = %q, %v; want %q", agent, got, err, want)
		}
	}
	ack("Sandman", ids...)
	if of, err := w.TriggerAgents(t.Context(), append(ids, "nothing")); err != nil || of[ids[0]] != "Oracle" || len(of) != 1 {
		t.Errorf("whose they are: %v, %v", of, err)
	}
	ack("Oracle")
	ack("Oracle")  // again
	w.add(t, once) // found again
	w.want(t, nil)
	w.Over()
	w.want(t, nil)
}

// The trigger for available tasks comes once: at the first poll, or as soon as there are tasks.
func available(t *testing.T, w *World) {
	some := func(r *inbox.Take) { r.Available = 2 }
	w.want(t, nil)
	w.want(t, some, "tasks_available ")
	w.want(t, some)
}

func waiting(t *testing.T, w *World) {
	check := func(pending, available bool, count int) {
		t.Helper()
		got, err := w.Waiting(t.Context(), "Oracle")
		if err != nil || got.Pending != pending || got.Available != available || got.Count != count {
			t.Fatalf("waiting = %+v, %v", got, err)
		}
	}
	check(false, false, 0)
	w.want(t, nil)
	check(false, true, 0)
	w.add(t, message("a"), message("b"))
	check(true, true, 2)
	ids := w.want(t, func(r *inbox.Take) { r.Limit = 1 }, "message a")
	check(true, true, 1)
	w.want(t, nil, "message b")
	check(false, true, 0)
	if _, err := w.AckTriggers(t.Context(), "Oracle", ids); err != nil {
		t.Fatal(err)
	}
	check(false, true, 0)
}
