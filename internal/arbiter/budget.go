package arbiter

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"dibs/internal/clock"
)

// Times of the budget. All of them are lengths, told by the member's own clocks.
const (
	// slotUse is for how long a member uses its slots after it asked for them to be kept.
	slotUse = 30 * time.Second
	// slotRest is for how long nobody uses a slot after that: what was sent last has then
	// left every window of Notion's. It is more than a minute, since requests take different
	// times to arrive.
	slotRest = 65 * time.Second
	// SlotTime is for how long a slot is kept. What is left of it is for the word that it is
	// kept to be from a member of etcd that was about to be replaced.
	SlotTime = slotUse + slotRest + 10*time.Second

	budgetEvery = 5 * time.Second // how often slots are kept, and
	budgetSoon  = time.Second     // how often somebody who waits may lead to more of them
)

// Slot is a slot that somebody has.
type Slot struct {
	Run string
	// Revision is at which it was taken: it is another one each time.
	Revision int64
}

// Standing is how the budget is divided now.
type Standing struct {
	Slots map[int]Slot
	// Wants is how many slots each run that lasts wants.
	Wants map[string]int
}

// Change is what a run changes of a Standing, all or nothing.
type Change struct {
	Want int          // how many slots it wants; 0 for none any more
	Take []int        // that nobody has
	Give map[int]Slot // that are as they are here
}

// Pool has the slots of a budget. A run is one process's part in it: its slots are gone by
// themselves when it was not kept for SlotTime. Implementations are safe for concurrent use.
// Their errors wrap ErrAway or ErrForeign, and then it is not known what was done.
type Pool interface {
	Begin(ctx context.Context) (run string, err error)
	// Extend makes all that a run has last for SlotTime from now, and returns how things stand.
	// ErrOver: the run has nothing any more.
	Extend(ctx context.Context, run string) (Standing, error)
	// Change reports whether it was done.
	Change(ctx context.Context, run string, c Change) (bool, error)
}

// ErrOver says that a run is over.
var ErrOver = errors.New("the share of the budget is over")

// Sender sends requests within a share of the budget.
type Sender interface {
	// SetShare lets it send limit requests in any minute, as long as live says so.
	SetShare(limit int, live func() bool)
	// Load is how many requests count against the share, sent and about to be sent, and how
	// many more wait.
	Load() (counting, waiting int)
}

// BudgetConfig is what a Budget is made of. Sender, Pool, and Rate are required.
type BudgetConfig struct {
	Sender Sender
	Pool   Pool
	// Rate is how many requests a second all members together may send.
	Rate func() float64
	// Adopted is when etcd was adopted, before this run of the member perhaps; zero if it never
	// was. Slots rest after that.
	Adopted time.Time
	// Clocks, if set, reads the clocks of the machine in place of those of this process.
	Clocks func() clock.Instant
	Log    *slog.Logger
}

// Budget is a member's part of the requests that all members of a cluster may send: in any
// minute no more of them than 60 times the rate.
//
// The budget is cut into slots. Who has k slots sends no more than k times the rate in any
// minute, and a slot that somebody had is there for others once nothing that was sent with
// it is in a window any more. The member that gives it back sees to that, by what it counts;
// or the lease in etcd does, which goes on for longer after the member has ceased to use it.
// So whatever becomes of members, at no time two of them send for the same slot within a
// window. How many slots each is to have (divide) is only a matter of being fair.
type Budget struct {
	BudgetConfig
	turn chan struct{} // has one who looks after it at a time

	// What only that one uses:
	run     string
	kept    clock.Instant // when Extend was asked last with success, in this run
	rested  clock.Instant // since when slots rest, after a run that ended too early, or an adoption
	resting bool
	giving  map[int]Slot // not used any more
	had     Standing
	told    int // what Change said last that is wanted

	mu    sync.Mutex
	share int
}

// NewBudget returns a budget, of which its member has nothing yet.
func NewBudget(c BudgetConfig) *Budget {
	if c.Clocks == nil {
		start := time.Now()
		c.Clocks = func() clock.Instant { return clock.Local(start) }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	b := &Budget{BudgetConfig: c, turn: make(chan struct{}, 1)}
	if !c.Adopted.IsZero() {
		b.rested, b.resting = c.Clocks(), true
		if c.Adopted.Before(b.rested.Wall) { // else the clock was set back since
			b.rested.Wall = c.Adopted
		}
	}
	b.nothing()
	return b
}

// Share is how many requests a minute this member may send.
func (b *Budget) Share() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.share
}

func (b *Budget) set(limit int, live func() bool) {
	b.Sender.SetShare(limit, live)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.share = limit
}

// nothing is what is sent without a share.
func (b *Budget) nothing() { b.set(0, func() bool { return false }) }

// Run keeps the share until ctx ends.
func (b *Budget) Run(ctx context.Context) {
	var last time.Time
	tick := time.NewTicker(budgetSoon)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, waiting := b.Sender.Load(); waiting == 0 && time.Since(last) < budgetEvery && !b.restless() {
			continue
		}
		last = time.Now()
		asking, cancel := context.WithTimeout(ctx, askTime)
		if err := b.Round(asking); err != nil && ctx.Err() == nil {
			b.Log.Debug("the share of the budget could not be looked after", "error", err)
		}
		cancel()
	}
}

// restless reports whether there is something to do soon.
func (b *Budget) restless() bool {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	return b.run == "" || len(b.giving) > 0 || b.Clocks().Since(b.kept) > 2*budgetEvery
}

