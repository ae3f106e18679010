package broker

import (
	"context"
	"hash/maphash"
	"iter"
	"sync"
	"time"

	"dibs/internal/task"
)

const (
	// othersFor is how long after a task was found to be another daemon's others are
	// taken to be at work on the board.
	othersFor = 10 * time.Minute
	// catchUpAfter is how old the mirror may be, meanwhile, when a task is to be chosen:
	// one query tells of all that others have claimed, a page read in vain of one.
	catchUpAfter = 5 * time.Second
	// catchUpTime is how long that may take.
	catchUpTime = 2 * time.Second
	// among is how many of the ready tasks of one priority are chosen from, meanwhile.
	among = 64
)

// others is what is known of other daemons on the board. Where there are some, all would
// choose the same task at the same time, and all but one in vain. So each chooses by an
// order of its own. It is safe for concurrent use.
type others struct {
	seed maphash.Seed // of this daemon's order

	mu  sync.Mutex
	met time.Time // when one was last met; zero if never
}

// meet takes note that a task which looked ready was another daemon's.
func (o *others) meet() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.met = time.Now()
}

// there reports whether others are at work on the board.
func (o *others) there() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.met.IsZero() && time.Since(o.met) < othersFor
}

// choose returns the first of the tasks, which are in the order in which they are
// offered; while there are others, one of the first of the same priority. It is false
// if there are no tasks.
func (o *others) choose(tasks iter.Seq[task.Task]) (chosen task.Task, ok bool) {
	there := o.there()
	n, lowest := 0, uint64(0)
	for t := range tasks {
		if ok && (!there || n == among || t.Priority != chosen.Priority) {
			break
		}
		n++
		if rank := maphash.String(o.seed, string(t.ID)); !ok || rank < lowest {
			chosen, ok, lowest = t, true, rank
		}
	}
	return chosen, ok
}

// catchUp brings the mirror up to date before a task is chosen, while there are others.
// If that fails, takes long, or the whole board is being read, the mirror has to do as
// it is.
func (o *others) catchUp(ctx context.Context, m Mirror) {
	if s := m.Standing(); !o.there() || s.Old <= catchUpAfter || s.Progress != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpTime)
	defer cancel()
	_, _ = m.Sync(ctx, false)
}
