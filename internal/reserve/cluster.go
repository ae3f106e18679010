package reserve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dibs/internal/alive"
)

// Shelf is where the members of a cluster put what they have reserved, for all to see. Its
// methods are safe for concurrent use.
type Shelf interface {
	// All returns what is on the shelf, by id, and as of which revision.
	All(context.Context) (things map[string][]byte, at int64, err error)
	// Put puts a thing there for that long. done is false, and nothing was put, if anybody has
	// put something there since that revision.
	Put(ctx context.Context, id string, thing []byte, lasting time.Duration, at int64) (done bool, err error)
	// Delete takes a thing off the shelf, if it is there.
	Delete(ctx context.Context, id string) error
	// Await returns when something has changed there since that revision, or may have.
	Await(ctx context.Context, since int64) error
}

// Cluster is what a Book has in common with those of other daemons.
type Cluster struct {
	Shelf Shelf
	// Member is the id of this daemon in the cluster, and Name what it is called.
	Member, Name string
}

// processTime is for how long a reservation that ends with a process is put on the shelf: as
// long as its member looks after it, it is put anew.
const processTime = 10 * time.Minute

// again is when to look again at a shelf that cannot be reached.
const again = time.Second

// shared is a reservation as it is on the shelf.
type shared struct {
	Reservation
	// By is the id of the member that has made it.
	By string `json:"by"`
	// Ended says that it was given back at another member, and how.
	Ended string `json:"ended,omitempty"`
}

// view is what was on the shelf when it was looked at last.
type view struct {
	at     int64
	theirs []entry           // made at other members
	mine   map[string]shared // by id
	put    map[string]time.Time
}

// lasting returns what others have now.
func (v view) lasting(now time.Time) []entry {
	return slices.DeleteFunc(slices.Clone(v.theirs), func(e entry) bool { return !e.Until.After(now) })
}

// stray reports whether something on the shelf is of a reservation that this member does not
// have any more.
func (v view) stray(live []entry) bool {
	for id := range v.mine {
		if !slices.ContainsFunc(live, func(e entry) bool { return e.ID == id }) {
			return true
		}
	}
	return false
}

// seen returns the view.
func (b *Book) seen() view {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.view
}

// named is a reservation with the name of the member that has made it.
func (b *Book) named(r Reservation) Reservation {
	if b.config.Cluster != nil && r.Member == "" {
		r.Member = b.config.Cluster.Name
	}
	return r
}

// follow keeps the view as the shelf is until ctx ends.
func (b *Book) follow(ctx context.Context) {
	for ctx.Err() == nil {
		err := b.look(ctx)
		if err == nil {
			b.rouse() // what ended elsewhere, or is no longer there
			err = b.config.Cluster.Shelf.Await(ctx, b.seen().at)
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(again):
			}
		}
	}
}

// look looks at the shelf.
func (b *Book) look(ctx context.Context) error {
	c := b.config.Cluster
	if c == nil {
		return nil
	}
	things, at, err := c.Shelf.All(ctx)
	if err != nil {
		return err
	}
	v := view{at: at, mine: make(map[string]shared)}
	for id, thing := range things {
		var s shared
		if err := json.Unmarshal(thing, &s); err != nil {
			b.config.Log.Warn("a reservation is left out, because it cannot be read", "reservation", id, "error", err)
			continue
		}
		if s.By == c.Member {
			v.mine[id] = s
			continue
		}
		if s.Ended != "" {
			continue
		}
		e, err := markedEntry(s.Reservation, common)
		if err != nil { // by what a later version knows
			b.config.Log.Warn("a reservation is left out, because it cannot be read", "reservation", id, "agent", s.Agent, "error", err)
			continue
		}
		e.by, e.Elsewhere = s.By, true
		v.theirs = append(v.theirs, e)
	}
	slices.SortFunc(v.theirs, func(a, b entry) int { return strings.Compare(a.ID, b.ID) })
	b.mu.Lock()
	defer b.mu.Unlock()
	if at >= b.view.at {
		v.put = b.view.put
		b.view = v
	}
	return nil
}

