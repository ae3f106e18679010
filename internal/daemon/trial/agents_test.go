package trial_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit/referee"

	"github.com/oklog/ulid/v2"
)

// agent is an agent of one daemon, which claims and finishes tasks as fast as it can. Its connection is
// cut now and then.
type agent struct {
	*trial
	name   string
	daemon *process
	random *rand.Rand
	client *client.Client
	asked  int // requests with an idempotency key
	// patience is how long it waits for an answer before it asks again, and renewing the chance in
	// percent that it renews a claim.
	patience time.Duration
	renewing int
}

func newAgent(tr *trial, p *process, number int) *agent {
	a := &agent{
		trial: tr, daemon: p, name: fmt.Sprintf("agent-%d-%d", p.number, number), random: tr.stream(100*p.number + number + 1),
		patience: 6 * time.Second, renewing: 30,
	}
	if tr.paused {
		a.patience, a.renewing = time.Minute, 0
	}
	var d net.Dialer
	a.client = client.Over(p.socket, func(ctx context.Context) (net.Conn, error) {
		conn, err := d.DialContext(ctx, "unix", p.socket)
		if err == nil && a.chance(10) {
			a.count("cut connections")
			time.AfterFunc(a.upTo(3*time.Second), func() { conn.Close() })
		}
		return conn, err
	})
	return a
}

// chance returns true with that probability in percent.
func (a *agent) chance(percent int) bool { return a.random.IntN(100) < percent }

func (a *agent) upTo(d time.Duration) time.Duration { return time.Duration(a.random.Int64N(int64(d))) }

// key returns a new idempotency key.
func (a *agent) key() string {
	a.asked++
	return fmt.Sprint(a.name, "-", a.asked)
}

// hot is how many tasks are wanted by many agents of all daemons at once.
const hot = 4

func (a *agent) work(ctx context.Context) {
	stranger := !a.daemon.shares() // with a journal of its own
	for ctx.Err() == nil {
		body := api.ClaimRequest{Agent: a.name}
		contested := stranger || a.chance(20)
		if contested {
			body.Task = a.ids[a.random.IntN(min(hot, len(a.ids)))]
		}
		cl, ok := a.ask(ctx, body)
		if !ok {
			sleep(ctx, a.upTo(time.Second)) // every failure takes time
			continue
		}
		if stranger {
			a.count("grants of the stranger")
		} else {
			a.made.Add(1)
		}
		switch {
		case contested || a.chance(a.holding):
			a.workOn(ctx, cl)
		default:
			sleep(ctx, a.upTo(20*time.Millisecond))
		}
		if a.chance(10) {
			a.tell()
		}
		a.end(cl)
	}
}

// ask sends body until the agent has a grant or a refusal.
func (a *agent) ask(ctx context.Context, body api.ClaimRequest) (api.Claim, bool) {
	key, call := a.key(), time.Now()
	cl, err := persist(a, func(ctx context.Context) (api.Claim, error) {
		return client.Do(ctx, a.client, api.OpClaim, api.Keyed(key, body))
	}, func() bool {
		return ctx.Err() == nil && a.chance(70) // Notion does not answer: the key may be reused
	})
	if err != nil {
		a.refused(key, err)
		return cl, false
	}
	a.granted(key, call, cl)
	a.count("grants")
	if a.chance(10) {
		again, err := persist(a, func(ctx context.Context) (api.Claim, error) {
			return client.Do(ctx, a.client, api.OpClaim, api.Keyed(key, body))
		}, nil)
		if err != nil || again.ID != cl.ID {
			a.ComplainUnlessLost(referee.Span{From: call, To: time.Now()}, "%s was granted %s, and under the same key %s: %s, %v", a.name, cl.ID, key, again.ID, err)
		}
	}
	return cl, true
}

// refused records an agent's refusal.
func (a *agent) refused(key string, err error) {
	p, ok := errors.AsType[*api.Problem](err)
	if !ok {
		a.Complain("%s was not answered to the end: %v", a.name, err)
		return
	}
	a.count("refusals: " + string(p.Code))
	switch p.Code {
	case api.CodeClaimLost:
		// The claim was granted while nobody listened, and has ended.
		if p.Claim == nil {
			a.Complain("%s is told that a claim was lost, and not which: %v", a.name, err)
			return
		}
		a.bound(key, p.Claim.ID)
	case api.CodeInternal, api.CodeKeyReused, api.CodeInvalidRequest, api.CodeForbiddenAgent, api.CodeNotionRefused:
		a.Complain("%s is told: %v", a.name, err)
	}
}

