// Package spec_test plays the stories that spin tells of claim.pml through the shipping code, and
// compares every decision, so that model and code cannot part.
package spec_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

var stories = flag.String("stories", "testdata/stories.txt", "the `file` with the stories to play")

// step is a moment of the model, and slop what the settings of the code leave between two such
// moments, for what happens within one.
const (
	step = 20 * time.Second
	slop = 2 * time.Second
)

// story is what spin says: a schedule, and what everybody decides in it.
type story struct {
	name     string
	settings map[string]int // of the model
	lines    []line
}

// double reports whether two hold the task at the end of the story.
func (s story) double() bool { return strings.HasPrefix(s.name, "found ") }

// line is one request or decision of one claimer.
type line struct {
	at             time.Duration
	who, did       string
	reads, decides string
}

var (
	storyLine = regexp.MustCompile(`^(\d+) s  ([ABC])(?:'s)? (.*?)(?: and reads (\w+)(?:, stale)?)?(?:: (.*))?$`)
	setting   = regexp.MustCompile(`(?m)^#ifndef (\w+)\n#define \w+ +(\d+)`)
	flagged   = regexp.MustCompile(`-D(\w+)=(\d+)`)
	seconds   = regexp.MustCompile(`\b\d+ s\b`)
)

// read returns the stories of a file: a line "holds|found NAME FLAG…", and behind it the lines.
func read(t *testing.T, file string) (all []story) {
	t.Helper()
	model := string(testkit.Got(os.ReadFile("claim.pml"))(t))
	for text := range strings.SplitSeq(strings.TrimSpace(string(testkit.Got(os.ReadFile(file))(t))), "\n\n") {
		head, rest, _ := strings.Cut(text, "\n")
		name, flags, _ := strings.Cut(head, " -")
		s := story{name: name, settings: make(map[string]int)}
		for _, found := range [][][]string{setting.FindAllStringSubmatch(model, -1), flagged.FindAllStringSubmatch(" -"+flags, -1)} {
			for _, f := range found {
				s.settings[f[1]] = testkit.Got(strconv.Atoi(f[2]))(t)
			}
		}
		for said := range strings.Lines(rest) {
			m := storyLine.FindStringSubmatch(strings.TrimSpace(said))
			testkit.Require(t, m != nil, "%s: a line of its own kind: %q", name, said)
			at := testkit.Got(strconv.Atoi(m[1]))(t)
			s.lines = append(s.lines, line{time.Duration(at) * time.Second, m[2], m[3], m[4], m[5]})
		}
		all = append(all, s)
	}
	return all
}

// policy returns the settings of a claimer's daemon for those of the model. Everything within one
// step is over before slop is, so that windows are that much longer, and waits that much shorter.
func (s story) policy(who string) claim.Policy {
	n := func(name string) time.Duration { return time.Duration(s.settings[name]) * step }
	p := sim.Policy()
	p.Exclusive = true // no setting is refused
	p.WriteWindow, p.Settle, p.Grace = n("WINDOW")+slop, max(n("SETTLE")-slop, 1), n("GRACE")-slop
	p.Timeout = n("LEASE")
	if who != "A" {
		p.Timeout -= n("EARLY")
	}
	if s.settings["WITHDRAW"] == 0 { // what comes too late is taken for in time
		p.WriteWindow = p.Timeout / 2
	}
	return p
}

// request is a request of a daemon's that waits for its line in the story.
type request struct {
	write  *claim.Write // nil for a read
	sent   time.Time
	answer chan answer
}

type answer struct {
	claim.Reading
	error
}

// claimer is a claimer of the model: a daemon, whose requests are held.
type claimer struct {
	*sim.Daemon
	name    string // of its agent
	id      claim.ID
	waiting chan *request // one at most
	store   claim.Store   // on which nothing is held
	landed  *answer       // what the claim write is answered with, once it is on the page
	gaveUp  *claim.Write  // a claim write that may come yet
	over    chan struct{} // closed when the story is
	waits   time.Time     // until when it waits, if it does
	done    chan error    // what Claim, or the last of Guard and RunDue, came to
}

func (c *claimer) hold(w *claim.Write) (claim.Reading, error) {
	r := &request{w, time.Now(), make(chan answer)}
	c.waiting <- r
	select {
	case a := <-r.answer:
		return a.Reading, a.error
	case <-c.over:
		return claim.Reading{}, errors.New("the story is over")
	}
}

