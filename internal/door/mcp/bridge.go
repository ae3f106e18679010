package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/kit/clock"
	"dibs/internal/task"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/oklog/ulid/v2"
)

// agent is an agent that a bridge works for, with the claims that it knows of.
type agent struct {
	name string

	mu     sync.Mutex             // guards all below
	claims map[claim.ID]api.Claim // those that the agent knows that it holds
	own    map[claim.ID]bool      // those of them that it made, or spoke for, through this bridge
	lost   []api.Claim            // those whose end the agent has yet to be told
}

// granted records a claim that the agent made, or spoke for.
func (a *agent) granted(c api.Claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.State == claim.Held {
		a.claims[c.ID], a.own[c.ID] = c, true
	}
}

// done records that the agent itself ended a claim.
func (a *agent) done(id claim.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.claims, id)
	delete(a.own, id)
}

// news returns the lost claims that the agent has yet to be told of, each once.
func (a *agent) news() []api.Claim {
	a.mu.Lock()
	defer a.mu.Unlock()
	news := a.lost
	a.lost = nil
	return news
}

// refresh compares the agent's claims with the daemon's. This bridge takes over claims whose keeper
// is gone, and records those that ended. It returns the held claims, and how many were found to
// have ended. Claims that only this bridge can renew are renewed if renews is set.
func (b *Bridge) refresh(ctx context.Context, a *agent, renews bool) (held []api.Claim, over int, err error) {
	daemon, err := b.options.Daemon()
	if err != nil {
		return nil, 0, err
	}
	if held, err = heldBy(ctx, daemon, a.name); err != nil {
		return nil, 0, err
	}
	for i, c := range held {
		// A claim whose keeper lives, or that never had one, is left as it is.
		renewal := api.RenewRequest{Agent: a.name, Orphaned: true, Keeper: b.keeper()}
		if b.remote.Load() { // only this bridge can renew its claims
			renewal.Orphaned = false
			if !renews || !a.knows(c.ID) {
				continue
			}
		}
		if renewed, err := client.Do(ctx, daemon, api.OpRenew, api.On(string(c.ID), "", renewal)); b.isRemote(err) {
			return b.refresh(ctx, a, renews)
		} else if err != nil {
			b.options.Log.Debug("a claim could not be taken over", "claim", c.ID, "error", err)
		} else {
			held[i] = renewed
		}
	}
	a.mu.Lock()
	for _, c := range held {
		if a.claims[c.ID].State == claim.Held {
			a.claims[c.ID] = c // with its lease as it is now
		}
	}
	missing := make([]api.Claim, 0, len(a.claims))
	for id, c := range a.claims {
		if !slices.ContainsFunc(held, func(h api.Claim) bool { return h.ID == id }) {
			missing = append(missing, c)
		}
	}
	a.mu.Unlock()
	slices.SortFunc(missing, func(x, y api.Claim) int { return cmp.Compare(x.ID, y.ID) })
	for _, c := range missing {
		is, err := client.Do(ctx, daemon, api.OpGetClaim, api.GetClaimInput{ID: string(c.ID), After: api.EventsFuture})
		p, refused := errors.AsType[*api.Problem](err)
		switch {
		case refused && p.Code == api.CodeUnknownClaim:
			is = c
			is.Outcome, is.Detail = claim.EndLost, "the daemon no longer knows it"
		case err != nil:
			return held, over, err
		case is.State == claim.Held: // it is held again
			continue
		case c.State == claim.Finishing && is.State == claim.Finishing:
			continue
		case c.State == claim.Finishing && is.Outcome == c.Outcome: // as the agent asked
			a.done(c.ID)
			continue
		}
		if a.ended(is) {
			over++
		}
	}
	return held, over, nil
}

// heldBy returns the claims that an agent holds.
func heldBy(ctx context.Context, daemon *client.Client, name string) ([]api.Claim, error) {
	list, err := client.Do(ctx, daemon, api.OpListClaims, api.AgentFilter{Agent: name})
	return slices.DeleteFunc(list.Claims, func(c api.Claim) bool { return c.State != claim.Held }), err
}

