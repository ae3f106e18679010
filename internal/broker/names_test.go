package broker_test

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/outbox/creation"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// board is a mirror with some tasks, of which nothing else is asked.
type board struct {
	broker.Mirror
	tasks []task.Task
}

func (board) Task(task.ID) (task.Task, bool) { return task.Task{}, false }
func (board) Used()                          {}
func (b board) Tasks() iter.Seq[task.Task]   { return slices.Values(b.tasks) }

// minter gives out the first of its names that is free.
type minter []string

func (minter) SessionName(context.Context, int, string, time.Time) (string, time.Time, error) {
	return "", time.Time{}, nil
}

func (m minter) MintName(_ context.Context, how task.Mint) (string, bool, error) {
	return m[slices.IndexFunc(m, how.Free)], true, nil
}

// A name that is on a task in Notion, or in the configuration, belongs to somebody, wherever
// that one is.
func TestNamesOnTheBoardAreTaken(t *testing.T) {
	b := broker.New(broker.Config{
		Mirror: board{tasks: []task.Task{{ID: "a", ClaimedBy: "agent-HELD", Status: task.InProgress}, {ID: "b", ClaimedBy: "agent-DONE", Status: task.Completed}}},
		Names:  minter{"agent-HELD", "agent-DONE", "agent-CONF", "other-7K9X", "agent-FREE"},
		Agents: []broker.Agent{{Name: "agent-*"}, {Name: "agent-CONF"}},
		Clock:  testkit.Clock{},
	})
	for _, session := range []string{"", "a"} {
		if got, err := b.Mint(t.Context(), broker.Caller{UID: 1000}, &api.MintInput{Body: &api.MintRequest{Session: session}}); got.Agent != "agent-FREE" || !got.Minted || err != nil {
			t.Errorf("session %q: minted %+v, %v; want agent-FREE", session, got, err)
		}
	}
}

func (h *house) mint(session string) (api.Minted, error) {
	return h.Mint(h.Context(), nobody, &api.MintInput{Body: &api.MintRequest{Session: session}})
}

func (h *house) mustMint(session string) string {
	h.Helper()
	got, err := h.mint(session)
	if err != nil {
		h.Fatal(err)
	}
	return got.Agent
}

func (h *house) agent(name string) api.Agent {
	h.Helper()
	a, err := h.GetAgent(h.Context(), nobody, &api.GetAgentInput{Name: name})
	if err != nil {
		h.Fatal(err)
	}
	return a
}

// A session has one name, also after a restart, until it has been gone for long; many who ask
// at a time get as many names as they are sessions.
func TestMint(t *testing.T) {
	inHouse(t, nil, nil, func(h *house) {
		first, err := h.mint("one")
		if err != nil || !first.Minted || !regexp.MustCompile(`^agent-[A-Z0-9]{4}$`).MatchString(first.Agent) {
			h.Fatalf("minted %+v, %v", first, err)
		}
		again, err := h.mint("one")
		if want := (api.Minted{Agent: first.Agent}); err != nil || again != want {
			h.Errorf("then %+v, %v; want %+v", again, err, want)
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
				got, err := h.mint(session)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					h.Error(err)
				}
				names[got.Agent] = true
			})
		}
		wg.Wait()
		if len(names) != 30 || names[first.Agent] {
			h.Errorf("%d names for 20 sessions and 10 without one, or that of another: %v", len(names), names)
		}
		if who := h.agent(first.Agent); !who.Allowed || len(who.Claims) != 0 || who.Inbox != 0 {
			h.Errorf("agent %+v", who)
		}
		h.restart()
		if got := h.mustMint("one"); got != first.Agent {
			h.Errorf("after a restart %q, want %q", got, first.Agent)
		}
		for range 2 {
			time.Sleep(6 * 24 * time.Hour)
			if got := h.mustMint("one"); got != first.Agent {
				h.Errorf("while it is heard of %q, want %q", got, first.Agent)
			}
		}
		time.Sleep(8 * 24 * time.Hour)
		if got, err := h.mint("one"); err != nil || !got.Minted {
			h.Errorf("after it was gone: %+v, %v; want a new name", got, err)
		}
	})
}