// held is the store of a claimer's daemon.
type held struct {
	claim.Store
	*claimer
}

func (h held) Get(context.Context, task.ID) (claim.Reading, error) { return h.hold(nil) }

func (h held) Write(_ context.Context, _ task.ID, w claim.Write) (claim.Reading, error) {
	return h.hold(&w)
}

// play is a story while it is played.
type play struct {
	story
	register *sim.Register
	claimers map[string]*claimer
	began    time.Time
}

const page = task.ID("11111111-1111-1111-1111-111111111111")

// run plays the story, and returns the first thing that the code does in another way. All claimers
// have their own names, or all the same one. change, if not nil, changes the settings of the code.
func (s story) run(t *testing.T, sameName bool, change func(*claim.Policy)) (err error) {
	synctest.Test(t, func(t *testing.T) {
		register := sim.NewRegister(task.Task{ID: page, Title: "Mend the roof", Status: task.Open})
		p := play{s, register, make(map[string]*claimer), time.Now()} // a minute begins, as in the model
		for _, name := range []string{"A", "B", "C"} {
			p.claimers[name] = p.claimer(name, sameName, change)
		}
		for i, l := range s.lines {
			time.Sleep(time.Until(p.began.Add(l.at + time.Duration(i)*time.Millisecond)))
			synctest.Wait()
			if err = p.play(t.Context(), l); err != nil {
				err = fmt.Errorf("%s, step %d, %v %s %s: %w", s.name, i+1, l.at, l.who, l.did, err)
				break
			}
		}
		if two := p.holders() > 1; err == nil && two != s.double() {
			err = fmt.Errorf("%s: two hold the task: %t", s.name, two)
		}
		for _, c := range p.claimers {
			c.Kill()
			close(c.over)
		}
	})
	return err
}

func (p play) claimer(name string, sameName bool, change func(*claim.Policy)) *claimer {
	c := &claimer{name: name, id: claim.NewID(time.Now()), waiting: make(chan *request, 1), over: make(chan struct{})}
	if sameName {
		c.name = "Sandman"
	}
	policy := p.policy(name)
	if change != nil {
		change(&policy)
	}
	c.Daemon = p.register.Daemon(sim.DaemonOptions{
		StoreOptions: sim.StoreOptions{Name: name}, Policy: policy,
		Fault: func(s claim.Store) claim.Store { c.store = s; return held{s, c} },
	})
	return c
}

// shows returns what the page shows, in the words of the model.
func (p play) shows(t task.Task) string {
	tok := claim.ParseToken(t.Token)
	for name, c := range p.claimers {
		switch {
		case tok.ID != c.id:
		case tok.Void:
			return "void_" + name
		default:
			return name
		}
	}
	return cmp.Or(t.Token, "nobody")
}

// holders counts who has been granted the task, and trusts the claim.
func (p play) holders() (n int) {
	for _, c := range p.claimers {
		if h, ok := c.held(); ok && time.Now().Before(h.ExpiresAt()) {
			n++
		}
	}
	return n
}

func (c *claimer) held() (claim.Hold, bool) {
	h, err := c.Ledger.Hold(context.Background(), c.id)
	return h, err == nil && h.State == claim.Held
}

// start lets the daemon do something.
func (c *claimer) start(do func() error) {
	c.done = make(chan error, 1)
	go func() { c.done <- do() }()
	synctest.Wait()
}

// next takes the request that the daemon has sent, which has to be of that kind.
func (c *claimer) next(kind sim.Kind) (*request, error) {
	select {
	case r := <-c.waiting:
		if got := sim.KindOf(r.write); got != kind {
			return nil, fmt.Errorf("the code sends a %s, want a %s", got, kind)
		}
		return r, nil
	default:
		return nil, fmt.Errorf("the code sends nothing, want a %s", kind)
	}
}

