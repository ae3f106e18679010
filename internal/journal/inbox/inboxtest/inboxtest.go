// Package inboxtest has the tests that every inbox passes: one daemon's, and the one that the
// daemons of a cluster share.
package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
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

// World is one inbox.
type World struct {
	// Doors are the ways to it: the members of the cluster.
	Doors []Inbox
	// Pass returns once what was added at any door can be taken at all of them.
	Pass func()
	// Visibility is the visibility timeout, and Over returns once it is over for all that was
	// taken so far.
	Visibility time.Duration
	Over       func()
	Now        func() time.Time
}

// poll takes Oracle's triggers at one of the doors, and returns their texts and ids.
func (w *World) poll(t *testing.T, door int, change func(*inbox.Take)) (said, ids []string) {
	t.Helper()
	now := w.Now()
	take := inbox.Take{Agent: "Oracle", Taker: inbox.NewID(now), Now: now, At: now, Visibility: w.Visibility}
	if change != nil {
		change(&take)
	}
	got, err := w.Doors[door%len(w.Doors)].TakeTriggers(t.Context(), take)
	if err != nil {
		t.Fatal(err)
	}
	for _, trigger := range got {
		said, ids = append(said, string(trigger.Type)+" "+trigger.Text), append(ids, trigger.ID)
	}
	return said, ids
}

func (w *World) want(t *testing.T, door int, change func(*inbox.Take), want ...string) []string {
	t.Helper()
	said, ids := w.poll(t, door, change)
	if diff := cmp.Diff(want, said); diff != "" {
		t.Fatalf("taken (-want +got):\n%s", diff)
	}
	return ids
}

func (w *World) add(t *testing.T, door int, triggers ...inbox.Trigger) (added int) {
	t.Helper()
	for i := range triggers {
		triggers[i].Agent, triggers[i].At = "Oracle", w.Now()
	}
	added, err := w.Doors[door%len(w.Doors)].AddTriggers(t.Context(), triggers...)
	if err != nil {
		t.Fatal(err)
	}
	w.Pass()
	return added
}

// Run tests the inboxes that make returns.
func Run(t *testing.T, make func(t *testing.T) *World) {
	for name, test := range map[string]func(*testing.T, *World){
		"order": order, "coming back": comingBack, "acknowledging": acknowledging, "available": available, "waiting": waiting, "many pollers": many, "a new name": newName,
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
	if got, err := w.Doors[0].TakeTriggers(t.Context(), take); !errors.Is(err, full) || len(got) > 0 {
		t.Fatalf("a new name got %v, %v", got, err)
	}
	w.want(t, 1, func(r *inbox.Take) { r.New = func() error { asked++; return nil } }) // it is still new
	if asked != 2 {
		t.Errorf("%d were asked for, want 2", asked)
	}
	w.add(t, 0, message("hello"))
	w.want(t, 2, refuse, "message hello") // it is known by now
}

// Triggers come by type, and then by age.
func order(t *testing.T, w *World) {
	w.want(t, 0, nil)
	var all []inbox.Trigger
	for _, text := range []string{"a", "b"} {
		for _, kind := range slices.Backward(inbox.Types[:6]) {
			all = append(all, inbox.Trigger{Type: kind, Text: text})
		}
	}
	w.add(t, 1, all...)
	three := func(r *inbox.Take) { r.Limit = 3 }
	w.want(t, 2, three, "claim_lost a", "claim_lost b", "task_offered a")
	w.want(t, 3, three, "task_offered b", "task_assigned a", "task_assigned b")
	w.want(t, 0, nil, "message a", "message b", "comment a", "comment b", "task_finished a", "task_finished b")
	w.want(t, 1, nil)
}

func comingBack(t *testing.T, w *World) {
	w.want(t, 0, nil)
	w.add(t, 0, message("a"))
	w.want(t, 0, nil, "message a")
	w.want(t, 1, nil)
	w.Over()
	w.want(t, 1, func(r *inbox.Take) { r.Process = "p" }, "message a")
	// A trigger comes back at once if its own process is gone, but not if another one is.
	w.want(t, 1, func(r *inbox.Take) { r.Gone = []string{"q"} })
	w.want(t, 1, func(r *inbox.Take) { r.Gone, r.Taker = []string{"p"}, "poll" }, "message a")
	// A repeated poll gets the same, and the next poll gets what that one returns.
	w.want(t, 2, func(r *inbox.Take) { r.Taker = "poll" }, "message a")
	if err := w.Doors[0].ReturnTriggers(t.Context(), "poll"); err != nil {
		t.Fatal(err)
	}
	w.want(t, 3, nil, "message a")
}

func acknowledging(t *testing.T, w *World) {
	w.want(t, 0, nil)
	once := message("a")
	once.Key = "row a"
	if n := w.add(t, 0, once); n != 1 {
		t.Errorf("%d were added, want 1", n)
	}
	ids := w.want(t, 1, nil, "message a")
	ack := func(door int, agent string, want ...string) {
		t.Helper()
		got, err := w.Doors[door%len(w.Doors)].AckTriggers(t.Context(), agent, append([]string{"nothing"}, ids...))
		if err != nil || !slices.Equal(append([]string{"nothing"}, want...), got) {
			t.Errorf("%s: unknown = %q, %v; want %q", agent, got, err, want)
		}
	}
	ack(2, "Sandman", ids...)
	if of, err := w.Doors[2%len(w.Doors)].TriggerAgents(t.Context(), append(ids, "nothing")); err != nil || of[ids[0]] != "Oracle" || len(of) != 1 {
		t.Errorf("whose they are: %v, %v", of, err)
	}
	ack(2, "Oracle")
	ack(3, "Oracle")
	w.add(t, 0, once) // found again
	w.add(t, 1, once) // and at another door
	w.want(t, 0, nil)
	w.Over()
	w.want(t, 0, nil)
}

// The trigger for available tasks comes once: at the first poll, or as soon as there are tasks.
func available(t *testing.T, w *World) {
	some := func(r *inbox.Take) { r.Available = 2 }
	w.want(t, 0, nil)
	w.want(t, 1, some, "tasks_available ")
	w.want(t, 0, some)
}

func waiting(t *testing.T, w *World) {
	check := func(door int, pending, available bool, count int) {
		t.Helper()
		// Another door may hear of it a moment later.
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			got, err := w.Doors[door%len(w.Doors)].Waiting(t.Context(), "Oracle")
			if err == nil && got.Pending == pending && got.Available == available && got.Count == count {
				return
			}
			if err != nil || time.Now().After(end) {
				t.Fatalf("waiting = %+v, %v", got, err)
			}
		}
	}
	check(0, false, false, 0)
	w.want(t, 0, nil)
	check(1, false, true, 0)
	w.add(t, 2, message("a"), message("b"))
	for door := range w.Doors {
		check(door, true, true, 2)
	}
	ids := w.want(t, 0, func(r *inbox.Take) { r.Limit = 1 }, "message a")
	check(1, true, true, 1)
	w.want(t, 1, nil, "message b")
	for door := range w.Doors {
		check(door, false, true, 0)
	}
	if _, err := w.Doors[0].AckTriggers(t.Context(), "Oracle", ids); err != nil {
		t.Fatal(err)
	}
	check(0, false, true, 0)
}

