package board

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"path"
	"slices"
	"time"

	"dibs/internal/api"
)

// How many cards and events a page has until a module adds the rest, and how many cards a list has.
const (
	firstCards = 50
	firstLines = 100
	listCards  = 200
)

// page is the frame of every page.
type page struct {
	View     string // the name of the view
	Title    string
	Place    place
	Now      time.Time
	Health   health
	Pauses   []api.Pause
	ReadOnly bool
	User     string
	Body     any
}

func (b *Board) page(view, title string, g glance, body any) page {
	return page{view, title, g.Place, g.Now, g.Health, g.Pauses, b.ReadOnly, b.User, body}
}

// How long a page, and an action, waits for the daemon: a claim takes a settle wait.
const (
	pageAtMost   = 5 * time.Second
	actionAtMost = 45 * time.Second
)

// patient limits how long requests wait for the daemon, except the stream.
func patient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/live" {
			next.ServeHTTP(w, r)
			return
		}
		limit := pageAtMost
		switch {
		case r.Method == http.MethodPost:
			limit = actionAtMost
		case path.Base(r.URL.Path) == "page":
			limit = saidWait // Notion is asked
		}
		ctx, cancel := context.WithTimeoutCause(r.Context(), limit, errors.New("the daemon takes too long to answer: see dibs status, and its log"))
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// gone reports whether the browser has stopped waiting.
func gone(r *http.Request) bool { return errors.Is(r.Context().Err(), context.Canceled) }

// say answers with a notice, and a way back if the browser is let in.
func (b *Board) say(w http.ResponseWriter, status int, title, text string) {
	inside := status == http.StatusNotFound || status == http.StatusBadRequest
	render(w, status, "notice.html", struct {
		Title, Text string
		Inside      bool
	}{title, text, inside})
}

// refuse answers with the daemon's error.
func (b *Board) refuse(w http.ResponseWriter, r *http.Request, view, title string, err error) {
	if gone(r) {
		return
	}
	status, said := http.StatusBadGateway, err.Error()
	if p, ok := errors.AsType[*api.Problem](err); ok {
		status, said = p.Status, cmp.Or(p.Detail, p.Title)
	}
	render(w, status, "refused.html", b.page(view, title, b.state.current(), text(said, 2*maxLine)))
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
	agents, err := b.Daemon.Agents(r.Context(), 0)
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

// choices returns the values to choose from, always with the chosen one.
func choices(of []string, chosen string) []string {
	of = append(of, chosen)
	slices.Sort(of)
	return slices.DeleteFunc(slices.Compact(of), func(s string) bool { return s == "" })
}

func (b *Board) healthPage(w http.ResponseWriter, r *http.Request) {
	status, err := b.Daemon.Status(r.Context())
	if err != nil {
		b.refuse(w, r, "health", "Health", err)
		return
	}
	how := condition{Status: status}
	if status.Cluster != nil {
		// Show the daemon even if the cluster cannot be asked.
		cluster, err := b.Daemon.Cluster(r.Context())
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
