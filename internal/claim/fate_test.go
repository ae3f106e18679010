package claim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
)

// lands is when a write takes effect.
type lands int

const (
	never   lands = iota
	inTime        // within the write window of the read, and its sender knows so much
	shortly       // while its sender waits for the page to settle, or in time, and its sender does not know
	later         // within a minute
	hours         // after the lease of a claim
)

// fates are what may become of a write.
var fates = map[string]struct {
	fault sim.Fault
	lands lands
}{
	"answered":                        {sim.Slow(0, 0), inTime},
	"answer dropped":                  {sim.AnswerDropped, inTime},
	"saved but 503":                   {sim.SavedBut503, inTime},
	"409, saved":                      {sim.Fails(409, true), inTime},
	"500, saved":                      {sim.Fails(500, true), inTime},
	"502, saved":                      {sim.Fails(502, true), inTime},
	"504, saved":                      {sim.Fails(504, true), inTime},
	"landing just within the window":  {sim.Slow(1500*time.Millisecond, 0), inTime},
	"answered just within the window": {sim.Slow(0, 1500*time.Millisecond), inTime},
	"answered late":                   {sim.Slow(0, 5*time.Second), shortly},
	"saved, and failing late":         {func(s claim.Store) claim.Store { return sim.Slow(0, 5*time.Second)(sim.AnswerDropped(s)) }, shortly},
	"landing and answered late":       {sim.Slow(5*time.Second, 0), shortly},
	"landing during the settle wait":  {sim.Late(time.Second), shortly},
	"applied during the settle wait":  {sim.AppliedLate(time.Second), shortly},
	"landing late":                    {sim.Late(8 * time.Second), later},
	"landing later":                   {sim.Late(20 * time.Second), later},
	"landing a minute later":          {sim.Late(59 * time.Second), later},
	"applied much later":              {sim.AppliedLate(59 * time.Second), later},
	"landing hours later":             {sim.Late(5 * time.Hour), hours},
	"request dropped":                 {sim.RequestDropped, never},
	"409":                             {sim.Fails(409, false), never},
	"500":                             {sim.Fails(500, false), never},
	"502":                             {sim.Fails(502, false), never},
	"503":                             {sim.Fails(503, false), never},
	"504":                             {sim.Fails(504, false), never},
	"acknowledged, and not applied":   {sim.NotApplied, never},
	turnedAway:                        {sim.TurnedAway(429, 40*time.Second), never},
}

const turnedAway = "turned away" // surely not written

// Whatever becomes of the claim write, it is sent once, granted only if it was
// there within the window, and taken back if it got there later.
func TestFateOfTheClaimWrite(t *testing.T) {
	for name, tt := range fates {
		if name == turnedAway {
			continue // see TestTurnedAway
		}
		play(t, name, openTask(), func(w *world) {
			d := w.start(steady("a"), sim.InTurn(sim.Claims, tt.fault))
			c, err := d.Claim(w.ctx, request("Sandman"))
			if tt.lands == inTime {
				w.ok(err)
				w.shows(task.InProgress, "Sandman", string(c.ID))
				w.counts(d, sim.Claims, 1)
				w.events(d, claim.KindGranted)
				return
			}
			if denied := w.denied(err); denied.Code != claim.CodeNotionUnavailable || denied.Err == nil {
				w.Fatalf("denied %+v, want notion_unavailable, with a cause", denied)
			}
			want := claim.Unseen
			if w.Page(page).ClaimedBy != "" {
				want = claim.Voided // what is there is marked at once
			}
			w.marked(d, want)
			w.sync(5*time.Minute, d)
			time.Sleep(5 * time.Hour)
			w.sync(time.Minute, d)
			time.Sleep(20 * time.Hour)
			w.sync(time.Minute, d)

			if tt.lands != hours { // else it is free to be taken as it is
				w.shows(task.Open, "", "")
			}
			w.none(d)
			if n := count(d, sim.Claims); n > 1 {
				w.Errorf("%d claim writes, want 1", n)
			}
			events := []claim.Kind{claim.KindDenied}
			var marked, void []task.Status
			if tt.lands == shortly || tt.lands == later { // it is taken back in two steps
				events = append(events, claim.KindWithdrawn)
				marked = []task.Status{task.InProgress} // nobody takes it meanwhile
			}
			w.events(d, events...)
			for _, v := range w.History(page) {
				if strings.HasPrefix(v.Task.Token, "void ") {
					void = append(void, v.Task.Status)
				}
			}
			if !slices.Equal(void, marked) {
				w.Errorf("the page was marked void with status %v, want %v", void, marked)
			}
			w.claim(d, "Oracle")
		})
	}
}

