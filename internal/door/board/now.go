package board

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"time"

	"dibs/internal/task"
)

// How many tasks the first page lists of each sort, and for how long something may be owed to Notion
// before it says so.
const (
	nowTasks   = 40
	nowDone    = 12
	nowNext    = 3
	owedAtMost = 5 * time.Minute
)

// overview is the first page: what is now.
type overview struct {
	Working part[card] // by agent
	People  part[card]
	Stuck   part[stuck] // the oldest first
	Review  part[card]
	Done    part[card] // today, the latest first
	Next    part[card] // what an agent gets that asks

	Troubles []trouble // what is not well
	Said     string    // what was just done
}

// part is the beginning of a list, and how many it has.
type part[T any] struct {
	First []T
	Count int
}

// More returns how many are not shown.
func (s part[T]) More() int { return s.Count - len(s.First) }

func first[T any](of []T, most int) part[T] { return part[T]{of[:min(most, len(of))], len(of)} }

// stuck is a task that goes on only if somebody does something.
type stuck struct {
	card
	Kind   string // asked, blocked, failed, stale, or waits in vain
	Answer bool   // a person may answer
	Key    string // the idempotency key of the answer
	Seen   seen
}

// Says returns what is known of why it is stuck.
func (s stuck) Says() string {
	switch {
	case s.Kind == "stale":
		return fmt.Sprintf("the lease of %s is over: a sweep opens the task", s.Agent)
	case s.Kind == "waits in vain":
		return s.Why
	}
	return cmp.Or(s.Said, s.Note)
}

// trouble is something that is not well, with what to do and where.
type trouble struct{ Text, Do, URL string }

// overviewOf sorts what a page has to show.
func overviewOf(g glance) overview {
	var working, persons, review, done, next []card
	var stuckOnes []stuck
	add := func(kind string, c card) {
		stuckOnes = append(stuckOnes, stuck{card: c, Kind: kind, Answer: c.Status == task.Blocked || c.Status == task.Failed, Key: rand.Text(), Seen: c.seen()})
	}
	now := g.Now.UnixMilli()
	y, m, d := g.Now.Date()
	today := time.Date(y, m, d, 0, 0, 0, 0, g.Now.Location()).UnixMilli()
	for _, c := range g.Cards {
		switch c.Column {
		case string(task.Open):
			if c.Stuck {
				add("waits in vain", c)
			} else if c.Ready {
				next = append(next, c)
			}
		case string(task.InProgress):
			if c.Until > 0 && c.Until < now {
				c.Since = c.Until
				add("stale", c)
			} else {
				working = append(working, c)
			}
		case people:
			persons = append(persons, c)
		case string(task.Review):
			review = append(review, c)
		case string(task.Blocked):
			kind := "blocked"
			if c.Asks {
				kind = "asked"
			}
			add(kind, c)
		case string(task.Failed):
			add("failed", c)
		case string(task.Completed):
			if c.Since >= today {
				done = append(done, c)
			}
		}
	}
	slices.SortStableFunc(working, func(a, b card) int { return cmp.Compare(a.Agent, b.Agent) })
	slices.SortStableFunc(stuckOnes, func(a, b stuck) int { return cmp.Compare(a.Since, b.Since) })
	slices.SortStableFunc(done, func(a, b card) int { return cmp.Compare(b.Since, a.Since) })
	o := overview{
		Working: first(working, nowTasks), People: first(persons, nowTasks), Stuck: first(stuckOnes, nowTasks),
		Review: first(review, nowTasks), Done: first(done, nowDone), Next: first(next, nowNext),
	}
	o.Troubles = troubles(g, o)
	return o
}

// troubles returns what is not well, the worst first. That the daemon is away, every page says.
func troubles(g glance, o overview) (all []trouble) {
	h := g.Health
	add := func(is bool, text, do, url string) {
		if is && h.Up {
			all = append(all, trouble{text, do, url})
		}
	}
	add(h.Halted, "Everybody is paused: nothing new is granted", "see who paused", "#brake")
	add(h.Trouble != "", "Notion does not do what it should", "see why", "/health")
	add(h.Stale, "What is shown of Notion is old", "see why", "/health")
	add(h.OwedSince > 0 && g.Now.Sub(time.UnixMilli(h.OwedSince)) > owedAtMost, fmt.Sprintf("%s to be told to Notion for more than %s", many(h.Owed, "change has", "changes have"), spoken(owedAtMost.Seconds())), "see why", "/health")
	add(o.Stuck.Count > 0, many(o.Stuck.Count, "task is", "tasks are")+" stuck", "see what they need", "#h-stuck")
	add(o.Review.Count > 0, many(o.Review.Count, "task waits", "tasks wait")+" for a decision", "decide", "#h-review")
	add(o.Next.Count > 0 && o.Working.Count == 0, many(o.Next.Count, "task is", "tasks are")+" ready, and no agent works", "see which", "/tasks")
	return all
}

// Well says in one line how it goes if nothing is the matter.
func (o overview) Well() string {
	return fmt.Sprintf("All is well: %s under way, %d ready, %d done today.", many(o.Working.Count, "task", "tasks"), o.Next.Count, o.Done.Count)
}

func many(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

func (b *Board) nowPage(w http.ResponseWriter, r *http.Request) {
	g := b.state.current()
	o := overviewOf(g)
	done, _ := actionOf(r.URL.Query().Get("done"))
	o.Said = done.Done
	render(w, http.StatusOK, "now.html", b.page("now", "Now", g, o))
}
