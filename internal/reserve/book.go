package reserve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

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
	// Claims returns the claims of an agent, or of all if agent is empty, oldest first.
	Claims(agent string) []claim.Hold
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
	// attempts are the claims that are being made of tasks that touch something, see Touch.
	attempts map[claim.ID]toucher
}

// NewBook returns a book of the stored reservations.
func NewBook(ctx context.Context, c Config) (*Book, error) {
	b := &Book{config: c, made: ratelimit.New(burst, every), folds: make(folds), attempts: make(map[claim.ID]toucher)}
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
	all := b.reserved()
	b.mu.RLock()
	for _, a := range b.attempts {
		all = append(all, a.entry)
	}
	b.mu.RUnlock()
	for _, other := range all {
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
	taken, err := Set{b.reserved(), on(member), func(r Reservation) (Reservation, bool) {
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
	var out []Reservation
	for _, e := range b.reserved() {
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
	if id == string(r.Claim) {
		return r, &InvalidError{Detail: fmt.Sprintf("%s is what claim %s touches, and is reserved until its end: release or finish the claim", r.Says(), id)}
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

// The largest number of reserved patterns: of an agent, of a user under all names, and of all.
// Every pattern makes every request a little slower.
const (
	maxOfAgent = 256
	maxOfUser  = 1024
	maxOfAll   = 4096
)

// The rate of new reservations of a user: burst at once, and then one in every. Each leaves lines in
// the record.
const (
	burst = 200
	every = 5 * time.Second
)

// full returns a *Full if a new reservation would be too many. changing is locked.
func (b *Book) full(r Reservation, now time.Time) error {
	ofAgent, ofUser, all := 0, 0, 0
	for _, e := range b.live {
		all += len(e.Targets)
		if e.Agent == r.Agent {
			ofAgent += len(e.Targets)
		}
		if e.UID == r.UID && e.Member == r.Member {
			ofUser += len(e.Targets)
		}
	}
	n := len(r.Targets)
	switch {
	case ofAgent+n > maxOfAgent:
		return &Full{Detail: fmt.Sprintf("%s has %d patterns reserved, of at most %d: give some back with dibs unreserve, or reserve folders in the place of files", r.Agent, ofAgent, maxOfAgent)}
	case ofUser+n > maxOfUser:
		return &Full{Detail: fmt.Sprintf("the user of this agent has %d patterns reserved under all names, of at most %d: give some back with dibs unreserve", ofUser, maxOfUser)}
	case all+n > maxOfAll:
		return &Full{Detail: fmt.Sprintf("%d patterns are reserved by all agents, of at most %d: try again when some were given back", all, maxOfAll)}
	}
	if wait := b.made.Wait(r.UID, now); wait > 0 {
		return &Full{Detail: fmt.Sprintf("too many reservations were made by the user of this agent: reserve more patterns at a time, and renew in the place of making new ones; try again in %v", wait.Round(time.Second)), RetryAfter: wait}
	}
	return nil
}

// fact returns the fact that r was made or has ended. why is the reason, if there is one to give.
func (r Reservation) fact(kind claim.Kind, at time.Time, why string) claim.Fact {
	f := claim.Fact{
		ID: claim.NewFactID(at), At: at, Kind: kind, Agent: r.Agent, Claim: r.Claim, Detail: r.Says(),
		Reservation: r.ID, Patterns: r.Patterns(), Shared: r.Shared,
	}
	if kind == claim.KindReserved {
		f.Expires = r.Until
	}
	if r.Folder != "" {
		f.Detail += " in " + r.Folder
	}
	if why != "" {
		f.Detail += ": " + why
	}
	return f
}

// quiet is the time between two entries in the mesh log about an agent's reservations. Every entry
// is a request to Notion, and those are few.
const quiet = time.Minute

// folds has the reservations that are not in the mesh log yet, by agent.
type folds map[string]*fold

type fold struct {
	// until is when the next entry may be made.
	until time.Time
	count int
	last  Reservation
}

// announce returns the fact of a new reservation. An agent's first one in a while gets an entry of its
// own in the mesh log; those soon after it share one, see unfold. changing is locked.
func (b *Book) announce(r Reservation, now time.Time) claim.Fact {
	made := r.fact(claim.KindReserved, now, "")
	f := b.folds[r.Agent]
	if f == nil {
		b.folds[r.Agent] = &fold{until: now.Add(quiet)}
		made.Remote = true
		return made
	}
	f.count++
	f.last = r
	return made
}

// unfold makes the shared entries in the mesh log that are due. changing is locked.
func (b *Book) unfold(ctx context.Context) error {
	now := b.config.Clock.Now()
	for agent, f := range b.folds {
		switch {
		case f.until.After(now):
			continue
		case f.count == 0:
			delete(b.folds, agent)
			continue
		}
		why := "told late, because others were reserved just before"
		if f.count > 1 {
			why = fmt.Sprintf("the last of %d", f.count)
		}
		sum := f.last.fact(claim.KindReserved, now, why)
		sum.Remote, sum.Count, sum.Reservation = true, f.count, ""
		if err := b.config.Storage.Record(ctx, sum); err != nil {
			return err
		}
		b.folds[agent] = &fold{until: now.Add(quiet)}
	}
	return nil
}

// checkEvery is how often the book checks whether something is over.
const checkEvery = time.Second

// Run ends reservations that are over, until ctx ends.
func (b *Book) Run(ctx context.Context) { b.loop.Run(ctx) }

// turn is one turn of the loop. It returns the wait until the next.
func (b *Book) turn(ctx context.Context) time.Duration {
	if b.RunOnce(ctx) {
		return checkEvery
	}
	return clock.UntilWoken // by whoever reserves something
}

// RunOnce ends reservations that are over, and makes the entries in the mesh log that are due. It
// reports whether anything is left to watch.
func (b *Book) RunOnce(ctx context.Context) bool {
	b.changing.Lock()
	defer b.changing.Unlock()
	err := b.endOver(ctx)
	if err == nil {
		err = b.unfold(ctx)
	}
	if err != nil && ctx.Err() == nil {
		b.config.Log.Warn("reservations that are over could not be ended; it is tried again", claim.AttrError, err)
	}
	return len(b.live) > 0 || len(b.folds) > 0
}

// Claimed reports a change of a claim. Reservations that end with it end soon.
func (b *Book) Claimed(c claim.Hold) {
	if c.State == claim.Held {
		return
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, e := range b.live {
		if e.Claim == c.ID {
			b.loop.Wake()
			return
		}
	}
}

// touchers returns the live claims that touch something, oldest first.
func (b *Book) touchers() (all []toucher) {
	now := b.config.Clock.Now()
	for _, c := range b.config.Claims.Claims("") {
		if len(c.Touches) > 0 && c.State == claim.Held && c.StaleAt.After(now) {
			all = append(all, toucherOf(c))
		}
	}
	return all
}

// reserved returns the stored reservations, and those that are parts of claims.
func (b *Book) reserved() []entry {
	b.mu.RLock()
	all := slices.Clip(b.live)
	b.mu.RUnlock()
	for _, t := range b.touchers() {
		if len(t.Targets) > 0 {
			all = append(all, t.entry)
		}
	}
	return all
}

// Touched returns what others than the agent have, for work in a repository, see claim.Hold.
func (b *Book) Touched(ctx context.Context, agent, repository, member string) Touched {
	t := Touched{repository: repository, member: member}
	others := func(e entry) bool { return e.Agent != agent }
	b.mu.RLock()
	live := b.live
	for _, a := range b.attempts {
		if others(a.entry) {
			t.claims = append(t.claims, a)
		}
	}
	b.mu.RUnlock()
	for _, c := range b.touchers() {
		if others(c.entry) {
			t.claims = append(t.claims, c)
		}
	}
	for _, e := range live {
		if over, _ := b.over(ctx, e.Reservation); others(e) && over == "" {
			e.Reservation = b.effective(ctx, e.Reservation)
			t.live = append(t.live, e)
		}
	}
	return t
}

// Touch takes what the attempt at a claim touches, until Untouch: from then on, a granted claim has it
// by itself. It takes nothing and returns what is in the way if that is another agent's.
func (b *Book) Touch(ctx context.Context, c claim.Hold) *Taken {
	b.changing.Lock()
	defer b.changing.Unlock()
	if taken := b.Touched(ctx, c.Agent, c.Repository, c.Member).By(c.Touches); taken != nil {
		return taken
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attempts[c.ID] = toucherOf(c)
	return nil
}

// Untouch ends what Touch took. An attempt that took nothing may call it as well.
func (b *Book) Untouch(id claim.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.attempts, id)
}
