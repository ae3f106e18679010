package broker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"dibs/internal/mirror"
	"dibs/internal/task"
)

const (
	// rivalFor is how long an agent counts as active after a claim through another daemon.
	rivalFor = 30 * time.Minute
	// catchUpAfter is the age above which the mirror is brought up to date before a task is chosen
	// that rivals are as likely to choose. One query shows all their claims; a page read in vain
	// shows one.
	catchUpAfter = 2 * time.Second
	// sureAfter is the same for a task that no rival prefers: one that has run out of better tasks may
	// have taken it.
	sureAfter = 6 * time.Second
	// catchUpTime limits how long that may take.
	catchUpTime = 2 * time.Second
	// among is how many ready tasks of one priority to choose from while rivals are active.
	among = 64
)

// rivals are the agents known to claim on the board through other daemons. If every agent took the
// first task, all but one would do so in vain. So the agents draw lots for each task, which every
// daemon can compute, and each agent prefers the tasks for which its lot is the highest (rendezvous
// hashing). It is safe for concurrent use.
type rivals struct {
	seed maphash.Seed  // for this daemon's own order of tasks
	turn chan struct{} // taken by the caller that brings the mirror up to date

	mu  sync.Mutex
	met map[string]time.Time // the last claim of each agent; "" is an unknown one
}

func newRivals() rivals {
	return rivals{seed: maphash.MakeSeed(), turn: make(chan struct{}, 1), met: make(map[string]time.Time)}
}

// meet records a claim that an agent made through another daemon. The name may be empty.
func (r *rivals) meet(agent string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.met, func(_ string, at time.Time) bool { return time.Since(at) >= rivalFor })
	if at.After(r.met[agent]) && time.Since(at) < rivalFor {
		r.met[agent] = at
	}
}

// active reports whether rivals are at work on the board.
func (r *rivals) active() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.met {
		if time.Since(at) < rivalFor {
			return true
		}
	}
	return false
}

// besides returns the rivals with another name than agent's. namesake is set if one has its name.
func (r *rivals) besides(agent string) (names []string, namesake bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, namesake = r.met[agent]
	return slices.DeleteFunc(slices.Collect(maps.Keys(r.met)), func(name string) bool { return name == "" || name == agent }), namesake
}

// lot returns the lot that an agent draws for a task, the same at every daemon.
func lot(agent string, id task.ID) uint64 {
	sum := sha256.Sum256([]byte(agent + "\n" + string(id)))
	return binary.BigEndian.Uint64(sum[:])
}

// choose returns the first of the tasks, which come in the order in which they are offered. While
// rivals are active, it returns one of the first tasks of the same priority: one for which as few
// rivals as possible have drawn a higher lot than the agent. An agent begins with the tasks for
// which its own lot is the highest; of the others it takes first those that their rivals will take
// last. sure is set if nobody has drawn a higher lot. ok is false if there are no tasks.
func (r *rivals) choose(agent string, tasks iter.Seq[task.Task]) (chosen task.Task, sure, ok bool) {
	var rivals []string
	namesake, most := false, 1
	if r.active() {
		rivals, namesake = r.besides(agent)
		most = among
	}
	n, fewest, lowest := 0, 0, uint64(0)
	for t := range tasks {
		if ok && (n == most || t.Priority != chosen.Priority) {
			break
		}
		n++
		mine, highest, before := lot(agent, t.ID), uint64(0), 0
		for _, rival := range rivals {
			drawn := lot(rival, t.ID)
			if highest = max(highest, drawn); drawn > mine {
				before++
			}
		}
		rank := highest
		switch {
		case namesake: // draws the same lots
			rank = maphash.String(r.seed, string(t.ID))
		case before == 0:
			rank = ^mine
		}
		if !ok || cmp.Or(cmp.Compare(before, fewest), cmp.Compare(rank, lowest)) < 0 {
			chosen, ok, fewest, lowest = t, true, before, rank
		}
	}
	return chosen, fewest == 0, ok
}

// synced is a mirror that can be brought up to date.
type synced interface {
	Standing() mirror.Standing
	Sync(ctx context.Context, full bool) (mirror.Result, error)
}

// catchUp brings a mirror older than age up to date while rivals are active, and reports whether it
// did. Concurrent callers share one query. It gives up if that takes long, and does nothing while the
// whole board is being read.
func (r *rivals) catchUp(ctx context.Context, m synced, age time.Duration) bool {
	if s := m.Standing(); !r.active() || s.Old <= age || s.Progress != nil {
		return false
	}
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	defer time.AfterFunc(catchUpTime, giveUp).Stop()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return false
	}
	if m.Standing().Old <= age {
		return true // another caller did it
	}
	_, err := m.Sync(ctx, false)
	return err == nil
}
