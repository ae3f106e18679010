package reserve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
	"dibs/internal/kit/clock"
	"dibs/internal/kit/ratelimit"
)

// Storage stores reservations, so that they survive the daemon. Its methods are safe for concurrent
// use; each is one transaction, on the disk when it returns.
type Storage interface {
	// Reservations returns all stored reservations.
	Reservations(ctx context.Context) ([]Reservation, error)
	// StoreReservation stores a reservation, in place of any with the same id, and its facts.
	StoreReservation(ctx context.Context, r Reservation, news ...claim.Fact) error
	// EndReservations deletes reservations, and stores the facts of that.
	EndReservations(ctx context.Context, ids []string, news ...claim.Fact) error
	// Record stores facts that sum up others.
	Record(ctx context.Context, facts ...claim.Fact) error
}

// Config configures a Book. All fields are required.
type Config struct {
	Storage Storage
	Claims  Claims
	// Processes knows the processes that reservations may end with.
	Processes keepers.Processes
	// Clock has Notion's time.
	Clock clock.Source
	Log   *slog.Logger
}

// Claims has the claims that reservations may end with.
type Claims interface {
	// Find returns a claim, in any state.
	Find(ctx context.Context, id claim.ID) (claim.Hold, error)
}

// Book has the live reservations. It is safe for concurrent use.
type Book struct {
	config Config
	loop   *clock.Loop

	// changing is locked while a change is decided and stored, and mu while live is read or
	// replaced: so readers do not wait for the disk.
	changing sync.Mutex
	made     *ratelimit.Allowance // limits new reservations, by user
	folds    folds

	mu   sync.RWMutex
	live []entry // oldest first
}

// entry is a reservation with the matchers of its targets.
type entry struct {
	Reservation
	matchers []matcher
}