// play does what a line says: it lets the daemon begin something, or carries out the request that the
// daemon has sent, and answers it. Then it compares what the daemon does next with what is decided.
func (p play) play(ctx context.Context, l line) error {
	c := p.claimers[l.who]
	switch l.did {
	case "asks for the task":
		c.start(func() error {
			_, err := c.Claim(ctx, claim.Request{ID: c.id, Agent: c.name, Task: p.register.Page(page)})
			return err
		})
	case "guards":
		c.start(func() error { return c.Guard(ctx, c.id, nil) })
	case "looks after the grace":
		c.start(func() error { return second(c.RunDue(ctx)) })
	case "late claim shows":
		if got := p.shows(p.register.Page(page)); got != l.who {
			return fmt.Errorf("the page shows %s", got)
		}
		c.start(func() error {
			_, err := c.Sighted(ctx, p.register.Page(page).Token)
			return errors.Join(err, second(c.RunDue(ctx)))
		})
		return p.decided(c, l)
	case "claim is on the row":
		w := c.gaveUp
		if w == nil {
			r, err := c.next(sim.Claims)
			if err != nil {
				return err
			}
			w = r.write
			c.waiting <- r // its answer comes later
		}
		c.gaveUp = nil
		r, err := c.store.Write(context.Background(), page, *w)
		c.landed = &answer{r, err}
		return err
	case "has its answer in time", "has its answer too late", "gives up waiting for its answer":
		r, err := c.next(sim.Claims)
		if err != nil {
			return err
		}
		a := answer{error: claim.Errorf(claim.Unavailable, claim.LandedUnknown, "page %s: no answer", page)}
		if gone := l.did == "gives up waiting for its answer"; !gone && c.landed == nil {
			return errors.New("the claim is not on the page")
		} else if !gone {
			a = *c.landed
		} else if c.landed == nil {
			c.gaveUp = r.write
		}
		r.answer <- a
		return p.decided(c, l)
	case "lease ends":
		return p.decided(c, l)
	}
	kind, isWrite := map[string]sim.Kind{
		"void mark is on the row": sim.Voidings, "void mark is off the row": sim.Openings, "claim is back on the row": sim.Claims,
	}[l.did]
	r, err := c.next(cmp.Or(kind, sim.Reads))
	if err != nil {
		return err
	}
	if early := c.waits.Sub(r.sent); early > slop {
		return fmt.Errorf("the code sends it %v before its time", early)
	}
	var a answer
	if isWrite {
		a.Reading, a.error = c.store.Write(ctx, page, *r.write)
		r.answer <- a
		return p.decided(c, l)
	}
	a.Reading, a.error = c.store.Get(ctx, page)
	if before := p.register.History(page); p.settings["OLD"] > 0 && p.shows(a.Task) != l.reads && len(before) > 1 {
		a.Task = before[len(before)-2].Task
	}
	if got := p.shows(a.Task); got != l.reads {
		return fmt.Errorf("the page shows %s, want %s", got, l.reads)
	}
	r.answer <- a
	return p.decided(c, l)
}

// decided compares what the daemon does next with the line.
func (p play) decided(c *claimer, l line) error {
	synctest.Wait()
	sends := sim.Kind("")
	select {
	case r := <-c.waiting:
		sends = sim.KindOf(r.write)
		c.waiting <- r
	default:
	}
	over, err := false, error(nil)
	select {
	case err = <-c.done:
		over = true
	default:
	}
	mark, marked := c.Mark(c.id)
	hold, holds := c.held()
	is := func(state claim.MarkState) bool { return sends == "" && marked && mark.State == state }
	var code claim.Code
	if denied, ok := errors.AsType[*claim.Denied](err); ok {
		code = denied.Code
	}
	lasts := time.Duration(0)
	if n := seconds.FindString(l.decides); n != "" {
		lasts, _ = time.ParseDuration(strings.ReplaceAll(n, " ", ""))
	}
	c.waits = time.Now()
	if strings.HasPrefix(l.decides, "it waits") {
		c.waits = c.waits.Add(lasts)
	}
	until := func(end time.Time) bool { return (time.Until(end) - lasts).Abs() <= 2*slop }
	ok := false
	switch seconds.ReplaceAllString(l.decides, "N s") {
	case "it writes its claim":
		ok = sends == sim.Claims
	case "it is refused":
		ok = over && code == claim.CodeHeld
	case "it looks", "it withdraws":
		ok = sends == sim.Reads && !over
	case "it waits N s":
		ok = sends == "" && !over && !marked && lasts == time.Duration(p.settings["SETTLE"])*step
		if l.did == "void mark is on the row" {
			ok = is(claim.Voided) && until(mark.Due)
		}
	case "it holds the task for N s":
		ok = over && err == nil && holds && until(hold.ExpiresAt())
	case "it has lost":
		_, lost := errors.AsType[*claim.Lost](err)
		ok = over && (lost || code == claim.CodeLostRace)
	case "it gives up":
		ok = over && code == claim.CodeNotionUnavailable && is(claim.Unseen)
	case "it watches for it":
		ok = over && code != claim.CodeLostRace && is(claim.Unseen)
	case "it makes it void":
		ok = sends == sim.Voidings
	case "it takes it off":
		ok = sends == sim.Openings
	case "it leaves it", "":
		last, err := c.Ledger.Mark(context.Background(), c.id)
		ok = over && sends == "" && err == nil && last.State == claim.Gone
	case "it stops":
		ok = sends == "" && holds && !hold.ExpiresAt().After(time.Now().Add(slop))
	case "it goes on":
		ok = over && err == nil && sends == "" && holds && hold.Suspect.IsZero()
	case "it suspects a late claim":
		ok = over && err == nil && sends == "" && holds && !hold.Suspect.IsZero()
	case "it writes its claim back":
		ok = sends == sim.Claims && !over
	default:
		return fmt.Errorf("nobody compares %q", l.decides)
	}
	if !ok {
		return fmt.Errorf("the model says %q; the code sends %q, is over %t with %v, holds %t until %v under suspicion %t, has a mark %q",
			l.decides, sends, over, err, holds, hold.ExpiresAt().Sub(p.began), !hold.Suspect.IsZero(), mark.State)
	}
	if over && !p.double() && p.holders() > 1 {
		return errors.New("two hold the task")
	}
	return nil
}