// granted notes a grant, for which the agent first asked at call. The times in the answer are by a
// daemon's clock, which may be wrong. The id was minted at the beginning of the attempt by Notion's time.
func (a *agent) granted(key string, call time.Time, cl api.Claim) {
	a.bound(key, cl.ID)
	began := ulid.Time(ulid.MustParse(string(cl.ID)).Time())
	if now := time.Now(); began.After(now) {
		began = now
	}
	if began.Before(call) {
		began = call
	}
	if !a.daemon.shares() {
		cl.Fence = 0 // of its own numbers
	}
	a.Granted(referee.Hold{
		ID: cl.ID, Task: string(cl.Task.ID), Agent: a.name, Daemon: a.daemon.number, Fence: cl.Fence,
		Call: call, Expires: began.Add(cl.ExpiresAt.Sub(cl.ClaimedAt.Time)),
	})
}

// workOn lets the agent work on its task for a while, and renew its claim.
func (a *agent) workOn(ctx context.Context, cl api.Claim) {
	for until := time.Now().Add(a.upTo(a.atWork)); time.Now().Before(until) && a.Trusted(cl.ID); {
		sleep(ctx, 200*time.Millisecond+a.upTo(2*time.Second))
		if ctx.Err() != nil {
			return
		}
		if !a.chance(a.renewing) {
			continue
		}
		right, call := a.clocksAreRight(), time.Now()
		asking, cancel := context.WithTimeout(a.Context(), a.patience)
		renewed, err := client.Do(asking, a.client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{Agent: a.name}))
		cancel()
		if lost(err) {
			a.Ended(cl.ID, call, "a renewal was refused: %v", err)
		} else if err == nil && right && a.clocksAreRight() {
			a.count("renewals")
			a.Renewed(cl.ID, renewed.ExpiresAt.Time)
		}
	}
}

// end lets the agent finish or release its task.
func (a *agent) end(cl api.Claim) {
	id, key, call := string(cl.ID), a.key(), time.Now()
	kind := claim.KindFailed
	switch draw := a.random.IntN(100); {
	case draw < 50:
		kind = claim.KindCompleted
	case draw < 80:
		kind = claim.KindReleased
	case draw < 90:
		kind = claim.KindBlocked
	}
	a.Ended(cl.ID, call, "it is to be %s", kind)
	_, err := persist(a, func(ctx context.Context) (api.Claim, error) {
		switch kind {
		case claim.KindCompleted:
			return client.Do(ctx, a.client, api.OpComplete, api.On(id, key, api.CompleteRequest{Agent: a.name, Summary: "done"}))
		case claim.KindReleased:
			return client.Do(ctx, a.client, api.OpRelease, api.On(id, key, api.StopRequest{Agent: a.name}))
		case claim.KindBlocked:
			return client.Do(ctx, a.client, api.OpBlock, api.On(id, key, api.BlockRequest{Agent: a.name, Reason: "no access"}))
		}
		return client.Do(ctx, a.client, api.OpFail, api.On(id, key, api.FailRequest{Agent: a.name, Reason: "it does not work", Reopen: true}))
	}, func() bool { return true })
	if err == nil {
		a.Finished(cl.ID, kind, call)
		a.count(string(kind))
		return
	}
	switch p, _ := errors.AsType[*api.Problem](err); {
	case lost(err):
		a.count("finishes too late")
		if p.Code == api.CodeUnknownClaim {
			h := a.Hold(cl.ID)
			a.ComplainUnlessLost(referee.Span{From: h.Call, To: h.Told}, "claim %s, granted to %s, is unknown", h.ID, h.Agent)
		}
	case p != nil && p.Code == api.Code(claim.CodeNotionUnavailable):
		a.count("finishes given up")
	default:
		a.Complain("%s could not say that %s was %s: %v", a.name, cl.ID, kind, err)
	}
}

// lost reports whether an error says that the claim has ended.
func lost(err error) bool {
	p, ok := errors.AsType[*api.Problem](err)
	return ok && (p.Code == api.CodeClaimLost || p.Code == api.CodeUnknownClaim)
}

