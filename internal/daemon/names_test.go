package daemon_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
)

// mint asks for the name of a session.
func (n *node) mint(session string) (api.Minted, error) {
	return n.Mint(n.w.Context(), api.MintRequest{Session: session}, "")
}

func (n *node) mustMint(session string) string {
	n.w.Helper()
	got, err := n.mint(session)
	if err != nil {
		n.w.Fatal(err)
	}
	return got.Agent
}

func (n *node) agent(name string) api.Agent {
	n.w.Helper()
	a, err := n.Agent(n.w.Context(), name)
	if err != nil {
		n.w.Fatal(err)
	}
	return a
}

// A session has one name, also after a restart, until it has been gone for long. None of
// it costs a request to Notion.
func TestMint(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		o := w.options(func(c *config.Config) {
			c.Names.Prefix, c.Names.Keep, c.Sync.Interval = "claude-chat", 24*time.Hour, time.Hour
		})
		n := w.start(o)
		time.Sleep(time.Second)
		w.notion.ResetRequests()
		first, err := n.mint("one")
		if err != nil || !first.Minted || !regexp.MustCompile(`^claude-chat-[A-Z0-9]{4}$`).MatchString(first.Agent) {
			w.Fatalf("minted %+v, %v", first, err)
		}
		again, err := n.mint("one")
		if want := (api.Minted{Agent: first.Agent}); err != nil || again != want {
			w.Errorf("then %+v, %v; want %+v", again, err, want)
		}
		names := map[string]bool{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				session := ""
				if i >= 10 {
					session = fmt.Sprint("session ", i%20)
				}
				got, err := n.mint(session)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					w.Error(err)
				}
				names[got.Agent] = true
			})
		}
		wg.Wait()
		if len(names) != 30 || names[first.Agent] {
			w.Errorf("%d names for 20 sessions and 10 without one, or that of another: %v", len(names), names)
		}
		if who := n.agent(first.Agent); !who.Allowed || len(who.Claims) != 0 || who.Inbox != 0 {
			w.Errorf("agent %+v", who)
		}
		if sent := w.requests(); len(sent) != 0 {
			w.Errorf("it took %q", sent)
		}
		n.stop()

		n = w.start(o)
		if got := n.mustMint("one"); got != first.Agent {
			w.Errorf("after a restart %q, want %q", got, first.Agent)
		}
		time.Sleep(20 * time.Hour)
		n.mustMint("one")
		time.Sleep(20 * time.Hour)
		if got := n.mustMint("one"); got != first.Agent {
			w.Errorf("while it is heard of %q, want %q", got, first.Agent)
		}
		time.Sleep(25 * time.Hour)
		if got, err := n.mint("one"); err != nil || !got.Minted {
			w.Errorf("after it was gone: %+v, %v; want a new name", got, err)
		}
		n.stop()
	})
}

// Where `agents` lists who may claim, names are minted only if it says so.
func TestMintAmongListedAgents(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		other := w.add("more work", nil)
		o := w.options(func(c *config.Config) { c.Agents = []config.Agent{{Name: "Sandman"}} })
		n := w.start(o)
		defer n.stop()
		_, err := n.mint("one")
		const want = "no name such as agent-"
		if code(err) != "forbidden_agent" || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), `add "agent-*" to them`) {
			w.Errorf("no pattern: err = %v", err)
		}
		reload := func(agents ...config.Agent) {
			w.Helper()
			c := o.Config
			c.Agents, c.Names.Prefix = agents, "worker"
			if err := n.daemon.Reload(c); err != nil {
				w.Fatal(err)
			}
		}
		reload(config.Agent{Name: "Sandman"}, config.Agent{Name: "worker-*", MaxPerAgent: new(1)})
		name := n.mustMint("one")
		if !strings.HasPrefix(name, "worker-") {
			w.Errorf("minted %q under the prefix worker", name)
		}
		n.mustClaim(name, id)
		if _, err := n.claim(name, other); code(err) != denied(claim.CodeLimitReached) {
			w.Errorf("beyond the limit of its pattern: err = %v", err)
		}
		if _, err := n.claim("worker-", other); code(err) != "forbidden_agent" {
			w.Errorf("the pattern without an ending: err = %v", err)
		}
		// The caller of these tests is unknown, and so none of the users.
		reload(config.Agent{Name: "Sandman"}, config.Agent{Name: "worker-*", UIDs: []int{4711}})
		if _, err := n.mint("two"); code(err) != "forbidden_agent" || !strings.Contains(err.Error(), "the `uids` of \"worker-*\" in `agents` say who may go by one") {
			w.Errorf("for other users: err = %v", err)
		}
		if _, err := n.mint("one"); code(err) != "forbidden_agent" {
			w.Errorf("a name that is for other users by now: err = %v", err)
		}
		if who := n.agent(name); who.Allowed || !strings.Contains(who.Reason, "may not go by the name") || len(who.Claims) != 1 {
			w.Errorf("agent %+v", who)
		}
		// A name that is listed by itself goes before the pattern, and is kept.
		reload(config.Agent{Name: name}, config.Agent{Name: "worker-*", UIDs: []int{4711}})
		if got := n.mustMint("one"); got != name {
			w.Errorf("the session has %q, want %q", got, name)
		}
		if who := n.agent(name); !who.Allowed || who.MaxPerAgent != 0 {
			w.Errorf("agent %+v", who)
		}
	})
}

