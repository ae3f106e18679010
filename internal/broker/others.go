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

	"dibs/internal/task"
)

const (
	// othersFor is how long after a claim through another daemon its agent is taken to be at
	// work on the board.
	othersFor = 30 * time.Minute
	// catchUpAfter is how old the mirror may be when a task is to be chosen that others are as
	// likely to choose: one query tells of all that others have claimed, a page read in vain
	// of one.
	catchUpAfter = 2 * time.Second
	// catchUpTime is how long that may take.
	catchUpTime = 2 * time.Second
	// among is how many of the ready tasks of one priority are chosen from, meanwhile.
	among = 64
)

// others are the agents that claim on the board through other daemons, as far as they are
// known. If there were some and each agent took the first task, all but one would do so in
// vain. So the agents draw lots for each task, whose numbers every daemon knows, and each
// prefers the tasks for which it has the highest (rendezvous hashing). It is safe for
// concurrent use.
type others struct {
	seed maphash.Seed  // of this daemon's own order of tasks
	turn chan struct{} // taken by the one who brings the mirror up to date

	mu  sync.Mutex
	met map[string]time.Time // when each agent last made a claim; an empty name is one not known
}

func newOthers() others {
	return others{seed: maphash.MakeSeed(), turn: make(chan struct{}, 1), met: make(map[string]time.Time)}
}

// meet takes note of a claim that an agent made through another daemon. The name may be empty.
func (o *others) meet(agent string, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.met, func(_ string, at time.Time) bool { return time.Since(at) >= othersFor })
	if at.After(o.met[agent]) && time.Since(at) < othersFor {
		o.met[agent] = at
	}
}

// there reports whether others are at work on the board.
func (o *others) there() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, at := range o.met {
		if time.Since(at) < othersFor {
			return true
		}
	}
	return false
}

// rivals are the agents, beside that one, that are known to be at work. namesake is set if one
// of that name is.
func (o *others) rivals(agent string) (names []string, namesake bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, namesake = o.met[agent]
	return slices.DeleteFunc(slices.Collect(maps.Keys(o.met)), func(name string) bool { return name == "" || name == agent }), namesake
}

// lot is what an agent draws for a task, the same at every daemon.
func lot(agent string, id task.ID) uint64 {
	sum := sha256.Sum256([]byte(agent + "\n" + string(id)))
	return binary.BigEndian.Uint64(sum[:])
}

// choose returns the first of the tasks, which are in the order in which they are offered;
// while there are others, one of the first of the same priority, for which as few of them as can
// be have drawn a higher lot than the agent. Each begins with the tasks for which its lot is the
// highest, and takes of the others' first what these will take last. sure is set if nobody has
// drawn a higher one, and ok is false if there are no tasks.
func (o *others) choose(agent string, tasks iter.Seq[task.Task]) (chosen task.Task, sure, ok bool) {
	var rivals []string
	namesake, most := false, 1
	if o.there() {
		rivals, namesake = o.rivals(agent)
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
		case namesake: // who draws the same lots
			rank = maphash.String(o.seed, string(t.ID))
		case before == 0:
			rank = ^mine
		}
		if !ok || cmp.Or(cmp.Compare(before, fewest), cmp.Compare(rank, lowest)) < 0 {
			chosen, ok, fewest, lowest = t, true, before, rank
		}
	}
	return chosen, fewest == 0, ok
}

// catchUp brings the mirror up to date, if there are others and it is not, and reports whether
// it has; those who ask for it at the same time are served by one query. If that takes long, or
// the whole board is being read, the mirror has to do as it is.
func (o *others) catchUp(ctx context.Context, m Mirror) bool {
	if s := m.Standing(); !o.there() || s.Old <= catchUpAfter || s.Progress != nil {
		return false
	}
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	defer time.AfterFunc(catchUpTime, giveUp).Stop()
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return false
	}
	if m.Standing().Old <= catchUpAfter {
		return true // while it waited for its turn
	}
	_, err := m.Sync(ctx, false)
	return err == nil
}

// Met takes note of a claim that an agent made through a daemon with which this one has nothing
// to do, that long ago.
func (b *Broker) Met(agent string, ago time.Duration) { b.others.meet(agent, time.Now().Add(-ago)) }
