package sim

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/kit/clock"
	"dibs/internal/task"
)

// StoreOptions configure one daemon's access to the register.
type StoreOptions struct {
	// Name tells the stores of a register apart, in the register's history and in the drawing
	// of delays.
	Name string
	// Seed, with the name and the task, decides what Latency draws. Each task has its own
	// sequence of draws.
	Seed uint64
	// Latency is Instant if nil.
	Latency Latency
	// Timeout is when a call is given up; 10 s if zero. A write without effect by then still
	// takes effect when its time comes.
	Timeout time.Duration
	// Pace is the shortest time between the permits of two requests.
	Pace time.Duration
	// Skew is by how much the daemon's own clock is ahead of the register's.
	Skew time.Duration
}

// Store is one daemon's access to a Register: a claim.Store.
type Store struct {
	*machine
	register *Register
	options  StoreOptions
	clock    *clock.Clock

	mu    sync.Mutex
	draws map[task.ID]*rand.Rand
	free  time.Time // when the next permit is free
	calls []Call
	given []*permits
}

var _ claim.Store = (*Store)(nil)

// Call is a request that was sent.
type Call struct {
	Sent time.Time
	Task task.ID
	// Write is nil for a read.
	Write *claim.Write
	// Unpermitted is set if the context carried no permit for it.
	Unpermitted bool
}

// Store returns a new access to the register.
func (r *Register) Store(o StoreOptions) *Store {
	if o.Latency == nil {
		o.Latency = Instant
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	s := &Store{register: r, options: o, machine: newMachine(o.Skew), draws: make(map[task.ID]*rand.Rand)}
	s.clock = clock.New(s.instant())
	return s
}

type permitsKey struct{}

// permits are the unused permits of one call of Permit, guarded by Store.mu. The end of ctx
// returns them.
type permits struct {
	left int
	ctx  context.Context
}

// Permit implements claim.Store.
func (s *Store) Permit(ctx context.Context, n int) (context.Context, error) {
	s.mu.Lock()
	now := time.Now()
	turn := now
	if s.free.After(now) {
		turn = s.free
	}
	s.free = turn.Add(time.Duration(n) * s.options.Pace)
	s.mu.Unlock()
	if err := Sleep(ctx, turn.Sub(now)); err != nil {
		return nil, err
	}
	p := &permits{left: n, ctx: ctx}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = append(slices.DeleteFunc(s.given, func(p *permits) bool { return p.left == 0 || p.ctx.Err() != nil }), p)
	return context.WithValue(ctx, permitsKey{}, p), nil
}

// Unspent returns how many permits were neither used nor returned.
func (s *Store) Unspent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, p := range s.given {
		if p.ctx.Err() == nil {
			n += p.left
		}
	}
	return n
}

// Get implements claim.Store.
func (s *Store) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	return s.call(ctx, id, nil, func() (task.Task, error) { return s.register.read(id) })
}

// Write implements claim.Store.
func (s *Store) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	return s.call(ctx, id, &w, func() (task.Task, error) { return s.register.write(s.options.Name, id, w) })
}

// call sends a request, applies its effect and returns its answer, each after its delay.
func (s *Store) call(ctx context.Context, id task.ID, w *claim.Write, effect func() (task.Task, error)) (claim.Reading, error) {
	if ctx.Value(instantlyKey{}) != nil {
		t, err := effect()
		return claim.Reading{Task: t, At: time.Now().Truncate(time.Second)}, err
	}
	if h, struck := ctx.Value(haltKey{}).(halt); struck {
		s.Halt(h.what, h.lasts)
	}
	defer s.GoOn() // a halted daemon notices no answer
	began := s.instant()
	s.GoOn()
	d := s.send(ctx, id, w)
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()

	sent := time.Now()
	if err := Sleep(ctx, d.Before); err != nil {
		// A write that was given up is still on its way.
		if w != nil {
			time.AfterFunc(time.Until(sent.Add(d.Before)), func() { effect() })
		}
		return claim.Reading{}, unanswered(id, err)
	}
	t, err := effect()
	if err := Sleep(ctx, d.Dated); err != nil {
		return claim.Reading{}, unanswered(id, err)
	}
	date := time.Now().Truncate(time.Second)
	if err := Sleep(ctx, d.After); err != nil {
		return claim.Reading{}, unanswered(id, err)
	}

	s.GoOn()
	return s.dated(ctx, t, date, began), err
}

