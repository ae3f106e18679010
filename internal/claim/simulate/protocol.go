package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
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

// contests returns the rows of the report.
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

// daemon returns a claimer of dibs.
func (r *race) daemon(i int) entrant {
	d := r.register.Daemon(sim.DaemonOptions{
		StoreOptions: r.storeOptions(i), Policy: r.policy(*r.settle), Fault: r.late(i),
	})
	return entrant{
		claim: func(ctx context.Context) bool {
			_, err := d.Claim(ctx, claim.Request{Agent: name(i), Task: task.Task{ID: page}})
			return err == nil
		},
		// The next sync repairs a failure, or the outcome shows it.
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

// readBack writes a claim with its own token, reads it back at once, and trusts the result. It
// gives up if a request fails.
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

// nameWait is how long nameAsToken waits. With a unique token it would suffice as a settle wait:
// the wait is not the fault of that protocol.
const nameWait = 3 * time.Second

// nameAsToken writes the agent's name, waits, reads back, and takes its name as proof that its
// write was the last. Two sessions share each name, as when one account runs two.
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

// lowestComment comments on an open task, waits, and reads the comments. If its own has the lowest
// id, it has won and writes its claim without verifying it. It gives up if its comment fails.
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

// thread has the comments on the task of a race.
type thread struct {
	mu       sync.Mutex
	ids      *rand.Rand
	lowestID uint64
	lowestBy string
}

func newThread(seed uint64) *thread {
	return &thread{ids: rand.New(rand.NewPCG(seed, 0))}
}

// add adds a comment. Its id is the server's UUID, which does not tell which comment came first.
func (t *thread) add(by string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id := t.ids.Uint64(); t.lowestBy == "" || id < t.lowestID {
		t.lowestID, t.lowestBy = id, by
	}
}

// post sends a comment of the ith claimer, which may land late like a claim write.
func (r *race) post(draw *rand.Rand, i int) error {
	if draw.Float64() < r.Late {
		time.AfterFunc(sim.UpTo(draw, latest), func() { r.thread.add(name(i)) })
		return claim.Errorf(claim.Unavailable, claim.LandedUnknown, "comment on %s: connection reset", page)
	}
	d := r.delay(draw, i)
	time.Sleep(d.Before)
	r.thread.add(name(i))
	time.Sleep(d.After)
	return nil
}

// lowest returns the author of the comment with the lowest id, read by the ith claimer.
func (r *race) lowest(draw *rand.Rand, i int) string {
	d := r.delay(draw, i)
	time.Sleep(d.Before)
	r.thread.mu.Lock()
	by := r.thread.lowestBy
	r.thread.mu.Unlock()
	time.Sleep(d.After)
	return by
}