// A claim that Notion acknowledged without showing it is not known to be there,
// and may take effect in the middle of a rival's attempt.
func TestAcknowledgedButAppliedDuringARivalsAttempt(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		a := w.daemon("a", sim.InTurn(sim.Claims, sim.AppliedLate(2900*time.Millisecond)))
		b := w.daemon("b", sim.Slow(time.Second, 0))
		granted := w.race(entrant{daemon: a, agent: "Sandman"}, entrant{daemon: b, agent: "Oracle", after: 2800 * time.Millisecond})
		if len(granted) != 1 {
			w.Errorf("%d agents were granted the task, want 1", len(granted))
		}
	})
}

// While a claim's fate is being enquired into, somebody else may get the task:
// that is a lost race, not an outage.
func TestUnknownFateAndARival(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		a := w.daemon("a", sim.InTurn(sim.Claims, sim.RequestDropped))
		b := w.daemon("b")
		var granted []claim.Hold
		var wg sync.WaitGroup
		wg.Go(func() { granted = w.race(entrant{daemon: b, agent: "Oracle", after: time.Second}) })
		denied := w.deny(a, "Sandman", claim.CodeLostRace)
		wg.Wait()
		if len(granted) != 1 {
			w.Errorf("%d claims were granted, want Oracle's", len(granted))
		}
		if denied.Holder != "Oracle" {
			w.Errorf("denied %+v, want Oracle as holder", denied)
		}
		w.marked(a, claim.Unseen)
	})
}

// What was surely not written is tried again from the read on, a few times, unless trying again changes nothing.
func TestTurnedAway(t *testing.T) {
	slow := sim.SlowRead(2 * time.Second)
	for name, tt := range map[string]struct {
		faults []sim.Fault
		code   claim.Code
		sent   []sim.Kind // nil for whatever
		wait   bool       // it is said when to try again
	}{
		"once":                {[]sim.Fault{sim.InTurn(sim.Claims, sim.TurnedAway(429, time.Second))}, "", []sim.Kind{sim.Reads, sim.Reads, sim.Claims, sim.Reads}, false},
		"always":              {[]sim.Fault{sim.TurnedAway(529, 7*time.Second)}, claim.CodeNotionUnavailable, nil, true},
		"for good":            {[]sim.Fault{sim.WriteRefused}, claim.CodeNotionRefused, []sim.Kind{sim.Reads}, false},
		"slow reads":          {[]sim.Fault{sim.InTurn(sim.Reads, slow), sim.InTurn(sim.Reads, nil, slow)}, "", []sim.Kind{sim.Reads, sim.Reads, sim.Reads, sim.Claims, sim.Reads}, false},
		"slow reads, always":  {[]sim.Fault{slow}, claim.CodeNotionUnavailable, nil, false},
		"a read that fails":   {[]sim.Fault{sim.InTurn(sim.Reads, sim.ReadFails(claim.Unavailable))}, claim.CodeNotionUnavailable, []sim.Kind{}, false},
		"a page that is gone": {[]sim.Fault{sim.InTurn(sim.Reads, sim.ReadFails(claim.NotFound))}, claim.CodeNotFound, []sim.Kind{}, false},
	} {
		play(t, name, openTask(), func(w *world) {
			d := w.daemon("a", tt.faults...)
			if tt.code == "" {
				w.claim(d, "Sandman")
			} else {
				if denied := w.deny(d, "Sandman", tt.code); tt.wait && denied.RetryAfter == 0 {
					w.Errorf("denied %+v, want to be told when to try again", denied)
				}
				w.none(d)
				w.counts(d, sim.Claims, 0)
			}
			if got := requests(d); tt.sent != nil && !slices.Equal(got, tt.sent) {
				w.Errorf("requests %v, want %v", got, tt.sent)
			}
		})
	}
}