// Twenty pollers of one name, at all doors, compete for forty triggers. Some are killed with
// what they took: each trigger is dealt with once.
func many(t *testing.T, w *World) {
	const pollers, triggers = 20, 40
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w.want(t, 0, func(r *inbox.Take) { r.Available = 1 }, "tasks_available ")
	var mu sync.Mutex
	held, dealt := make(map[string]int), make(map[string]bool)
	over := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(dealt) == triggers || t.Failed()
	}
	var all sync.WaitGroup
	for i := range pollers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			door := w.Doors[i%len(w.Doors)]
			var gone []string
			for n := 0; !over(); n++ {
				doomed := n < 5 && random.IntN(3) == 0
				process, now := fmt.Sprintf("%d of %d", n, i), w.Now()
				got, err := door.TakeTriggers(t.Context(), inbox.Take{
					Agent: "Oracle", Taker: process, Process: process, Limit: 1 + random.IntN(4), Now: now, At: now, Visibility: time.Hour, Gone: gone,
				})
				if err != nil {
					t.Error(err)
					return
				}
				gone = nil
				mu.Lock()
				for _, trigger := range got {
					if who, has := held[trigger.ID]; has {
						t.Errorf("%s is handed to %d while %d has it", trigger.ID, i, who)
					}
					if dealt[trigger.ID] {
						t.Errorf("%s is handed out after it was acknowledged", trigger.ID)
					}
					if !doomed {
						held[trigger.ID] = i
					}
				}
				mu.Unlock()
				if doomed {
					gone = []string{process} // the next poll notices
					continue
				}
				for _, trigger := range got {
					mu.Lock()
					delete(held, trigger.ID)
					dealt[trigger.ID] = true
					mu.Unlock()
					if unknown, err := door.AckTriggers(t.Context(), "Oracle", []string{trigger.ID}); err != nil || len(unknown) > 0 {
						t.Errorf("ack: %v, %v", unknown, err)
					}
				}
				if len(got) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	for i := range triggers {
		w.add(t, i, inbox.Trigger{Type: inbox.Message, Key: fmt.Sprint(i)})
	}
	all.Wait()
	if len(dealt) != triggers {
		t.Errorf("%d were dealt with, want %d", len(dealt), triggers)
	}
}
