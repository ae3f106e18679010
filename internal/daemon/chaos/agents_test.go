package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"

	"github.com/oklog/ulid/v2"
)

// chaosAgent is an agent of one daemon. Its connection is cut now and then.
type chaosAgent struct {
	*chaos
	name      string
	daemon    *process
	random    *rand.Rand
	client    *client.Client
	asked     int // requests with an idempotency key
	neglected []api.Claim
	// patience is how long it waits for an answer before it asks again, and renewing the chance in
	// percent that it renews a claim.
	patience time.Duration
	renewing int
}

func newAgent(c *chaos, p *process, number int) *chaosAgent {
	a := &chaosAgent{
		chaos: c, daemon: p, name: fmt.Sprintf("agent-%d-%d", p.number, number), random: c.stream(100*p.number + number + 1),
		patience: 6 * time.Second, renewing: 30,
	}
	var d net.Dialer
	a.client = client.Over(p.socket, func(ctx context.Context) (net.Conn, error) {
		conn, err := d.DialContext(ctx, "unix", p.socket)
		if err == nil && a.chance(10) {
			c.count("cut connections")
			time.AfterFunc(a.upTo(3*time.Second), func() { conn.Close() })
		}
		return conn, err
	})
	return a
}

// chance returns true with that probability in percent.
func (a *chaosAgent) chance(percent int) bool { return a.random.IntN(100) < percent }

func (a *chaosAgent) upTo(d time.Duration) time.Duration {
	return time.Duration(a.random.Int64N(int64(d)))
}

// key returns a new idempotency key.
func (a *chaosAgent) key() string {
	a.asked++
	return fmt.Sprint(a.name, "-", a.asked)
}

// work lets the agent claim tasks and finish or release them until ctx ends. Then it gives back
// what it holds.
func (a *chaosAgent) work(ctx context.Context) {
	for sleep(ctx, a.upTo(500*time.Millisecond)) {
		cl, ok := a.claim(ctx)
		if !ok {
			continue
		}
		switch {
		case a.chance(8):
			a.neglected = append(a.neglected, cl) // neglected, for now
		default:
			a.workOn(ctx, cl)
			a.end(cl)
		}
	}
	for _, cl := range a.neglected {
		a.end(cl)
	}
}

// claim asks for a task until it is granted or refused.
func (a *chaosAgent) claim(ctx context.Context) (api.Claim, bool) {
	body := api.ClaimRequest{Agent: a.name}
	switch {
	case a.chance(75):
		sleep(ctx, rush-a.now()%rush+a.upTo(a.window/4))
		body.Task = a.wanted()
	case a.chance(20):
		body.Task = a.aTask(a.random)
	default:
		body.WaitSeconds = a.upTo(2 * time.Second).Seconds()
	}
	return a.ask(ctx, body)
}

// ask sends body until the agent has a grant or a refusal.
func (a *chaosAgent) ask(ctx context.Context, body api.ClaimRequest) (api.Claim, bool) {
	key, call := a.key(), a.now()
	cl, err := persist(a, func(ctx context.Context) (api.Claim, error) {
		return client.Do(ctx, a.client, api.OpClaim, api.Keyed(key, body))
	}, func() bool {
		return ctx.Err() == nil && a.chance(70) // Notion does not answer: the key may be reused
	})
	if err != nil {
		a.refused(key, err)
		return cl, false
	}
	a.granted(a, key, call, cl)
	a.count("grants")
	if a.chance(10) {
		again, err := persist(a, func(ctx context.Context) (api.Claim, error) {
			return client.Do(ctx, a.client, api.OpClaim, api.Keyed(key, body))
		}, nil)
		if err != nil || again.ID != cl.ID {
			a.complainUnlessLost(span{call, a.now()}, "%s was granted %s, and under the same key %s: %s, %v", a.name, cl.ID, key, again.ID, err)
		}
	}
	return cl, true
}

// refused records an agent's refusal.
func (a *chaosAgent) refused(key string, err error) {
	p, ok := errors.AsType[*api.Problem](err)
	if !ok {
		a.complain("%s was not answered to the end: %v", a.name, err)
		return
	}
	a.count("refusals: " + string(p.Code))
	switch p.Code {
	case api.CodeClaimLost:
		// The claim was granted while nobody listened, and has ended.
		if p.Claim == nil {
			a.complain("%s is told that a claim was lost, and not which: %v", a.name, err)
			return
		}
		a.bound(key, p.Claim.ID)
	case api.CodeInternal, api.CodeKeyReused, api.CodeInvalidRequest, api.CodeForbiddenAgent, api.CodeNotionRefused:
		a.complain("%s is told: %v", a.name, err)
	}
}