// freeAgain checks that an attempt that came to nothing leaves nothing behind.
func (w *world) freeAgain(d *sim.Daemon) {
	w.Helper()
	w.sync(20*time.Minute, d)
	w.shows(task.Open, "", "")
	w.none(d)
	w.claim(d, "Oracle")
}

// An attempt that is cut short leaves nothing behind, whatever does that and whenever. A caller who comes back for the
// claim has it seen through from the claim write on.
func TestCutShort(t *testing.T) {
	full := errors.New("no space left on device")
	const ms = time.Millisecond
	for _, at := range []time.Duration{50 * ms, 150 * ms, 250 * ms, 350 * ms, time.Second, 2 * time.Second, 3450 * ms, 3550 * ms} {
		for name, cut := range map[string]func(d *sim.Daemon, leave func()){
			"the caller goes away":            func(_ *sim.Daemon, leave func()) { leave() },
			"the caller goes, and comes back": func(_ *sim.Daemon, leave func()) { leave() },
			"the ledger breaks":               func(d *sim.Daemon, _ func()) { d.Ledger.Break(full) },
			"the daemon stops":                func(d *sim.Daemon, _ func()) { d.Close() },
		} {
			play(t, name+", "+at.String(), openTask(), func(w *world) {
				d := w.start(steady("a"))
				ctx, leave := context.WithCancel(w.ctx)
				time.AfterFunc(at, func() { cut(d, leave) })
				r := request("Sandman")
				r.Keep = strings.Contains(name, "comes back")
				c, err := d.Claim(ctx, r)
				if r.Keep && at >= 200*ms {
					w.ok(err)
					w.held(d)
					w.shows(task.InProgress, "Sandman", string(c.ID))
					return
				}
				if broke := name == "the ledger breaks"; err == nil || broke && !errors.Is(err, full) {
					w.Fatalf("%v, although nobody hears it, or it is not on record", err)
				}
				time.Sleep(time.Minute)
				if d.Ledger.Break(nil); name == "the daemon stops" {
					w.ok(d.Restart(w.ctx))
				}
				w.freeAgain(d)
			})
		}
	}
	for code, fault := range map[claim.Code]sim.Fault{claim.CodeNotionUnavailable: sim.ReadFails(claim.Unavailable), claim.CodeNotFound: sim.ReadFails(claim.NotFound)} {
		play(t, "the verifying read fails, "+string(code), openTask(), func(w *world) {
			d := w.daemon("a", sim.InTurn(sim.Reads, nil, fault))
			w.deny(d, "Sandman", code)
			w.freeAgain(d)
		})
	}
	play(t, "no read succeeds after the write, for a while", openTask(), func(w *world) {
		pick := func(_ task.ID, w *claim.Write) bool {
			past := time.Since(bubbleStart)
			return w == nil && past > 0 && past < 10*time.Minute
		}
		d := w.daemon("a", sim.On(pick, sim.ReadFails(claim.Unavailable)))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		w.freeAgain(d)
	})
}

// leaving is a board whose caller goes away when it is asked.
type leaving struct {
	claim.OpenBoard
	cancel func()
}