// ended records the end of a claim that the agent did not end itself. It returns false if the claim
// is not among the known ones.
func (a *agent) ended(c api.Claim) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.claims[c.ID]; !known {
		return false
	}
	delete(a.claims, c.ID)
	delete(a.own, c.ID)
	a.lost = append(a.lost, c)
	return true
}

// knows reports whether the agent knows that it holds a claim.
func (a *agent) knows(id claim.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, known := a.claims[id]
	return known
}

// isRemote reports whether an error says that the daemon is on another machine, where it cannot see
// this process. The request is then repeated without the process, and this bridge renews the
// claims.
func (b *Bridge) isRemote(err error) bool {
	p, refused := errors.AsType[*api.Problem](err)
	if !refused || p.Code != api.CodeOtherMachine {
		return false
	}
	b.remote.Store(true)
	return true
}

// process returns the number of this process; 0 if the daemon cannot see it.
func (b *Bridge) process() int {
	if b.remote.Load() {
		return 0
	}
	return b.pid
}

// keeper returns this process as the keeper of claims.
func (b *Bridge) keeper() api.Keeper {
	if b.remote.Load() {
		return api.Keeper{}
	}
	return api.Keeper{PID: b.pid, GraceSeconds: b.options.Grace.Seconds()}
}

// watch refreshes an agent's claims until the bridge ends, and tells the client which ones were
// lost.
func (b *Bridge) watch(a *agent) {
	loop := clock.NewLoop(0, func(ctx context.Context) time.Duration {
		b.look(ctx, a)
		return refreshInterval
	})
	b.background.Go(func() { b.listen(a.name, loop) })
	loop.Run(b.over)
}

// look refreshes an agent's claims, and tells the client if some were lost.
func (b *Bridge) look(ctx context.Context, a *agent) {
	_, over, err := b.refresh(ctx, a, true)
	if err != nil && ctx.Err() == nil {
		b.options.Log.Debug("claims could not be refreshed", "agent", a.name, "error", err)
	}
	if over > 0 {
		b.push(ctx, a)
	}
}

// touch renews the claims of a hosted bridge, without waiting for that, unless it has just done so.
func (b *Bridge) touch() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.touched) < refreshInterval {
		return
	}
	b.touched = time.Now()
	for _, a := range b.agents {
		b.background.Go(func() { b.look(b.over, a) })
	}
}

// known returns the claims of all agents, as they were when last refreshed; if own is set, only
// those made through this bridge.
func (b *Bridge) known(own bool) (known []api.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.agents {
		a.mu.Lock()
		for id, c := range a.claims {
			if c.State == claim.Held && (a.own[id] || !own) {
				known = append(known, c)
			}
		}
		a.mu.Unlock()
	}
	return known
}

// listen wakes a loop when something happened to a claim of the agent's.
func (b *Bridge) listen(name string, loop *clock.Loop) {
	for b.over.Err() == nil {
		var err error
		var daemon *client.Client
		if daemon, err = b.options.Daemon(); err == nil {
			_, err = daemon.Events(b.over, api.EventsInput{After: api.EventsFuture, Agent: name, Patient: true}, true, func(api.Event) error {
				loop.Wake()
				return nil
			})
		}
		if err != nil {
			b.options.Log.Debug("the daemon's events could not be followed", "agent", name, "error", err)
		}
		clock.Pause(b.over, refreshInterval/3)
	}
}

// learns records that the agent holds a claim, or ended one whose end is still owed to Notion: it must
// be told if that fails. It reports whether the claim is news.
func (a *agent) learns(c api.Claim) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, known := a.claims[c.ID]
	a.claims[c.ID] = c
	return !known
}