// Where `agents` lists who may claim, names are minted only if it says so.
func TestMintAmongListedAgents(t *testing.T) {
	inHouse(t, func(h *house) { h.config.Agents = []broker.Agent{{Name: "Sandman"}} }, pair(), func(h *house) {
		id, other := pair()[0].ID, pair()[1].ID
		_, err := h.mint("one")
		if h.code(err) != "forbidden_agent" || !strings.HasPrefix(err.Error(), "no name such as agent-") || !strings.Contains(err.Error(), `add "agent-*" to them`) {
			h.Errorf("no pattern: err = %v", err)
		}
		h.SetAgents([]broker.Agent{{Name: "Sandman"}, {Name: "agent-*", Limit: new(1)}})
		name := h.mustMint("one")
		if !strings.HasPrefix(name, "agent-") {
			h.Errorf("minted %q", name)
		}
		h.mustClaim(name, id)
		if _, err := h.claim(name, other); h.code(err) != string(claim.CodeLimitReached) {
			h.Errorf("beyond the limit of its pattern: err = %v", err)
		}
		if err := h.Authorize("agent-", nobody); h.code(err) != "forbidden_agent" {
			h.Errorf("the pattern without an ending: err = %v", err)
		}
		h.SetAgents([]broker.Agent{{Name: "Sandman"}, {Name: "agent-*", UIDs: []int{4711}}})
		if _, err := h.mint("two"); h.code(err) != "forbidden_agent" || !strings.Contains(err.Error(), "the `uids` of \"agent-*\" in `agents` say who may go by one") {
			h.Errorf("for other users: err = %v", err)
		}
		if _, err := h.mint("one"); h.code(err) != "forbidden_agent" {
			h.Errorf("a name that is for other users by now: err = %v", err)
		}
		if who := h.agent(name); who.Allowed || !strings.Contains(who.Reason, "may not go by the name") || len(who.Claims) != 1 {
			h.Errorf("agent %+v", who)
		}
		// A name that is listed by itself goes before the pattern, and is kept.
		h.SetAgents([]broker.Agent{{Name: name}, {Name: "agent-*", UIDs: []int{4711}}})
		if got := h.mustMint("one"); got != name {
			h.Errorf("the session has %q, want %q", got, name)
		}
		if who := h.agent(name); !who.Allowed || who.MaxPerAgent != 0 {
			h.Errorf("agent %+v", who)
		}
	})
}