// workOn lets the agent work on its task for a while, and renew its claim.
func (a *chaosAgent) workOn(ctx context.Context, cl api.Claim) {
	for until := a.now() + a.upTo(a.atWork); a.now() < until && a.trusted(cl.ID); {
		sleep(ctx, 200*time.Millisecond+a.upTo(2*time.Second))
		if ctx.Err() != nil {
			return
		}
		if !a.chance(a.renewing) {
			continue
		}
		off, call := a.daemon.off(), a.now()
		asking, cancel := context.WithTimeout(a.Context(), a.patience)
		renewed, err := client.Do(asking, a.client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{Agent: a.name}))
		cancel()
		if lost(err) {
			a.ended(cl.ID, call, "a renewal was refused: %v", err)
		} else if err == nil && a.daemon.off() == off {
			a.count("renewals")
			a.renewed(cl.ID, renewed.ExpiresAt.Add(-off))
		}
	}
}

// end lets the agent finish or release its task.
func (a *chaosAgent) end(cl api.Claim) {
	id, key := string(cl.ID), a.key()
	verbs := []struct {
		percent int
		kind    claim.Kind
		say     func(context.Context) (api.Claim, error)
	}{
		{50, claim.KindCompleted, func(ctx context.Context) (api.Claim, error) {
			return client.Do(ctx, a.client, api.OpComplete, api.On(id, key, api.CompleteRequest{Agent: a.name, Summary: "done"}))
		}},
		{30, claim.KindReleased, func(ctx context.Context) (api.Claim, error) {
			return client.Do(ctx, a.client, api.OpRelease, api.On(id, key, api.StopRequest{Agent: a.name}))
		}},
		{10, claim.KindBlocked, func(ctx context.Context) (api.Claim, error) {
			return client.Do(ctx, a.client, api.OpBlock, api.On(id, key, api.BlockRequest{Agent: a.name, Reason: "no access"}))
		}},
		{10, claim.KindFailed, func(ctx context.Context) (api.Claim, error) {
			return client.Do(ctx, a.client, api.OpFail, api.On(id, key, api.FailRequest{Agent: a.name, Reason: "it does not work", Reopen: true}))
		}},
	}
	roll := a.random.IntN(100)
	verb := verbs[0]
	for _, v := range verbs {
		if verb = v; roll < v.percent {
			break
		}
		roll -= v.percent
	}
	call := a.now()
	a.ended(cl.ID, call, "it is to be %s", verb.kind)
	_, err := persist(a, verb.say, func() bool { return true })
	if err == nil {
		a.finished(cl.ID, verb.kind, call)
		a.count(string(verb.kind))
		return
	}
	a.finished(cl.ID, "", call)
	switch p, _ := errors.AsType[*api.Problem](err); {
	case lost(err):
		a.count("finishes too late")
		if p.Code == api.CodeUnknownClaim {
			a.forgotten(cl.ID)
		}
	case p != nil && p.Code == api.Code(claim.CodeNotionUnavailable):
		a.count("finishes given up")
	default:
		a.complain("%s could not say that %s was %s: %v", a.name, cl.ID, verb.kind, err)
	}
}

// lost reports whether an error says that the claim has ended.
func lost(err error) bool {
	p, ok := errors.AsType[*api.Problem](err)
	return ok && (p.Code == api.CodeClaimLost || p.Code == api.CodeUnknownClaim)
}

// persist asks until the daemon answers, even if it is killed repeatedly. again decides whether to
// ask once more if Notion cannot be reached; nil for always.
func persist(a *chaosAgent, ask func(context.Context) (api.Claim, error), again func() bool) (cl api.Claim, err error) {
	for a.Context().Err() == nil {
		ctx, cancel := context.WithTimeout(a.Context(), a.patience)
		cl, err = ask(ctx)
		cancel()
		p, answered := errors.AsType[*api.Problem](err)
		switch {
		case err == nil:
			return cl, nil
		case answered && p.Code == api.Code(claim.CodeJournalUnavailable) && a.isOver() && strings.Contains(p.Detail, "nothing is granted"):
			return cl, err // for a minute, or worse
		case !answered, p.Code == api.CodeStopping, p.Code == api.CodeBusy, p.Code == api.Code(claim.CodeJournalUnavailable): // ask again
		case p.Code != api.Code(claim.CodeNotionUnavailable), again != nil && !again(), a.ending():
			return cl, err
		}
		sleep(a.Context(), 50*time.Millisecond+a.upTo(500*time.Millisecond))
	}
	return cl, err
}

// people edit the board at random.
type people struct {
	*chaos
	random *rand.Rand
}

// gesture is a person's change of a task. After one that takes, the claim on the task may end.
type gesture struct {
	name  string
	takes bool
	do    func(p *people, ctx context.Context, id string) error
}

// set is a gesture that sets properties.
func set(props map[string]any) func(*people, context.Context, string) error {
	return func(p *people, _ context.Context, id string) error { return p.notion.EditPage(id, props) }
}

var (
	nobody = map[string]any{
		"claimed_by": text("rich_text", ""), "claim_token": text("rich_text", ""), "claimed_at": map[string]any{"date": nil},
	}
	opened = map[string]any{
		"status":     option("status", "OPEN"),
		"claimed_by": nobody["claimed_by"], "claim_token": nobody["claim_token"], "claimed_at": nobody["claimed_at"],
	}
)