// dated returns the reading of an answer with that Date.
func (s *Store) dated(ctx context.Context, t task.Task, date time.Time, sent clock.Instant) claim.Reading {
	ok := true
	if wrong, struck := ctx.Value(dateKey{}).(func(time.Time) (time.Time, bool)); struck {
		date, ok = wrong(date)
	}
	if !ok || !s.clock.Hear(date, sent, s.instant()) {
		return claim.Reading{Task: t, At: s.Now(), Unsure: true}
	}
	return claim.Reading{Task: t, At: date}
}

// hear lets the daemon hear the time of an answer that came at once.
func (s *Store) hear() {
	now := s.instant()
	s.clock.Hear(time.Now().Truncate(time.Second), now, now)
}

// send records the call, takes its permit and draws its delay.
func (s *Store) send(ctx context.Context, id task.ID, w *claim.Write) Delay {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := Call{Sent: time.Now(), Task: id, Write: w}
	if p, ok := ctx.Value(permitsKey{}).(*permits); ok && p.left > 0 {
		p.left--
	} else {
		c.Unpermitted = true
	}
	s.calls = append(s.calls, c)

	if s.draws[id] == nil {
		h := fnv.New64a()
		h.Write([]byte(s.options.Name + "/" + string(id)))
		s.draws[id] = rand.New(rand.NewPCG(s.options.Seed, h.Sum64()))
	}
	return s.options.Latency(s.draws[id])
}

// unanswered returns the error of a call that was given up before its answer.
func unanswered(id task.ID, err error) error {
	return claim.Errorf(claim.Unavailable, claim.LandedUnknown, "page %s: no answer: %w", id, err)
}

// Now implements claim.Store as the daemon does: it goes by the Dates of answers, and by the
// machine's clocks in between.
func (s *Store) Now() time.Time { return s.clock.Now(s.instant()) }

// Instant returns the present by the clocks of the daemon's machine.
func (s *Store) Instant() clock.Instant { return s.instant() }

// Calls returns the requests sent so far, in order.
func (s *Store) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

type instantlyKey struct{}

// instantly returns a context whose calls take no time and need no permit.
func instantly(ctx context.Context) context.Context {
	return context.WithValue(ctx, instantlyKey{}, true)
}

// Sleep waits for d, or for ctx to end.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Delay is how long one call takes.
type Delay struct {
	// Before is the time from the sending to the instant of its effect.
	Before time.Duration
	// Dated is the time from there until the answer gets its Date.
	Dated time.Duration
	// After is the time from there until the answer arrives.
	After time.Duration
}

// Latency draws the delay of a call.
type Latency func(*rand.Rand) Delay

// Instant is the latency of a register that answers in no time.
func Instant(*rand.Rand) Delay { return Delay{} }

// Always makes every call take d.
func Always(d Delay) Latency {
	return func(*rand.Rand) Delay { return d }
}

// Uniform draws each part of a delay evenly from 0 to most, so a call takes at most three times
// most.
func Uniform(most time.Duration) Latency {
	return func(r *rand.Rand) Delay {
		return Delay{Before: UpTo(r, most), Dated: UpTo(r, most), After: UpTo(r, most)}
	}
}

// HeavyTail is usual for most calls. With the given probability, it draws one part of the delay
// evenly from 0 to slowest.
func HeavyTail(usual Latency, probability float64, slowest time.Duration) Latency {
	return func(r *rand.Rand) Delay {
		d := usual(r)
		if r.Float64() < probability {
			slow := UpTo(r, slowest)
			switch r.IntN(3) {
			case 0:
				d.Before = slow
			case 1:
				d.Dated = slow
			case 2:
				d.After = slow
			}
		}
		return d
	}
}

// UpTo draws a duration evenly from 0 to most.
func UpTo(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most) + 1))
}