// One agent may have another limit than all, which may change. Who is refused is told what it
// holds.
func TestLimitsOfSingleAgents(t *testing.T) {
	var tasks []task.Task
	for i := range 9 {
		tasks = append(tasks, openTask(i, fmt.Sprint("task ", i)))
	}
	agents := []broker.Agent{{Name: "Sandman"}, {Name: "Oracle", Limit: new(2)}, {Name: "Hypnos", Limit: new(0)}}
	inHouse(t, func(h *house) { h.policy.MaxPerAgent, h.config.Agents = 1, agents }, tasks, func(h *house) {
		claimed := func(agent string, tries int) (got []api.Claim, err error) {
			for range tries {
				var c api.Claim
				if c, err = h.claim(agent, ""); err != nil {
					return got, err
				}
				got = append(got, c)
			}
			return got, nil
		}
		for agent, want := range map[string]int{"Sandman": 1, "Hypnos": 3} {
			if got, err := claimed(agent, want); len(got) != want {
				h.Errorf("%s got %d, %v; want %d", agent, len(got), err, want)
			}
		}
		if _, err := h.claim("Sandman", ""); h.code(err) != string(claim.CodeLimitReached) {
			h.Errorf("Sandman beyond its limit: %v", err)
		}
		got, err := claimed("Oracle", 3)
		if len(got) != 2 || h.code(err) != string(claim.CodeLimitReached) {
			h.Fatalf("Oracle got %d, %v; want 2", len(got), err)
		}
		p := h.Problem(err)
		if want := fmt.Sprintf("Oracle already holds as many tasks as it may (2): %s “%s”, %s “%s”; finish or release one first",
			got[0].Task.Key, got[0].Task.Title, got[1].Task.Key, got[1].Task.Title); p.Detail != want {
			h.Errorf("detail %q, want %q", p.Detail, want)
		}
		if len(p.Claims) != 2 || p.Claims[0].ID != got[0].ID || !p.Claims[1].ExpiresAt.Equal(got[1].ExpiresAt.Time) || p.Claims[1].Task.Title != got[1].Task.Title {
			h.Errorf("claims %+v, want %+v", p.Claims, got)
		}
		for agent, want := range map[string]bool{"Sandman": true, "Oracle": true, "Hypnos": false} {
			if list := must(h, h.ListTasks, &api.ListTasksInput{Ready: true, Agent: agent}); list.LimitReached != want || want != (len(list.Tasks) == 0) {
				h.Errorf("ready for %s: %d, limit reached: %v", agent, len(list.Tasks), list.LimitReached)
			}
		}
		agents[1].Limit = new(3)
		h.SetAgents(agents)
		if who := h.agent("Oracle"); who.MaxPerAgent != 3 || len(who.Claims) != 2 {
			h.Errorf("Oracle may hold %d and holds %d, want 3 and 2", who.MaxPerAgent, len(who.Claims))
		}
		if got, err := claimed("Oracle", 2); len(got) != 1 || h.code(err) != string(claim.CodeLimitReached) {
			h.Errorf("with a higher limit Oracle got %d, %v; want 1", len(got), err)
		}
		h.mustFinish("Sandman", "", claim.EndCompleted, "")
		if list := must(h, h.ListTasks, &api.ListTasksInput{Ready: true, Agent: "Sandman"}); list.LimitReached || len(list.Tasks) == 0 {
			h.Errorf("ready for Sandman once it is done: %+v", list)
		}
	})
}

// How an agent stands is told without anything being taken from its inbox.
func TestAgent(t *testing.T) {
	inHouse(t, nil, nil, func(h *house) {
		h.wantTold("Oracle")
		for range 2 {
			if err := h.send(api.MessageRequest{From: "Sandman", To: "Oracle", Text: "hello"}); err != nil {
				h.Fatal(err)
			}
		}
		one := openTask(1, "work")
		h.board.Add(one)
		h.Changed(one.ID)
		for range 2 {
			if who := h.agent("Oracle"); who.Inbox != 3 { // that a task is available, too
				h.Errorf("%d wait, want 3", who.Inbox)
			}
		}
		h.wantTold("Oracle", "message from Sandman: hello", "message from Sandman: hello", "tasks_available 1")
		cl := h.mustClaim("Oracle", "")
		if who := h.agent("Oracle"); who.Inbox != 0 || len(who.Claims) != 1 || who.Claims[0].ID != cl.ID {
			h.Errorf("after the poll and a claim: %+v", who)
		}
		for _, name := range []string{"auto", " Oracle"} {
			_, got := did(h, h.GetAgent, &api.GetAgentInput{Name: name})
			for what, code := range map[string]string{"asked for": got, "claims": h.code(h.Authorize(name, nobody)), "is written to": h.code(h.send(api.MessageRequest{To: name, Text: "hello"}))} {
				if code != "invalid_request" {
					h.Errorf("%q %s: %s", name, what, code)
				}
			}
		}
	})
}

// outside notes in whose name the daemon around a broker is asked for something.
type outside struct {
	broker.Daemon
	broker.Cluster
	renewed, adopted string
}

func (o *outside) Doubt() error                         { return nil }
func (o *outside) Claimed(string, error, time.Duration) {}
func (o *outside) Webhook() api.Webhook                 { return api.Webhook{} }

func (o *outside) RenewWebhook(_ context.Context, by string) error {
	o.renewed = by
	return nil
}