func (l leaving) Blockers(context.Context, task.Task) ([]task.ID, error) {
	l.cancel()
	return nil, nil
}

// A caller that goes away between the read and the write has nothing written.
func TestCallerGoneBeforeTheWrite(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		ctx, cancel := context.WithCancel(w.ctx)
		d := w.start(sim.DaemonOptions{Board: leaving{cancel: cancel}})
		if _, err := d.Claim(ctx, request("Sandman")); err == nil {
			w.Error("granted, although nobody hears it")
		}
		w.counts(d, sim.Claims, 0)
		w.none(d)
	})
}

// A caller may go away while it waits for its turn on the task.
func TestCallerGoneWhileWaiting(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.start(steady("a"))
		c := w.claim(d, "Sandman")
		time.Sleep(time.Until(c.StaleAt) + time.Second)
		go d.Renew(w.ctx, c.ID) // has the task to itself for some seconds
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		_, err := d.Claim(ctx, request("Oracle"))
		if denied := w.denied(err); denied.Code != claim.CodeNotionUnavailable {
			w.Errorf("denied %+v", denied)
		}
		time.Sleep(time.Minute)
		if got := w.only(d); got.ID != c.ID || got.State != claim.Held {
			w.Errorf("%s of %s is %s, want Sandman's held", got.ID, got.Agent, got.State)
		}
	})
}

// deposing is a store after whose next reading somebody else leads the ledger.
type deposing struct {
	claim.Store
	ledger *sim.Ledger
	armed  *bool
}

func (d deposing) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	r, err := d.Store.Get(ctx, id)
	if *d.armed {
		*d.armed = false
		d.ledger.Lead()
	}
	return r, err
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

// A daemon that was deposed while it read a page writes nothing to it, whatever it was at.
func TestDeposedWritesNothing(t *testing.T) {
	type before = func(*world, *sim.Daemon) claim.Hold
	later := func(f before) before {
		return func(w *world, d *sim.Daemon) claim.Hold {
			defer time.Sleep(20 * time.Minute)
			return f(w, d)
		}
	}
	edited := func(f before, edit func(*task.Task)) before {
		return func(w *world, d *sim.Daemon) claim.Hold {
			defer w.Edit(page, edit)
			return f(w, d)
		}
	}
	heardOf := func(w *world, d *sim.Daemon) claim.Hold {
		c := held(w, d)
		time.Sleep(time.Minute)
		return w.renew(d, c)
	}
	due := func(w *world, d *sim.Daemon, _ claim.Hold) error { return second(d.RunDue(w.ctx)) }
	guard := func(w *world, d *sim.Daemon, c claim.Hold) error { return d.Guard(w.ctx, c.ID, nil) }
	tidy := func(w *world, d *sim.Daemon, _ claim.Hold) error { return second(d.Tidy(w.ctx, w.Page(page))) }
	tests := map[string]struct {
		first task.Task
		// before leads up to what act does, which is what the daemon is deposed at.
		before before
		act    func(*world, *sim.Daemon, claim.Hold) error
	}{
		"claim":             {act: func(w *world, d *sim.Daemon, _ claim.Hold) error { return second(d.Claim(w.ctx, request("Sandman"))) }},
		"renewal":           {before: later(held), act: func(w *world, d *sim.Daemon, c claim.Hold) error { return second(d.Renew(w.ctx, c.ID)) }},
		"renewal by itself": {before: later(heardOf), act: func(w *world, d *sim.Daemon, _ claim.Hold) error { return d.KeepAlive(w.ctx) }},
		"finish": {before: held, act: func(w *world, d *sim.Daemon, c claim.Hold) error {
			return second(d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndReleased}))
		}},
		"finish that is owed":          {before: owing, act: due},
		"sweep":                        {first: staleTask(), act: func(w *world, d *sim.Daemon, _ claim.Hold) error { return third(d.Sweep(w.ctx, page)) }},
		"repair":                       {before: edited(held, func(t *task.Task) { t.Token = "void " + string(claim.NewID(time.Now())) }), act: guard},
		"withdrawal":                   {before: cutShort, act: due},
		"clearing":                     {before: voided, act: due},
		"stepping aside":               {before: edited(voided, named("Maria")), act: due},
		"what is left of a lost claim": {before: edited(held, status(task.Open)), act: guard},
		"a claim that is over":         {before: undone, act: tidy},
		"a claim that is over, under another name": {before: edited(undone, named("Maria")), act: tidy},
		"reopening": {
			first: task.Task{ID: page, Title: "Mend the roof", Status: task.Blocked},
			act: func(w *world, d *sim.Daemon, _ claim.Hold) error {
				return third(d.Reopen(w.ctx, claim.Reopening{Task: task.Task{ID: page}}))
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.first.ID == "" {
				tt.first = openTask()
			}
			inWorld(t, tt.first, func(w *world) {
				ledger, armed := sim.NewLedger(), false
				d := w.start(sim.DaemonOptions{
					StoreOptions: sim.StoreOptions{Name: "a"}, Ledger: ledger,
					Fault: func(s claim.Store) claim.Store { return deposing{s, ledger, &armed} },
				})
				var c claim.Hold
				if tt.before != nil {
					c = tt.before(w, d)
				}
				written := len(w.History(page))
				armed = true
				err := tt.act(w, d, c)
				if armed {
					w.Fatalf("the page was not read (%v)", err)
				}
				if journal := (*claim.JournalError)(nil); !errors.As(err, &journal) {
					w.Errorf("error %v, want that of the ledger", err)
				}
				for _, v := range w.History(page)[written:] {
					if v.By != "" {
						w.Errorf("it wrote %+v", v.Task)
					}
				}
			})
		})
	}
}