// Halt says what stands still for a while.
type Halt int

// The kinds of halts. Meanwhile nothing is sent and no answer is noticed; requests already sent
// go on.
const (
	// Stopped halts only the process, as a signal does: the clocks go on.
	Stopped Halt = iota
	// Suspended halts the machine and its monotonic clock, as a closed lid does. The wall clock
	// goes on.
	Suspended
	// Paused halts the machine and both clocks, as when a virtual machine is paused. They are
	// behind afterwards.
	Paused
)

// machine is a daemon's machine, whose clocks may be wrong.
type machine struct {
	started time.Time // what the monotonic clock counts from

	mu    sync.Mutex
	skew  time.Duration // how far the wall clock is ahead
	stood time.Duration // how long the monotonic clock has stood still in all
	what  Halt
	till  time.Time // the end of the last halt
}

func newMachine(skew time.Duration) *machine { return &machine{started: time.Now(), skew: skew} }

// instant returns this moment by the machine's clocks.
func (m *machine) instant() clock.Instant {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	i := clock.Instant{Wall: now.Round(0).Add(m.skew), Mono: now.Sub(m.started) - m.stood}
	if left := m.till.Sub(now); left > 0 { // a stopped clock shows the beginning of the halt
		if m.what != Stopped {
			i.Mono += left
		}
		if m.what == Paused {
			i.Wall = i.Wall.Add(left)
		}
	}
	return i
}

// SetSkew sets the daemon's own clock ahead of the register's by d, as a person or a time
// server does. If the clock jumps forward, Now is wrong by the jump until the next answer.
func (m *machine) SetSkew(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skew = d
}

// Skew returns by how much the daemon's own clock is ahead of the register's.
func (m *machine) Skew() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.skew
}

// Halt halts the daemon for d, unless it is halted already.
func (m *machine) Halt(what Halt, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.till.After(now) {
		return
	}
	m.what, m.till = what, now.Add(d)
	if what != Stopped {
		m.stood += d
	}
	if what == Paused {
		m.skew -= d
	}
}

// GoOn waits until the daemon is not halted. Callers that let the daemon send anything but
// requests to the register call it, too.
func (m *machine) GoOn() {
	m.mu.Lock()
	left := time.Until(m.till)
	m.mu.Unlock()
	if left > 0 {
		time.Sleep(left)
	}
}

type haltKey struct{}

type halt struct {
	what  Halt
	lasts time.Duration
}

// halted is a store whose requests halt the daemon.
type halted struct {
	claim.Store
	halt
}

func (h halted) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, haltKey{}, h.halt)
}

func (h halted) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	return h.Store.Get(h.in(ctx), id)
}

func (h halted) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	return h.Store.Write(h.in(ctx), id, w)
}

// Halted halts the daemon for d just before a request is sent.
func Halted(what Halt, d time.Duration) Fault {
	return func(s claim.Store) claim.Store { return halted{s, halt{what, d}} }
}

// Fault makes a store fail in one way, in every call that it applies to. See On and Sometimes
// for choosing the calls.
type Fault func(claim.Store) claim.Store

// dateKey is the context key of a function that changes the Date of an answer: func(time.Time)
// (_ time.Time, ok bool). ok is false if the answer has no Date.
type dateKey struct{}

// misdated is a store whose answers have wrong Dates.
type misdated struct {
	claim.Store
	date func(time.Time) (time.Time, bool)
}

func (m misdated) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, dateKey{}, m.date)
}

func (m misdated) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	return m.Store.Get(m.in(ctx), id)
}

func (m misdated) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	return m.Store.Write(m.in(ctx), id, w)
}

// WrongDate moves the Date of an answer by the given time.
func WrongDate(by time.Duration) Fault {
	return func(s claim.Store) claim.Store {
		return misdated{s, func(date time.Time) (time.Time, bool) { return date.Add(by), true }}
	}
}

// NoDate leaves the Date out of an answer.
func NoDate(s claim.Store) claim.Store {
	return misdated{s, func(time.Time) (time.Time, bool) { return time.Time{}, false }}
}