// gestures are what people do.
var gestures = []gesture{
	{"reopened", true, set(opened)},
	{"set to OPEN", true, set(map[string]any{"status": option("status", "OPEN")})},
	{"set to OPEN", true, set(map[string]any{"status": option("status", "OPEN")})},
	{"blocked", true, set(map[string]any{"status": option("status", "BLOCKED")})},
	{"cancelled", true, set(map[string]any{"status": option("status", "CANCELLED")})},
	{"completed", true, set(map[string]any{"status": option("status", "COMPLETED")})},
	{"taken", true, set(map[string]any{"claimed_by": text("rich_text", "Maria")})},
	{"assigned", true, set(map[string]any{
		"status": option("status", "OPEN"), "claimed_by": text("rich_text", "Maria"),
		"claim_token": nobody["claim_token"], "claimed_at": nobody["claimed_at"],
	})},
	{"token deleted", true, set(map[string]any{"claim_token": nobody["claim_token"]})},
	{"retitled", false, func(p *people, _ context.Context, id string) error {
		return p.notion.EditPage(id, map[string]any{"Name": text("title", fmt.Sprint("Task ", p.random.IntN(1000)))})
	}},
	{"given a priority", false, func(p *people, _ context.Context, id string) error {
		names := []string{"critical", "high", "medium", "low"}
		return p.notion.EditPage(id, map[string]any{"priority": option("select", names[p.random.IntN(len(names))])})
	}},
	{"trashed and restored", true, func(p *people, ctx context.Context, id string) error {
		if err := p.notion.TrashPage(id); err != nil {
			return err
		}
		sleep(ctx, time.Duration(p.random.Int64N(int64(8*time.Second))))
		p.taken(id)
		return p.notion.RestorePage(id)
	}},
	{"left behind", true, leaveBehind},
	{"left behind", true, leaveBehind},
}

// leaveBehind leaves a claim from ten minutes ago, whose daemon is gone for good.
func leaveBehind(p *people, _ context.Context, id string) error {
	at := time.Now().Add(-10 * time.Minute)
	return p.notion.EditPage(id, map[string]any{
		"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Ghost"), "claimed_at": date(at),
		"claim_token": text("rich_text", ulid.MustNew(ulid.Timestamp(at), ulid.DefaultEntropy()).String()),
	})
}

// work edits tasks until ctx ends.
func (p *people) work(ctx context.Context) {
	for sleep(ctx, time.Duration(p.random.Int64N(int64(p.peopleEvery)))) {
		id := p.aTask(p.random)
		g := gestures[p.random.IntN(len(gestures))]
		if g.takes {
			p.taken(id)
		}
		if err := g.do(p, ctx, id); err != nil {
			p.Error(err)
		}
		p.count("edits: " + g.name)
	}
}

// lead reopens tasks that nobody works on, until ctx ends, so that there is work.
func (p *people) lead(ctx context.Context) {
	for sleep(ctx, time.Duration(p.random.Int64N(int64(p.peopleEvery/6)))) {
		page, _ := p.notion.Page(p.aTask(p.random))
		if page.Select("status") == "IN_PROGRESS" || page.Select("status") == "OPEN" && page.Text("claimed_by") != "Maria" {
			continue
		}
		p.taken(page.ID)
		if err := p.notion.EditPage(page.ID, opened); err != nil {
			p.Error(err)
		}
	}
}

// way is a connection to an address that can be cut, and moved to another one.
type way struct {
	listen net.Listener

	mu   sync.Mutex
	to   string
	cut  bool
	open map[net.Conn]bool
}

// newWay makes a way to an address.
func newWay(t testing.TB, to string) *way {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{to: to, listen: l, open: make(map[net.Conn]bool)}
	go w.serve()
	t.Cleanup(func() { l.Close(); w.sever(true) })
	return w
}

// address returns the address at which the way begins.
func (w *way) address() string { return w.listen.Addr().String() }

// sever closes all connections; with cut, it admits no new ones until it is called without.
func (w *way) sever(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	for c := range w.open {
		c.Close()
	}
	clear(w.open)
}

// lead lets the way lead to another address. Connections to the last one are closed.
func (w *way) lead(to string) {
	w.mu.Lock()
	w.to = to
	w.mu.Unlock()
	w.sever(false)
}

func (w *way) serve() {
	for {
		near, err := w.listen.Accept()
		if err != nil {
			return
		}
		go w.carry(near)
	}
}

func (w *way) carry(near net.Conn) {
	defer near.Close()
	w.mu.Lock()
	to := w.to
	w.mu.Unlock()
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer far.Close()
	w.mu.Lock()
	cut := w.cut || w.to != to
	if !cut {
		w.open[near], w.open[far] = true, true
	}
	w.mu.Unlock()
	if cut {
		return
	}
	go func() { io.Copy(far, near); far.Close(); near.Close() }()
	io.Copy(near, far)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, near)
	delete(w.open, far)
}