// held has Sandman hold the page.
func held(w *world, d *sim.Daemon) claim.Hold { return w.claim(d, "Sandman") }

// owing has Sandman be done with the page, of which Notion has yet to be told.
func owing(w *world, d *sim.Daemon) claim.Hold {
	c := held(w, d)
	c.State, c.Finish, c.Due = claim.Finishing, &claim.Finish{As: claim.EndReleased}, time.Now()
	w.ok(d.Ledger.Save(w.ctx, claim.Change{Holds: []claim.Hold{c}}))
	w.ok(d.Restart(w.ctx))
	return c
}

// cutShort leaves a claim on the page that was written by a daemon which ended then.
func cutShort(w *world, d *sim.Daemon) claim.Hold {
	c := held(w, d)
	c.State, c.Started = claim.Writing, time.Time{}
	w.ok(d.Ledger.Save(w.ctx, claim.Change{Holds: []claim.Hold{c}}))
	w.ok(d.Restart(w.ctx))
	return c
}

// voided leaves such a claim marked, and to be taken off.
func voided(w *world, d *sim.Daemon) claim.Hold {
	c := cutShort(w, d)
	w.due(d)
	time.Sleep(time.Minute)
	return c
}

// undone has a claim show on its page that is over, as an undo does.
func undone(w *world, d *sim.Daemon) claim.Hold {
	c := held(w, d)
	was := w.Page(page)
	w.finish(d, c, claim.EndReleased)
	w.Edit(page, func(t *task.Task) { *t = was })
	return c
}

// Notion has been seen to say in passing that it does not know a page. Only if it says
// so twice a claim is lost.
func TestPageUnknownInPassing(t *testing.T) {
	notFound := sim.ReadFails(claim.NotFound)
	for name, do := range map[string]func(d *sim.Daemon, c claim.Hold) error{
		"finish": func(d *sim.Daemon, c claim.Hold) error {
			_, err := d.Finish(context.Background(), c.ID, claim.Finish{As: claim.EndCompleted})
			return err
		},
		"guard": func(d *sim.Daemon, c claim.Hold) error { return d.Guard(context.Background(), c.ID, nil) },
	} {
		play(t, name, openTask(), func(w *world) {
			d := w.daemon("a", sim.InTurn(sim.Reads, nil, nil, notFound))
			w.ok(do(d, w.claim(d, "Sandman")))
		})
		play(t, name+", gone", openTask(), func(w *world) {
			d := w.daemon("a", sim.InTurn(sim.Reads, nil, nil, notFound, notFound))
			w.lost(do(d, w.claim(d, "Sandman")))
		})
	}
}