func (o *outside) Adopt(_ context.Context, by string) (api.Cluster, error) {
	o.adopted = by
	return api.Cluster{}, nil
}

// maker makes the one task that there is.
type maker struct{ made task.Task }

func (m maker) Make(context.Context, creation.Request) (task.Task, bool, error) {
	return m.made, true, nil
}

func (m maker) Get(context.Context, task.ID) (claim.Reading, error) {
	return claim.Reading{Task: m.made}, nil
}

// What is done in no agent's name is signed with the caller's user, in the record; docs/threats.md
// lists it.
func TestSigned(t *testing.T) {
	blocked := with(openTask(1, "Blocked"), is(task.Blocked))
	stale := with(openTask(2, "Stale"), func(t *task.Task) {
		t.ClaimedBy, t.ClaimedAt, t.Status = "Oracle", time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), task.InProgress
	})
	around := new(outside)
	furnish := func(h *house) {
		h.config.Daemon, h.config.Cluster, h.config.Creations = around, around, maker{blocked}
	}
	inHouse(t, furnish, []task.Task{blocked, stale}, func(h *house) {
		ctx, who := h.Context(), broker.Caller{UID: 1000, User: "user ada", Own: true}
		time.Sleep(24 * time.Hour)
		key := api.BareInput{}
		for what, do := range map[claim.Kind]func() error{
			claim.KindReopened: func() error {
				_, err := h.Reopen(ctx, who, &api.ReopenInput{ID: string(blocked.ID)})
				return err
			},
			claim.KindSwept: func() error {
				_, err := h.Sweep(ctx, who, new(api.KeyedInput[*api.SweepRequest]))
				return err
			},
			claim.KindPaused:  func() error { return h.pause(who, "Sandman", "") },
			claim.KindResumed: func() error { _, err := h.resume(who, "Sandman"); return err },
			claim.KindAdded: func() error {
				_, err := h.AddTask(ctx, who, &api.AddInput{Body: api.AddRequest{Title: "New"}})
				return err
			},
			claim.KindCommented: func() error {
				in := api.OnTask(blocked.ID, "", api.CommentRequest{Text: "hello"})
				_, err := h.Comment(ctx, who, &in)
				return err
			},
			claim.KindMessage: func() error {
				_, err := h.Send(ctx, who, &api.KeyedInput[api.MessageRequest]{Body: api.MessageRequest{To: "Oracle", Text: "hello"}})
				return err
			},
		} {
			if what == claim.KindResumed {
				if err := h.pause(who, "Sandman", ""); err != nil {
					h.Fatal(err)
				}
			}
			if err := do(); err != nil {
				h.Errorf("%s: %v", what, err)
			}
			log, err := h.Log(ctx, nobody, &api.LogInput{Limit: 1000})
			if err != nil {
				h.Fatal(err)
			}
			by := "not on record"
			for _, e := range log.Entries {
				if e.Kind == what {
					by = e.By
				}
			}
			if by != who.User {
				h.Errorf("%s is signed %q", what, by)
			}
		}
		_, err := h.RenewWebhook(ctx, who, &key)
		if err != nil || around.renewed != who.User {
			h.Errorf("%v, renewed by %q", err, around.renewed)
		}
		if _, err := h.AdoptCluster(ctx, who, &key); err != nil || around.adopted != who.User {
			h.Errorf("%v, adopted by %q", err, around.adopted)
		}
		who.Own = false
		if _, err := h.AdoptCluster(ctx, who, &key); h.code(err) != string(api.CodeForbiddenAgent) {
			h.Errorf("anybody adopts: %v", err)
		}
		if _, err := h.RenewWebhook(ctx, who, &key); h.code(err) != string(api.CodeForbiddenAgent) {
			h.Errorf("anybody renews: %v", err)
		}
		if _, err := h.Webhook(ctx, who, nil); h.code(err) != string(api.CodeForbiddenAgent) {
			h.Errorf("anybody sees the secret: %v", err)
		}
	})
}