// kept returns until when the agent's claims live that nobody renews; empty if it has none.
func (a *agent) kept() string {
	a.mu.Lock()
	held := slices.SortedFunc(maps.Values(a.claims), func(x, y api.Claim) int { return x.ExpiresAt.Compare(y.ExpiresAt.Time) })
	a.mu.Unlock()
	switch len(held) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("; your claim on %s lives until %s", called(taskOf(held[0].Task)), timeOfDay(held[0].ExpiresAt.Time))
	}
	return fmt.Sprintf("; your %d claims live until %s at least", len(held), timeOfDay(held[0].ExpiresAt.Time))
}

// push notifies the client of the agent's lost claims, if the client supports that.
func (b *Bridge) push(ctx context.Context, a *agent) {
	a.mu.Lock()
	var lost []string
	for _, c := range a.lost {
		lost = append(lost, goneText(c))
	}
	a.mu.Unlock()
	news := strings.Join(lost, "\n")
	if err := b.server.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: claimsURI}); err != nil {
		b.options.Log.Debug("the client was not told of a change", "error", err)
	}
	if news == "" {
		return
	}
	for session := range b.server.Sessions() {
		//lint:ignore SA1019 clients of before 2026-07-28 are told by it
		err := session.Log(ctx, &sdk.LoggingMessageParams{Level: "warning", Logger: "dibs", Data: news})
		if err != nil {
			b.options.Log.Debug("the client was not told of a lost claim", "error", err)
		}
	}
}

// Options configure a bridge: its agent and its daemon.
type Options struct {
	// Daemon returns the daemon. It is called for every request, from several goroutines. The agent
	// is told its error.
	Daemon func() (*client.Client, error)
	// Agent is the agent's name; empty for one per session of the client.
	Agent string
	// Session returns the id of the client's session, or of a thread in it; thread may be empty. It
	// returns nothing if it does not know.
	Session func(thread string) string
	// Hosted is the id of the client's session over HTTP; empty for a client on stdin and stdout. Then
	// nothing is known of its process: each of its requests renews the claims.
	Hosted string
	// Repository is the one that the agent works in, see api.ClaimRequest.
	Repository string
	// Grace is how long claims are kept after the bridge is gone.
	Grace   time.Duration
	Version string
	Log     *slog.Logger
}

// refreshInterval is how often a bridge refreshes the claims of its agents.
const refreshInterval = 15 * time.Second

// Bridge connects one client to the daemon. It is safe for concurrent use.
type Bridge struct {
	options Options
	server  *sdk.Server
	pid     int
	// remote is set once the daemon was found to be on another machine.
	remote atomic.Bool

	// over ends when the client is gone.
	over context.Context
	end  context.CancelFunc

	minting sync.Mutex // locked while a name is minted

	mu         sync.Mutex        // guards all below
	names      map[string]string // by session
	agents     map[string]*agent // by name
	touched    time.Time         // see touch
	topics     map[string]bool   // what the client subscribed to
	background sync.WaitGroup    // goroutines beside the calls
}

// caller is the caller of a tool: an agent of that name, or else the agent of the client's session,
// or of the thread that the request names.
type caller struct {
	name   string
	thread string
}

const (
	// maxWatched is how many agents a bridge watches even while they call no tool: each takes a
	// connection to the daemon.
	maxWatched = 32
	// maxKept is how many agents, and subscriptions, a hosted bridge keeps in memory.
	maxKept = 128
)