// NewBook returns a book of the stored reservations.
func NewBook(ctx context.Context, c Config) (*Book, error) {
	b := &Book{config: c, made: ratelimit.New(burst, every), folds: make(folds)}
	b.loop = clock.NewLoop(0, b.turn)
	stored, err := c.Storage.Reservations(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range stored {
		e, err := entryOf(r, on(r.Member))
		if err != nil { // a later version may have written it
			c.Log.Warn("a reservation is left out, because it cannot be read; its agent has to reserve again", "reservation", r.ID, claim.AttrAgent, r.Agent, claim.AttrError, err)
			continue
		}
		b.live = append(b.live, e)
	}
	return b, nil
}

// entryOf returns the entry of a reservation. at translates the places of its targets.
func entryOf(r Reservation, at func(Target) Target) (entry, error) {
	e := entry{Reservation: r}
	for _, t := range r.Targets {
		if err := t.check(); err != nil {
			return entry{}, err
		}
		m, err := matcherOf(at(t))
		if err != nil {
			return entry{}, err
		}
		if len(m.spots) > 0 {
			e.matchers = append(e.matchers, m)
		}
	}
	return e, nil
}

// Reserve reserves everything that r asks for, or nothing. Asking for the same again renews the
// reservation. The error is *Taken, *Full, *InvalidError or *claim.Lost, or the storage's.
func (b *Book) Reserve(ctx context.Context, r Request) (Reservation, error) {
	if err := r.check(); err != nil {
		return Reservation{}, err
	}
	b.changing.Lock()
	defer b.changing.Unlock()
	// First remove what is over, so that it stays over, whatever becomes of its claim: its
	// place may be given to somebody else now.
	if err := b.endOver(ctx); err != nil {
		return Reservation{}, err
	}
	now := b.config.Clock.Now()
	made := Reservation{
		ID: claim.NewFactID(now), Agent: r.Agent, UID: r.UID, Targets: r.Targets, Folder: r.Folder, Shared: r.Shared,
		Made: now, Until: now.Add(r.lasts()), Claim: r.Claim, Process: r.Process,
		Member: r.Member,
	}
	if err := b.bound(ctx, &made); err != nil {
		return Reservation{}, err
	}
	e, err := entryOf(made, on(made.Member))
	if err != nil {
		return Reservation{}, &InvalidError{Detail: err.Error()}
	}
	if taken := b.taken(ctx, e); taken != nil {
		return Reservation{}, taken
	}
	before := slices.IndexFunc(b.live, func(other entry) bool { return e.same(other.Reservation) })
	var news []claim.Fact
	if before >= 0 {
		e.ID, e.Made = b.live[before].ID, b.live[before].Made
		if e.Process == (keepers.Process{}) {
			e.Process = b.live[before].Process
		}
	} else if err := b.full(e.Reservation, now); err != nil {
		return Reservation{}, err
	}
	if before < 0 {
		b.made.Count(e.UID, now)
		news = []claim.Fact{b.announce(e.Reservation, now)}
	}
	if err := b.put(ctx, e, before, news...); err != nil {
		return Reservation{}, err
	}
	return b.effective(ctx, e.Reservation), nil
}

// put stores an entry, in place of live[in], or as a new one if in is negative.
func (b *Book) put(ctx context.Context, e entry, in int, news ...claim.Fact) error {
	if err := b.config.Storage.StoreReservation(ctx, e.Reservation, news...); err != nil {
		return err
	}
	b.mu.Lock()
	next := slices.Clone(b.live)
	if in >= 0 {
		next[in] = e
	} else {
		next = append(next, e)
	}
	b.live = next
	b.mu.Unlock()
	b.loop.Wake()
	return nil
}

// bound returns an error unless the reservation's claim lives and is its agent's.
func (b *Book) bound(ctx context.Context, r *Reservation) error {
	if r.Claim == "" {
		return nil
	}
	c, err := b.config.Claims.Find(ctx, r.Claim)
	if err != nil {
		return err
	}
	if c.Agent != r.Agent {
		return &InvalidError{Detail: fmt.Sprintf("claim %s is %s's: name one of %s's own", c.ID, c.Agent, r.Agent)}
	}
	if c.State != claim.Held {
		return claim.NotHeld(c)
	}
	if !c.StaleAt.After(r.Made) {
		return &claim.Lost{Claim: c, Detail: "its lease is over, and was not renewed"}
	}
	return nil
}

// taken returns the *Taken for the reservation that e conflicts with, or may conflict with: of
// several, the one that lasts longest. It returns nil if there is none.
func (b *Book) taken(ctx context.Context, e entry) error {
	var worst *Taken
	for _, other := range b.live {
		if other.Agent == e.Agent || other.Shared && e.Shared {
			continue
		}
		for _, m := range e.matchers {
			i := slices.IndexFunc(other.matchers, m.meets)
			if i < 0 {
				continue
			}
			r := b.effective(ctx, other.Reservation)
			if worst == nil || r.Until.After(worst.Until) {
				worst = &Taken{Asked: m.text, Pattern: other.matchers[i].text, By: r, Until: r.Until, Anywhere: anywhere(m)}
			}
			break
		}
	}
	if worst == nil {
		return nil
	}
	return worst
}

// Check returns a *Taken if the agent may not touch one of the targets, which are on the machine of a
// member, see Set.Taken: of several, the one that lasts longest. It writes nothing, and does not wait
// for changes.
func (b *Book) Check(ctx context.Context, agent, member string, targets []Target) error {
	b.mu.RLock()
	live := b.live
	b.mu.RUnlock()
	taken, err := Set{live, on(member), func(r Reservation) (Reservation, bool) {
		over, _ := b.over(ctx, r)
		return b.effective(ctx, r), over == ""
	}}.Taken(agent, targets)
	if err != nil {
		return err
	}
	var worst *Taken
	for _, t := range taken {
		if t != nil && (worst == nil || t.Until.After(worst.Until)) {
			worst = t
		}
	}
	if worst == nil {
		return nil
	}
	return worst
}

// List returns the reservations of one agent, or of all if agent is empty, oldest first.
func (b *Book) List(ctx context.Context, agent string) []Reservation {
	return b.list(ctx, agent, func(r Reservation) Reservation { return r })
}

// Compared is List with the targets as a member compares them: only at the places that its machine
// has. It makes a Set there.
func (b *Book) Compared(ctx context.Context, agent, member string) []Reservation {
	return b.list(ctx, agent, func(r Reservation) Reservation { return r.seenAt(member) })
}

func (b *Book) list(ctx context.Context, agent string, as func(Reservation) Reservation) []Reservation {
	b.mu.RLock()
	live := b.live
	b.mu.RUnlock()
	var out []Reservation
	for _, e := range live {
		if over, _ := b.over(ctx, e.Reservation); over == "" && (agent == "" || e.Agent == agent) {
			out = append(out, b.effective(ctx, as(e.Reservation)))
		}
	}
	return out
}

// Find returns a reservation. The error is *UnknownError.
func (b *Book) Find(ctx context.Context, id string) (Reservation, error) {
	for _, r := range b.List(ctx, "") {
		if r.ID == id {
			return r, nil
		}
	}
	return Reservation{}, &UnknownError{ID: id}
}

// Unreserve ends a reservation. If agent is not empty, the reservation has to be that agent's. The
// error is *UnknownError or *NotOwnerError, or the storage's.
func (b *Book) Unreserve(ctx context.Context, id, agent string) (Reservation, error) {
	b.changing.Lock()
	defer b.changing.Unlock()
	r, err := b.Find(ctx, id)
	if err != nil {
		return r, err
	}
	if agent != "" && r.Agent != agent {
		return r, &NotOwnerError{ID: id, Agent: r.Agent}
	}
	return r, b.end(ctx, map[string]string{id: "given back"})
}

// effective returns a reservation with Until set to its effective end: no later than the lease of its
// claim.
func (b *Book) effective(ctx context.Context, r Reservation) Reservation {
	if r.Claim == "" {
		return r
	}
	c, err := b.config.Claims.Find(ctx, r.Claim)
	if err == nil && c.State == claim.Held && c.StaleAt.Before(r.Until) {
		r.Until = c.StaleAt
	}
	return r
}

// over returns why a reservation is over; empty if it is not.
func (b *Book) over(ctx context.Context, r Reservation) (why string, err error) {
	now := b.config.Clock.Now()
	if !r.Until.After(now) {
		return "its time is over", nil
	}
	if r.Process != (keepers.Process{}) && b.config.Processes.Life(r.Process) == keepers.Gone {
		return fmt.Sprintf("process %d is gone", r.Process.ID), nil
	}
	if r.Claim == "" {
		return "", nil
	}
	c, err := b.config.Claims.Find(ctx, r.Claim)
	switch {
	case errors.Is(err, claim.ErrUnknownClaim):
		return "its claim is over", nil
	case err != nil:
		return "", err
	case c.State == claim.Finishing && c.Finish != nil:
		return "its claim is over: " + string(c.Finish.Ending()), nil
	case c.State != claim.Held:
		return "its claim is over: " + string(c.Ending), nil
	case !c.StaleAt.After(now):
		return "its claim was not renewed", nil
	}
	return "", nil
}

// endOver ends reservations that are over. changing is locked.
func (b *Book) endOver(ctx context.Context) error {
	ends := make(map[string]string)
	for _, e := range b.live {
		why, err := b.over(ctx, e.Reservation)
		if err != nil {
			return err
		}
		if why != "" {
			ends[e.ID] = why
		}
	}
	return b.end(ctx, ends)
}

// end ends reservations; ends has the reasons by id. changing is locked.
func (b *Book) end(ctx context.Context, ends map[string]string) error {
	if len(ends) == 0 {
		return nil
	}
	now := b.config.Clock.Now()
	var ids []string
	var news []claim.Fact
	left := make([]entry, 0, len(b.live))
	for _, e := range b.live {
		why, ended := ends[e.ID]
		if !ended {
			left = append(left, e)
			continue
		}
		ids = append(ids, e.ID)
		news = append(news, e.fact(claim.KindUnreserved, now, why))
	}
	if err := b.config.Storage.EndReservations(ctx, ids, news...); err != nil {
		return err
	}
	b.mu.Lock()
	b.live = left
	b.mu.Unlock()
	return nil
}