// paused is the store of a machine whose clocks stood still, for that long, while its
// n-th write was on its way: by the Dates of all later answers more time has passed.
type paused struct {
	claim.Store
	kind  sim.Kind
	stood time.Duration
	ahead *time.Duration
}

func (s paused) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	r, err := s.Store.Get(ctx, id)
	r.At = r.At.Add(*s.ahead)
	return r, err
}

func (s paused) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	r, err := s.Store.Write(ctx, id, w)
	if sim.KindOf(&w) == s.kind && *s.ahead == 0 {
		*s.ahead = s.stood
	}
	r.At = r.At.Add(*s.ahead)
	return r, err
}

// What was written while this machine's clocks stood still, as those of a paused
// virtual machine do, may have come too late, whatever they say.
func TestClocksStoodStill(t *testing.T) {
	pausing := func(kind sim.Kind, stood time.Duration) sim.Fault {
		return func(s claim.Store) claim.Store { return paused{s, kind, stood, new(time.Duration)} }
	}
	play(t, "claim", openTask(), func(w *world) {
		d := w.daemon("a", pausing(sim.Claims, 6*time.Second))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		w.sync(2*time.Minute, d)
		w.shows(task.Open, "", "")
	})
	play(t, "sweep", staleTask(), func(w *world) {
		d := w.daemon("a", pausing(sim.Voidings, 6*time.Second))
		if _, swept, _ := d.Sweep(w.ctx, page); swept {
			w.Error("swept by a mark that may have come too late")
		}
	})
	play(t, "no longer than Dates tell", openTask(), func(w *world) {
		w.claim(w.daemon("a", pausing(sim.Claims, time.Second)), "Sandman")
	})
}

// Whatever stands still between the read and the claim write, for however long, as long
// as one of the three clocks tells: what another daemon was granted meanwhile stays its
// own.
func TestStandingStillBeforeTheClaimWrite(t *testing.T) {
	names := map[sim.Halt]string{sim.Stopped: "stopped", sim.Suspended: "suspended", sim.Paused: "paused"}
	for what, name := range names {
		for _, lasts := range []time.Duration{4 * time.Second, 6 * time.Second, 30 * time.Second} {
			play(t, fmt.Sprint(name, " for ", lasts), openTask(), func(w *world) {
				stands := w.daemon("stands", sim.InTurn(sim.Claims, sim.Halted(what, lasts)))
				rival := w.daemon("rival")
				granted := w.race(entrant{daemon: stands, agent: "Oracle"}, entrant{daemon: rival, agent: "Sandman"})
				if len(granted) != 1 || granted[0].Agent != "Sandman" {
					w.Fatalf("granted to %v, want Sandman alone", granted)
				}
				w.sync(3*time.Minute, rival, stands)
				w.held(rival)
				w.none(stands)
			})
		}
	}
}

// What a claim's life is counted from is no guess of a clock that has jumped.
func TestStartOfAClaimVerifiedWithoutDate(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.InTurn(sim.Reads, nil, sim.NoDate, sim.NoDate))
		time.AfterFunc(time.Second, func() { d.Store.SetSkew(10 * time.Minute) })
		c := w.claim(d, "Sandman")
		if since := time.Since(c.Started); since < 0 || since > 10*time.Second {
			w.Errorf("the claim was granted now and counts from %v ago", since)
		}
	})
}