// persist asks until the daemon answers, even if it is killed repeatedly. again decides whether to
// ask once more if Notion cannot be reached; nil for always.
func persist(a *agent, ask func(context.Context) (api.Claim, error), again func() bool) (cl api.Claim, err error) {
	for a.Context().Err() == nil {
		ctx, cancel := context.WithTimeout(a.Context(), a.patience)
		cl, err = ask(ctx)
		cancel()
		p, answered := errors.AsType[*api.Problem](err)
		switch {
		case err == nil:
			return cl, nil
		case answered && p.Code == api.Code(claim.CodeJournalUnavailable) && a.isOver(0) && strings.Contains(p.Detail, "nothing is granted"):
			return cl, err // for a minute, or worse
		case !answered, p.Code == api.CodeStopping, p.Code == api.CodeBusy, p.Code == api.Code(claim.CodeJournalUnavailable): // ask again
		case p.Code != api.Code(claim.CodeNotionUnavailable), again != nil && !again(), a.isOver(time.Minute):
			return cl, err
		}
		sleep(a.Context(), 50*time.Millisecond+a.upTo(500*time.Millisecond))
	}
	return cl, err
}

// compete lets the stranger's agents compete with the others from half of the grants on. Before that,
// one of them has a task that nobody else may take, until the shared journal has that there is a
// stranger: from then on the others' claims are settled. The stranger takes its time between a read and
// its write.
func (tr *trial) compete(ctx context.Context) {
	for int(tr.made.Load()) < tr.claims/2 {
		if !sleep(ctx, 50*time.Millisecond) {
			return
		}
	}
	p := tr.daemons[members]
	first := newAgent(tr, p, 0)
	id, err := tr.notion.CreatePage(tr.board, map[string]any{"Name": text("title", "Strange"), "claimed_by": text("rich_text", first.name)})
	if err != nil {
		tr.Error(err)
	}
	began := time.Now()
	for met := false; !met && ctx.Err() == nil; tr.turning.Unlock() {
		if time.Since(began) > comesUp {
			tr.Complain("in %v nobody has seen that there is a stranger", comesUp)
		}
		tr.turning.Lock() // what is seen now is not lost
		cl, ok := first.ask(ctx, api.ClaimRequest{Agent: first.name, Task: id})
		for ok && !met && first.Trusted(cl.ID) && sleep(ctx, 100*time.Millisecond) {
			_ = ask(tr.database, fmt.Sprintf("SELECT EXISTS (SELECT FROM %s.meta WHERE key = 'stranger')", tr.space()), &met) // it may be down
		}
	}
	tr.notion.Inject(emulator.Fault{Kind: emulator.DelayAnswer, Delay: tr.window / 5, Match: func(r *http.Request, _ []byte) bool {
		return r.Host == p.host && r.Method == http.MethodGet
	}})
	var all sync.WaitGroup
	all.Go(func() { first.work(ctx) })
	for n := range 3 {
		a := newAgent(tr, p, n+1)
		all.Go(func() { a.work(ctx) })
	}
	all.Wait()
}

// tell lets the agent send a message, whose text is its key, too.
func (a *agent) tell() {
	key, call := a.key(), time.Now()
	_, err := persist(a, func(ctx context.Context) (api.Claim, error) {
		_, err := client.Do(ctx, a.client, api.OpSend, api.Keyed(key, api.MessageRequest{From: a.name, To: "Bob", Text: key}))
		return api.Claim{}, err
	}, nil)
	if err == nil {
		a.Accepted(key, call)
		a.count("messages")
	} else {
		a.count("messages given up")
	}
}

// opened is what a page is like that anybody may claim.
var opened = map[string]any{
	"status":     map[string]any{"status": map[string]any{"name": "OPEN"}},
	"claimed_by": text("rich_text", ""), "claim_token": text("rich_text", ""), "claimed_at": map[string]any{"date": nil},
}

// reopen lets a person reopen finished tasks until ctx ends.
func (tr *trial) reopen(ctx context.Context) {
	for sleep(ctx, time.Second) {
		for _, page := range tr.notion.Pages(tr.board) {
			if s := page.Select("status"); s == "OPEN" || s == "IN_PROGRESS" {
				continue
			}
			if err := tr.notion.EditPage(page.ID, opened); err != nil {
				tr.Error(err)
			}
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