func second[T any](_ T, err error) error { return err }

// TestStories plays what spin found, and for each decision of the model the shortest schedule that
// leads to it. .ci/task model -record writes them anew.
func TestStories(t *testing.T) {
	for _, s := range read(t, *stories) {
		for _, sameName := range []bool{false, true} {
			if err := s.run(t, sameName, nil); err != nil {
				t.Errorf("one name for all %t: %v", sameName, err)
			}
		}
	}
}

// TestStoriesDiffer tells each decision wrong once, and changes each setting of the code.
func TestStoriesDiffer(t *testing.T) {
	all := read(t, *stories)
	// They look the same from without: what was before tells them apart.
	likewise := map[[2]string]bool{
		{"it withdraws", "it looks"}: true, {"it writes its claim", "it writes its claim back"}: true,
		{"it writes its claim back", "it writes its claim"}: true, {"it holds the task for N s", "it goes on"}: true,
		{"it gives up", "it watches for it"}: true, {"it watches for it", "it gives up"}: true,
	}
	told := make(map[string]bool)
	for _, s := range all {
		for i, l := range s.lines {
			if l.decides == "" || told[l.did+l.decides] {
				continue
			}
			told[l.did+l.decides] = true
			wrong := s
			wrong.lines = slices.Clone(s.lines[:i+1])
			for _, instead := range []string{"it writes its claim", "it is refused", "it looks", "it waits 20 s", "it has lost", "it gives up", "it watches for it", "it makes it void", "it takes it off", "it leaves it", "it goes on", "it suspects a late claim", "it writes its claim back"} {
				if instead == l.decides || likewise[[2]string{seconds.ReplaceAllString(l.decides, "N s"), instead}] {
					continue
				}
				wrong.lines[i].decides = instead
				if err := wrong.run(t, false, nil); err == nil || !strings.Contains(err.Error(), "the model says") {
					t.Errorf("%s, step %d: %s: told as %q: %v", s.name, i+1, l.decides, instead, err)
				}
			}
		}
	}
	for name, change := range map[string]func(*claim.Policy){
		"a longer window":  func(p *claim.Policy) { p.WriteWindow += 2 * step },
		"a shorter window": func(p *claim.Policy) { p.WriteWindow = 1 },
		"a shorter settle": func(p *claim.Policy) { p.Settle /= 2 },
		"a longer settle":  func(p *claim.Policy) { p.Settle += 2 * step },
		"a shorter grace":  func(p *claim.Policy) { p.Grace -= step },
		"a longer lease":   func(p *claim.Policy) { p.Timeout += step },
		"a shorter lease":  func(p *claim.Policy) { p.Timeout -= step },
	} {
		if !slices.ContainsFunc(all, func(s story) bool { return s.run(t, false, change) != nil }) {
			t.Errorf("%s makes no difference", name)
		}
	}
}
