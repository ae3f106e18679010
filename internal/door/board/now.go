package board

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
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
	Seen   shown
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
		stuckOnes = append(stuckOnes, stuck{card: c, Kind: kind, Answer: c.Status == task.Blocked || c.Status == task.Failed, Key: rand.Text(), Seen: c.shown()})
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

// worker is an agent, as a page shows it.
type worker struct {
	api.AgentSummary
	Name   string
	Hue    int
	Median time.Duration // zero for none
	Held   []card
}

func (b *Board) agentsPage(w http.ResponseWriter, r *http.Request) {
	g := b.state.current()
	agents, err := client.Do(r.Context(), b.Daemon, api.OpListAgents, api.ListAgentsInput{})
	if err != nil {
		b.refuse(w, r, "agents", "Agents", err)
		return
	}
	var workers []worker
	for _, a := range agents.Agents {
		k := worker{AgentSummary: a, Name: text(a.Agent, 80)}
		k.Hue = hue(k.Name)
		if a.MedianSeconds != nil {
			k.Median = time.Duration(*a.MedianSeconds * float64(time.Second))
		}
		for _, c := range a.Claims {
			k.Held = append(k.Held, heldOf(c))
		}
		workers = append(workers, k)
	}
	render(w, http.StatusOK, "agents.html", b.page("agents", "Agents", g, workers))
}

func heldOf(c api.Claim) card {
	return cardOf(api.Task{TaskRef: c.Task, Agent: c.Agent, ClaimID: c.ID, Progress: c.Progress, ClaimedAt: c.ClaimedAt, ExpiresAt: c.ExpiresAt})
}

// eventFilter selects the events of a page. Modules filter alike.
type eventFilter struct {
	Kind, Agent, Words string
	Kinds, Agents      []string // the choices
}

func (b *Board) eventsPage(w http.ResponseWriter, r *http.Request) {
	g, q := b.state.current(), r.URL.Query()
	f := eventFilter{Kind: q.Get("kind"), Agent: q.Get("agent"), Words: q.Get("q")}
	var shown []event
	for _, e := range slices.Backward(g.Events) {
		f.Kinds, f.Agents = append(f.Kinds, e.Kind), append(f.Agents, e.Agent)
		if len(shown) < firstLines && f.selects(e) {
			shown = append(shown, e)
		}
	}
	f.Kinds, f.Agents = choices(f.Kinds, f.Kind), choices(f.Agents, f.Agent)
	render(w, http.StatusOK, "events.html", b.page("events", "Events", g, struct {
		Filter eventFilter
		Events []event
	}{f, shown}))
}

func (f eventFilter) selects(e event) bool {
	return (f.Kind == "" || f.Kind == e.Kind) && (f.Agent == "" || f.Agent == e.Agent) &&
		card{Title: e.Title, Agent: e.Agent, Why: e.Kind, Note: e.Text}.matches(f.Words)
}

func (b *Board) healthPage(w http.ResponseWriter, r *http.Request) {
	status, err := client.Do(r.Context(), b.Daemon, api.OpStatus, struct{}{})
	if err != nil {
		b.refuse(w, r, "health", "Health", err)
		return
	}
	how := condition{Status: status}
	if status.Cluster != nil {
		// Show the daemon even if the cluster cannot be asked.
		cluster, err := client.Do(r.Context(), b.Daemon, api.OpCluster, struct{}{})
		if how.Members = cluster.Members; err != nil {
			how.NoMembers = text(err.Error(), 2*maxLine)
		}
	}
	render(w, http.StatusOK, "health.html", b.page("health", "Health", b.state.current(), how))
}

// condition is the state of the daemon, and of its cluster if it has one.
type condition struct {
	api.Status
	Members   []api.Member
	NoMembers string // why the members cannot be shown
}
