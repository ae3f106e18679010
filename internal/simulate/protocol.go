package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/claimsim"
	"dibs/internal/task"
)

// contest is a way of claiming that is tried in races.
type contest struct {
	protocol string
	// settle is the settle wait of dibs, nil for a protocol by hand.
	settle *time.Duration
	// enter makes the ith claimer of a race.
	enter func(r *race, i int) entrant
}

// contests are those of the report, a row each.
func (o Options) contests() []contest {
	var all []contest
	for _, settle := range o.Settles {
		all = append(all, contest{protocol: "dibs", settle: &settle, enter: (*race).daemon})
	}
	return append(all,
		contest{protocol: "write, read back at once", enter: (*race).readBack},
		contest{protocol: fmt.Sprintf("name as token, read back after %v", nameWait), enter: (*race).nameAsToken},
		contest{protocol: fmt.Sprintf("lowest comment id after %v", commentWait), enter: (*race).lowestComment},
	)
}

// daemon is a claimer of dibs.
func (r *race) daemon(i int) entrant {
	d := r.register.Daemon(claimsim.DaemonOptions{
		StoreOptions: r.storeOptions(i), Policy: r.policy(*r.settle), Fault: r.late(i),
	})
	return entrant{
		claim: func(ctx context.Context) bool {
			_, err := d.Claim(ctx, claim.Request{Agent: name(i), Task: task.Task{ID: page}})
			return err == nil
		},
		// What goes wrong in a sync is put right in the next, or shows in the outcome.
		sync: func(ctx context.Context) { _ = d.Sync(ctx) },
	}
}

// open reports whether a claimer by hand finds the task open.
func open(ctx context.Context, s claim.Store) bool {
	r, err := s.Get(ctx, page)
	return err == nil && r.Task.Status == task.Open && r.Task.ClaimedBy == ""
}

// put writes a claim by hand.
func put(ctx context.Context, s claim.Store, agent, token string) error {
	_, err := s.Write(ctx, page, claim.Write{
		Status: new(task.InProgress), ClaimedBy: new(agent), ClaimedAt: new(s.Now()), Token: new(token),
	})
	return err
}

// readBack writes a claim with a token of its own, reads it back at once, and
// believes what it reads. It gives up if a request fails.
func (r *race) readBack(i int) entrant {
	s := r.store(i)
	return entrant{claim: func(ctx context.Context) bool {
		if !open(ctx, s) || put(ctx, s, name(i), name(i)) != nil {
			return false
		}
		got, err := s.Get(ctx, page)
		return err == nil && got.Task.Token == name(i)
	}}
}

// nameWait is how long nameAsToken waits. It is as long as a settle wait that
// would do for a token of its own: the wait is not what is wrong with it.
const nameWait = 3 * time.Second

// nameAsToken writes the agent's name, waits, reads back, and takes its name
// for the proof that its write was the last. Each name is that of two sessions,
// as when one account runs two.
func (r *race) nameAsToken(i int) entrant {
	s, agent := r.store(i), name(i/2)
	return entrant{claim: func(ctx context.Context) bool {
		if !open(ctx, s) || put(ctx, s, agent, "") != nil {
			return false
		}
		time.Sleep(nameWait)
		got, err := s.Get(ctx, page)
		return err == nil && got.Task.ClaimedBy == agent
	}}
}

// commentWait is how long lowestComment waits before it reads the comments.
const commentWait = 5 * time.Second

// lowestComment comments on an open task, waits, reads the comments, and has won
// if its own has the lowest id; it then writes its claim. It gives up if its
// comment fails, and takes its claim write on faith.
func (r *race) lowestComment(i int) entrant {
	s := r.store(i)
	draw := rand.New(rand.NewPCG(r.seed, uint64(i)))
	return entrant{claim: func(ctx context.Context) bool {
		if !open(ctx, s) || r.post(draw, i) != nil {
			return false
		}
		time.Sleep(commentWait)
		if r.lowest(draw, i) != name(i) {
			return false
		}
		_ = put(ctx, s, name(i), name(i))
		return true
	}}
}

// thread is the comments on the task of a race.
type thread struct {
	mu       sync.Mutex
	ids      *rand.Rand
	lowestID uint64
	lowestBy string
}

func newThread(seed uint64) *thread {
	return &thread{ids: rand.New(rand.NewPCG(seed, 0))}
}

// add makes a comment. Its id is the server's, a UUID, which says nothing about
// which comment came first.
func (t *thread) add(by string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id := t.ids.Uint64(); t.lowestBy == "" || id < t.lowestID {
		t.lowestID, t.lowestBy = id, by
	}
}

// post sends a comment of the ith claimer, which may land late, as a claim write may.
func (r *race) post(draw *rand.Rand, i int) error {
	if draw.Float64() < r.Late {
		time.AfterFunc(claimsim.UpTo(draw, latest), func() { r.thread.add(name(i)) })
		return claim.Errorf(claim.Unavailable, claim.LandedUnknown, "comment on %s: connection reset", page)
	}
	d := r.delay(draw, i)
	time.Sleep(d.Before)
	r.thread.add(name(i))
	time.Sleep(d.After)
	return nil
}

// lowest asks for the comments, as the ith claimer, and returns who wrote the one with the lowest id.
func (r *race) lowest(draw *rand.Rand, i int) string {
	d := r.delay(draw, i)
	time.Sleep(d.Before)
	r.thread.mu.Lock()
	by := r.thread.lowestBy
	r.thread.mu.Unlock()
	time.Sleep(d.After)
	return by
}
