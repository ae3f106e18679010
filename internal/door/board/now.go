package board

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"dibs/internal/task"
)

// How many tasks the first page lists of each sort, and for how long something may be owed to Notion
// before it says so.
const (
	nowTasks   = 40
	nowDone    = 12
	nowNext    = 5
	owedAtMost = 5 * time.Minute
)

// overview is the first page: what waits for people, and what is now. Tasks that are not for agents
// are not on it.
type overview struct {
	Asked     beginning[decision] // the oldest first
	Questions int                 // how many of them are questions
	Failed    beginning[decision]
	Givers    []giver // the agents that gave up more than one of those, with as many as a form takes
	Work      beginning[card]
	Next      beginning[card] // what an agent gets that asks
	Stuck     []card          // what can never become ready
	Done      beginning[card] // by agents, today, the latest first
	People    beginning[card] // blocked by people
	Persons   int             // how many tasks people work on

	Troubles []trouble // what is not well
	Said     string    // what was just done
}

// decision is a task that goes on only if a person decides something.
type decision struct {
	card
	Primary action
	Once    string // the idempotency key of the answer
	Seen    shown
}

// Kind says what is to be decided.
func (d decision) Kind() string {
	switch {
	case d.Asks:
		return "asks"
	case d.Status == task.Review:
		return "review"
	}
	return strings.ToLower(columnOf(d.Column).Name)
}

// giver is an agent that gave up several tasks.
type giver struct {
	Agent string
	Tasks []task.ID
}

// All reports whether these are all that it gave up.
func (g giver) All() bool { return len(g.Tasks) < maxBulk }

// Reopen is the address of the form that opens all of them.
func (g giver) Reopen() string { return bulkOf("reopen", g.Tasks) }

// trouble is something that is not well, with what to do and where.
type trouble struct{ Text, Do, URL string }

// now shows what waits for people, and what agents do.
func (b *Board) now(_ context.Context, q url.Values) (view, error) {
	g := b.state.current()
	o := b.overviewOf(g, q.Get("all"))
	o.Said = doneOf(q.Get("done"))
	return view{Name: "now", Title: "Now", Template: "now.html", Body: o}, nil
}

// overviewOf sorts what the first page has to show. The section that is named whole is not cut.
func (b *Board) overviewOf(g glance, whole string) overview {
	var o overview
	var asked, failed []decision
	var work, next, done, persons []card
	decide := func(c card) decision {
		return decision{card: c, Primary: b.primary(c), Once: newKey(), Seen: c.shown()}
	}
	y, m, d := g.Now.Date()
	today := time.Date(y, m, d, 0, 0, 0, 0, g.Now.Location()).UnixMilli()
	for _, c := range g.Cards {
		switch {
		case c.Outside:
		case c.Column == people:
			o.Persons++
		case c.Status == task.Open && c.Stuck:
			o.Stuck = append(o.Stuck, c)
		case c.Status == task.Open && c.Ready:
			next = append(next, c)
		case c.Status == task.InProgress:
			work = append(work, c)
		case c.Status == task.Review, c.Status == task.Blocked && c.Asks:
			asked = append(asked, decide(c))
			if c.Asks {
				o.Questions++
			}
		case c.Status == task.Failed, c.Status == task.Blocked && c.ByAgent:
			failed = append(failed, decide(c))
		case c.Status == task.Blocked:
			persons = append(persons, c)
		case c.Status == task.Completed && c.Agent != "" && c.By != "" && c.Since >= today:
			done = append(done, c)
		}
	}
	oldest := func(a, b decision) int { return cmp.Compare(a.Since, b.Since) }
	slices.SortStableFunc(asked, oldest)
	slices.SortStableFunc(failed, oldest)
	slices.SortStableFunc(work, func(a, b card) int { return cmp.Compare(a.Until, b.Until) })
	slices.SortStableFunc(done, func(a, b card) int { return cmp.Compare(b.Since, a.Since) })
	for _, d := range failed {
		if d.By == "" {
			continue
		}
		i := slices.IndexFunc(o.Givers, func(g giver) bool { return g.Agent == d.By })
		if i < 0 {
			i, o.Givers = len(o.Givers), append(o.Givers, giver{Agent: d.By})
		}
		if len(o.Givers[i].Tasks) < maxBulk {
			o.Givers[i].Tasks = append(o.Givers[i].Tasks, d.ID)
		}
	}
	o.Givers = slices.DeleteFunc(o.Givers, func(g giver) bool { return len(g.Tasks) < 2 })
	most := func(section string, n int) int {
		if section == whole {
			return len(g.Cards)
		}
		return n
	}
	o.Asked, o.Failed, o.Work = first(asked, most("asked", nowTasks)), first(failed, most("failed", nowTasks)), first(work, most("work", nowTasks))
	o.Next, o.Done, o.People = first(next, most("next", nowNext)), first(done, most("done", nowDone)), first(persons, most("people", nowTasks))
	o.Troubles = troubles(g, o)
	return o
}

// troubles returns what is not well with the daemon, the worst first. That it is away, every page
// says.
func troubles(g glance, o overview) (all []trouble) {
	h := g.Health
	add := func(is bool, text, do, url string) {
		if is && h.Up {
			all = append(all, trouble{text, do, url})
		}
	}
	add(h.Trouble != "", "Notion does not do what it should", "see why", "/health")
	add(h.Stale, "What is shown of Notion is old", "see why", "/health")
	add(h.OwedSince > 0 && g.Now.Sub(time.UnixMilli(h.OwedSince)) > owedAtMost, fmt.Sprintf("Notion has yet to be told of %s, for more than %s", many(h.Owed, "change", "changes"), spoken(owedAtMost.Seconds())), "see why", "/health")
	add(!h.Halted && o.Next.Count > 0 && o.Work.Count == 0, many(o.Next.Count, "task is", "tasks are")+" ready, and no agent works", "see which", "/tasks")
	return all
}

// Headline says what waits for a person, or that nothing does.
func (o overview) Headline() string {
	var waits []string
	for _, sort := range []struct {
		n         int
		one, more string
	}{
		{o.Questions, "question", "questions"}, {o.Asked.Count - o.Questions, "review", "reviews"}, {o.Failed.Count, "task given up", "tasks given up"},
	} {
		if sort.n > 0 {
			waits = append(waits, many(sort.n, sort.one, sort.more))
		}
	}
	if len(waits) == 0 {
		return "Nothing waits for you"
	}
	last := waits[len(waits)-1]
	if len(waits) > 1 {
		last = strings.Join(waits[:len(waits)-1], ", ") + " and " + last
	}
	if o.Asked.Count+o.Failed.Count == 1 {
		return last + " waits for you"
	}
	return last + " wait for you"
}

// Reasons says why a ready task comes when it does.
func (c card) Reasons() string {
	var all []string
	if c.Word != "" {
		all = append(all, c.Word)
	}
	if c.Unblocks > 0 {
		all = append(all, many(c.Unblocks, "task waits", "tasks wait")+" for it")
	}
	return strings.Join(all, " · ")
}