// One agent may have another limit than all, which a reload changes. Who is refused is
// told what it holds.
func TestLimitsOfSingleAgents(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		for i := range 9 {
			w.add(fmt.Sprint("task ", i), nil)
		}
		o := w.options(func(c *config.Config) {
			c.Claim.MaxPerAgent = 1
			c.Agents = []config.Agent{{Name: "Sandman"}, {Name: "Oracle", MaxPerAgent: new(2)}, {Name: "Hypnos", MaxPerAgent: new(0)}}
		})
		n := w.start(o)
		defer n.stop()
		claimed := func(agent string, tries int) (got []api.Claim, err error) {
			for range tries {
				var c api.Claim
				if c, err = n.claim(agent, ""); err != nil {
					return got, err
				}
				got = append(got, c)
			}
			return got, nil
		}
		if got, err := claimed("Sandman", 2); len(got) != 1 || code(err) != denied(claim.CodeLimitReached) {
			w.Errorf("Sandman got %d, %v; want 1", len(got), err)
		}
		if got, err := claimed("Hypnos", 3); len(got) != 3 {
			w.Errorf("Hypnos got %d, %v; want any number", len(got), err)
		}
		got, err := claimed("Oracle", 3)
		if len(got) != 2 || code(err) != denied(claim.CodeLimitReached) {
			w.Fatalf("Oracle got %d, %v; want 2", len(got), err)
		}
		p := err.(*api.Problem)
		if want := fmt.Sprintf("Oracle already holds as many tasks as it may (2): %s “%s”, %s “%s”; finish or release one first",
			got[0].Task.Key, got[0].Task.Title, got[1].Task.Key, got[1].Task.Title); p.Detail != want {
			w.Errorf("detail %q, want %q", p.Detail, want)
		}
		if len(p.Claims) != 2 || p.Claims[0].ID != got[0].ID || !p.Claims[1].ExpiresAt.Equal(got[1].ExpiresAt.Time) || p.Claims[1].Task.Title != got[1].Task.Title {
			w.Errorf("claims %+v, want %+v", p.Claims, got)
		}
		for agent, want := range map[string]bool{"Sandman": true, "Oracle": true, "Hypnos": false} {
			list, err := n.Tasks(w.Context(), api.TaskFilter{Ready: true, Agent: agent})
			if err != nil || list.LimitReached != want {
				w.Errorf("ready for %s: limit reached: %v, %v", agent, list.LimitReached, err)
			}
		}
		c := o.Config
		c.Agents = slices.Clone(c.Agents)
		c.Agents[1].MaxPerAgent = new(3)
		if err := n.daemon.Reload(c); err != nil {
			w.Fatal(err)
		}
		if who := n.agent("Oracle"); who.MaxPerAgent != 3 || len(who.Claims) != 2 {
			w.Errorf("Oracle may hold %d and holds %d, want 3 and 2", who.MaxPerAgent, len(who.Claims))
		}
		if got, err := claimed("Oracle", 2); len(got) != 1 || code(err) != denied(claim.CodeLimitReached) {
			w.Errorf("after the reload Oracle got %d, %v; want 1", len(got), err)
		}
	})
}

// How an agent stands is told without anything being taken from its inbox.
func TestAgent(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(nil)
		defer n.stop()
		poll := func() int {
			w.Helper()
			got, err := n.Poll(w.Context(), "Oracle", api.PollRequest{}, "")
			if err != nil {
				w.Fatal(err)
			}
			return len(got.Triggers)
		}
		poll()
		for range 2 {
			if _, err := n.Send(w.Context(), api.MessageRequest{From: "Sandman", To: "Oracle", Text: "hello"}, ""); err != nil {
				w.Fatal(err)
			}
		}
		w.add("work", nil)
		if _, err := n.Sync(w.Context(), api.SyncRequest{}, ""); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for range 2 {
			if who := n.agent("Oracle"); who.Inbox != 3 { // that a task is available, too
				w.Errorf("%d wait, want 3", who.Inbox)
			}
		}
		if got := poll(); got != 3 {
			w.Errorf("a poll got %d, want 3", got)
		}
		if who := n.agent("Oracle"); who.Inbox != 0 {
			w.Errorf("%d wait after the poll, want none", who.Inbox)
		}
		cl := n.mustClaim("Oracle", "")
		if who := n.agent("Oracle"); len(who.Claims) != 1 || who.Claims[0].ID != cl.ID {
			w.Errorf("Oracle holds %+v, want %s", who.Claims, cl.ID)
		}
		for _, name := range []string{"auto", " Oracle"} {
			if _, err := n.Agent(w.Context(), name); code(err) != "invalid_request" {
				w.Errorf("agent %q: err = %v", name, err)
			}
		}
		if _, err := n.claim("auto", ""); code(err) != "invalid_request" {
			w.Errorf("a claim of auto: err = %v", err)
		}
		if _, err := n.Send(w.Context(), api.MessageRequest{To: "auto", Text: "hello"}, ""); code(err) != "invalid_request" {
			w.Errorf("a message to auto: err = %v", err)
		}
		if _, err := n.mint(strings.Repeat("s", api.MaxSession+1)); code(err) != "invalid_request" {
			w.Errorf("too long a session: err = %v", err)
		}
	})
}