// agent returns the calling agent, and watches its claims from now on.
func (b *Bridge) agent(ctx context.Context, who caller) (*agent, error) {
	name := task.Name(cmp.Or(who.name, b.options.Agent))
	if name == "" {
		var err error
		if name, err = b.nameOf(ctx, who); err != nil {
			return nil, err
		}
	}
	if err := task.ValidateAgent(name); err != nil {
		return nil, usagef("agent %q: %v", name, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a, known := b.agents[name]
	if !known {
		if err := b.room(len(b.agents)); err != nil {
			return nil, err
		}
		a = newAgent(name)
		b.agents[name] = a
		if len(b.agents) <= maxWatched && b.options.Hosted == "" {
			b.background.Go(func() { b.watch(a) })
		}
	}
	return a, nil
}

func newAgent(name string) *agent {
	return &agent{name: name, claims: make(map[claim.ID]api.Claim), own: make(map[claim.ID]bool)}
}

// room returns an error if a hosted bridge keeps so many of something that there is no room for one
// more.
func (b *Bridge) room(kept int) error {
	if b.options.Hosted == "" || kept < maxKept {
		return nil
	}
	return usagef("one session has at most %d agents, and as many subscriptions: begin another", maxKept)
}

// subscribe notes that the client wants to hear of changes of a resource.
func (b *Bridge) subscribe(_ context.Context, req *sdk.SubscribeRequest) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.room(len(b.topics))
	if err == nil {
		b.topics[req.Params.URI] = true
	}
	return err
}

func (b *Bridge) unsubscribe(_ context.Context, req *sdk.UnsubscribeRequest) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.topics, req.Params.URI)
	return nil
}

// isAnother reports whether the named agent is neither the caller nor one that the bridge works
// for: this bridge must not keep its claims. A bridge without a name of its own works for whoever
// is named.
func (b *Bridge) isAnother(who caller) bool {
	if task.ValidateAgent(who.name) != nil || who.name == b.options.Agent {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, known := b.agents[who.name]
	return !known && (b.options.Agent != "" || b.options.Session(who.thread) != "")
}

// nameOf returns the name of a session's agent: the same one at every call. If the client names no
// sessions, the name lasts as long as the bridge.
func (b *Bridge) nameOf(ctx context.Context, who caller) (string, error) {
	b.mu.Lock()
	id := b.options.Session(who.thread)
	name, known := b.names[id]
	b.mu.Unlock()
	if known {
		return name, nil
	}
	daemon, err := b.options.Daemon()
	if err != nil {
		return "", err
	}
	b.minting.Lock() // two calls of one session must not get two names
	defer b.minting.Unlock()
	b.mu.Lock()
	name, known = b.names[id]
	err = b.room(len(b.names))
	b.mu.Unlock()
	if known || err != nil {
		return name, err
	}
	key := newKey()
	minted, err := insist(ctx, func() (api.Minted, error) {
		return client.Do(ctx, daemon, api.OpMint, api.MintInput{Key: key, Body: &api.MintRequest{Session: id}})
	})
	if err != nil {
		return "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.names[id] = minted.Agent
	return minted.Agent, nil
}

// threadOf returns the client's thread that a request belongs to, from the request's metadata.
// Codex sends it with every call (https://github.com/openai/codex/pull/18093, and before that
// https://github.com/openai/codex/pull/21329), with the value that its shells have in
// CODEX_THREAD_ID.
func threadOf(meta map[string]any) string {
	if id, ok := meta["threadId"].(string); ok && id != "" {
		return id
	}
	turn := meta["x-codex-turn-metadata"]
	if text, ok := turn.(string); ok {
		var parsed map[string]any
		if json.Unmarshal([]byte(text), &parsed) == nil {
			turn = parsed
		}
	}
	if fields, ok := turn.(map[string]any); ok {
		for _, key := range []string{"thread_id", "session_id"} {
			if id, ok := fields[key].(string); ok && id != "" {
				return id
			}
		}
	}
	return ""
}

// insist repeats a request if the daemon went away without an answer: it may be about to come back.
// The request must have a key. If the daemon stays away, the error says that it may have been
// carried out.
func insist[T any](ctx context.Context, ask func() (T, error)) (answer T, err error) {
	var sent error
	for range 6 {
		answer, err = ask()
		away, ok := errors.AsType[*client.UnreachableError](err)
		if ok && !away.Sent && sent != nil {
			return answer, sent
		}
		if !ok || !away.Sent || clock.Pause(ctx, time.Second) != nil {
			return answer, err
		}
		sent = err
	}
	return answer, err
}

// newKey returns the key of a request that only insist repeats.
func newKey() string { return "mcp " + ulid.Make().String() }

// The addresses of resources.
const (
	claimsURI = "dibs://claims"
	taskURI   = "dibs://tasks/"
)