// common reports whether a spot is the same one on other machines.
func common(s Spot) bool { return s.Place == Names || strings.HasPrefix(s.Place, OriginPrefix) }

// share puts a reservation on the shelf. done is false if somebody has put something there
// since it was as in v. changing is held.
func (b *Book) share(ctx context.Context, r Reservation, v view) (done bool, err error) {
	c := b.config.Cluster
	if c == nil {
		return true, nil
	}
	r = b.named(b.standing(ctx, r))
	now := b.config.Now()
	lasting := r.Until.Sub(now)
	if r.Process != (alive.Process{}) {
		lasting = min(lasting, processTime)
	}
	thing, err := json.Marshal(shared{Reservation: r, By: c.Member})
	if err != nil {
		return false, err
	}
	if done, err = c.Shelf.Put(ctx, r.ID, thing, max(lasting, time.Second), v.at); !done || err != nil {
		return done, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.view.put == nil {
		b.view.put = make(map[string]time.Time)
	}
	b.view.put[r.ID] = now
	if b.view.mine != nil {
		b.view.mine[r.ID] = shared{Reservation: r, By: c.Member}
	}
	return true, nil
}

// unshare takes a reservation off the shelf. If that fails, tend does it.
func (b *Book) unshare(ctx context.Context, id string) {
	if b.config.Cluster == nil {
		return
	}
	if err := b.config.Cluster.Shelf.Delete(ctx, id); err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.view.mine, id)
	delete(b.view.put, id)
}

// giveBack ends a reservation of another member, which is told by what is on the shelf.
func (b *Book) giveBack(ctx context.Context, r Reservation) error {
	for {
		if err := b.look(ctx); err != nil {
			return err
		}
		v := b.seen()
		i := slices.IndexFunc(v.theirs, func(e entry) bool { return e.ID == r.ID })
		if i < 0 {
			return &UnknownError{ID: r.ID}
		}
		e := v.theirs[i]
		thing, err := json.Marshal(shared{Reservation: e.Reservation, By: e.by, Ended: "given back at " + b.config.Cluster.Name})
		if err != nil {
			return err
		}
		done, err := b.config.Cluster.Shelf.Put(ctx, r.ID, thing, max(e.Until.Sub(b.config.Now()), time.Minute), v.at)
		if err != nil {
			return err
		}
		if done {
			return b.look(ctx)
		}
	}
}

// tend ends what was given back at other members, and puts what this one has on the shelf as
// it is now. changing is held.
func (b *Book) tend(ctx context.Context) error {
	if b.config.Cluster == nil {
		return nil
	}
	v := b.seen()
	if v.mine == nil {
		return nil // it was not looked at yet
	}
	ends := make(map[string]string)
	for id, s := range v.mine {
		switch i := slices.IndexFunc(b.live, func(e entry) bool { return e.ID == id }); {
		case i < 0:
			b.unshare(ctx, id)
		case s.Ended != "":
			ends[id] = s.Ended
		}
	}
	if err := b.end(ctx, ends); err != nil {
		return err
	}
	for _, e := range slices.Clone(b.live) {
		r := b.standing(ctx, e.Reservation)
		s, there := v.mine[e.ID]
		fresh := r.Process == (alive.Process{}) || b.config.Now().Sub(v.put[e.ID]) < processTime/2
		if there && fresh && s.Until.Equal(r.Until) {
			continue
		}
		if taken, is := errors.AsType[*Taken](b.taken(ctx, e, v)); is && !there {
			why := fmt.Sprintf("%s reserved it while the cluster did not know of it", taken.By.Agent)
			if err := b.end(ctx, map[string]string{e.ID: why}); err != nil {
				return err
			}
			continue
		}
		if done, err := b.share(ctx, e.Reservation, v); err != nil || !done || b.look(ctx) != nil {
			return nil // it is tried again, with what is there by then
		}
		v = b.seen()
	}
	return nil
}