// Round looks once after the share: it is kept, made larger if more is needed, and smaller
// if less is, or others need it more.
func (b *Budget) Round(ctx context.Context) error {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	behind, err := b.round(ctx)
	for behind && err == nil { // somebody had something: this comes to an end
		behind, err = b.round(ctx)
	}
	switch {
	case errors.Is(err, ErrOver), errors.Is(err, ErrForeign):
		b.end(errors.Is(err, ErrForeign))
	case err != nil && (b.run == "" || b.Clocks().Since(b.kept) >= slotUse):
		b.nothing() // whoever waits is told so
	}
	return err
}

// end ends a run. If it ended before its time, etcd is not what it was, and others may have
// slots that this member used a moment ago: all rest for as long as that could matter.
func (b *Budget) end(foreign bool) {
	if now := b.Clocks(); foreign || b.run != "" && now.Since(b.kept) < SlotTime {
		b.rested, b.resting = now, true
	}
	b.nothing()
	b.run, b.giving, b.told = "", nil, 0
}

// Rest has nothing sent for as long as slots rest. It is for when another etcd was adopted, where
// others may have slots that this member used a moment ago; the error is that of ctx.
func (b *Budget) Rest(ctx context.Context) error {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	b.end(true)
	return nil
}

// round is one look. Who has nothing, and came too late for what it wanted to take, is behind.
func (b *Budget) round(ctx context.Context) (behind bool, err error) {
	if b.run == "" {
		run, err := b.Pool.Begin(ctx)
		if err != nil {
			return false, err
		}
		b.run, b.kept, b.giving, b.told = run, b.Clocks(), make(map[int]Slot), 0
	}
	if err := b.keep(ctx); err != nil {
		return false, err
	}
	want := b.want()
	target, short := b.target(want)
	mine := b.mine()
	for len(mine) > target+1 || len(mine) > target && short { // one more does no harm
		last := mine[len(mine)-1]
		b.giving[last], mine = b.had.Slots[last], mine[:len(mine)-1]
	}
	b.use(len(mine))
	change := Change{Want: want}
	if counting, _ := b.Sender.Load(); counting <= b.limit(len(mine)) && len(b.giving) > 0 {
		change.Give = maps.Clone(b.giving)
	}
	if free := b.free(); len(mine) < target {
		change.Take = free[:min(target-len(mine), len(free))]
	}
	if want == b.told && len(change.Take) == 0 && len(change.Give) == 0 {
		return false, nil
	}
	done, err := b.Pool.Change(ctx, b.run, change)
	if err != nil || !done {
		return len(mine) == 0, err // somebody else took one of them: the next round sees
	}
	b.told = want
	if len(change.Take) == 0 {
		return false, nil
	}
	if err := b.keep(ctx); err != nil {
		return false, err
	}
	b.use(len(b.mine()))
	return false, nil
}

// keep makes the slots last, and sees how things stand.
func (b *Budget) keep(ctx context.Context) error {
	before := b.Clocks()
	standing, err := b.Pool.Extend(ctx, b.run)
	if err != nil {
		return err
	}
	b.kept, b.had = before, standing
	maps.DeleteFunc(b.giving, func(n int, s Slot) bool { return standing.Slots[n] != s })
	return nil
}

// mine is the slots that this member may use.
func (b *Budget) mine() []int {
	var mine []int
	for n, s := range b.had.Slots {
		if _, given := b.giving[n]; s.Run == b.run && !given {
			mine = append(mine, n)
		}
	}
	slices.Sort(mine)
	return mine
}

// free is the slots that nobody has.
func (b *Budget) free() []int {
	var free []int
	for n := range Slots {
		if _, taken := b.had.Slots[n]; !taken {
			free = append(free, n)
		}
	}
	return free
}

// limit is how many requests a minute so many slots allow.
func (b *Budget) limit(slots int) int { return int(math.Floor(float64(slots) * b.Rate())) }

// use lets the sender use so many slots until they would have to be kept again.
func (b *Budget) use(slots int) {
	if b.resting && b.Clocks().Since(b.rested) < slotUse+slotRest {
		b.nothing()
		return
	}
	b.resting = false
	kept := b.kept
	b.set(b.limit(slots), func() bool { return b.Clocks().Since(kept) < slotUse })
}

// want is how many slots this member could use: for what it sent in the last minute, and
// what waits, and some more.
func (b *Budget) want() int {
	counting, waiting := b.Sender.Load()
	n := int(math.Ceil(float64(counting+waiting) * 1.25 / b.Rate()))
	return min(max(n+1, least(b.Rate())), Slots)
}

// target is how many slots this member is to have, and whether another one has too few.
func (b *Budget) target(want int) (n int, short bool) {
	wants := maps.Clone(b.had.Wants)
	if wants == nil {
		wants = make(map[string]int)
	}
	wants[b.run] = want
	shares := divide(wants, least(b.Rate()))
	has := make(map[string]int)
	for _, s := range b.had.Slots {
		has[s.Run]++
	}
	for run, n := range shares {
		short = short || run != b.run && has[run] < n
	}
	return shares[b.run], short
}

// Leave gives back what can be given back at once, for a member that ends. The rest is gone
// by itself.
func (b *Budget) Leave(ctx context.Context) error {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	b.nothing()
	if b.run == "" {
		return nil
	}
	counting, _ := b.Sender.Load()
	give := maps.Clone(b.giving)
	mine := b.mine()
	for _, n := range mine[min(len(mine), int(math.Ceil(float64(counting)/b.Rate()))):] {
		give[n] = b.had.Slots[n]
	}
	if counting > b.limit(len(mine)) {
		give = nil
	}
	_, err := b.Pool.Change(ctx, b.run, Change{Give: give})
	b.run = ""
	return err
}
