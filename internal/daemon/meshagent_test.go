package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/daemon"
	"dibs/internal/journal/inbox"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit/referee"

	"github.com/oklog/ulid/v2"
)

// hand is an agent of a mesh, which asks the daemon of one line.
type hand struct {
	*mesh
	name      string
	line      *dynasty
	random    *rand.Rand
	asked     int
	forgotten []api.Claim // that it forgot, for now
}

func newHand(m *mesh, number int, l *dynasty) *hand {
	return &hand{mesh: m, name: fmt.Sprint("agent-", number+1), line: l, random: m.stream(1000 + number)}
}

// rush is how often all agents may come for the same task at once.
const rush = 20 * time.Second

// errAway says that an agent has given up: no daemon answered for long.
var errAway = errors.New("nobody answers")

// ask asks until the daemon answers, or its heir, always under the same key.
func ask[T any](h *hand, what string, do func(ctx context.Context, c *client.Client, key string) (T, error)) (got T, err error) {
	h.asked++
	key := fmt.Sprint(h.name, "-", h.asked)
	for range 60 {
		if c := h.line.door(); c != nil {
			patience := 90*time.Second + upTo(h.random, time.Minute)
			if h.random.IntN(12) == 0 {
				patience = upTo(h.random, 5*time.Second)
			}
			h.trace.add(h.name, "asks %s", what)
			ctx, cancel := context.WithTimeout(h.Context(), patience)
			got, err = do(ctx, c, key)
			cancel()
			h.trace.add(h.name, "is told of %s: %.300s", what, inShort(got, err))
			p, answered := errors.AsType[*api.Problem](err)
			switch {
			case err == nil:
				return got, nil
			case !answered, p.Code == api.CodeStopping, p.Code == api.CodeBusy, p.Code == api.Code(claim.CodeJournalUnavailable):
			case p.Code == api.CodeInternal, p.Code == api.CodeKeyReused, p.Code == api.CodeForbiddenAgent, p.Code == api.CodeUnknownClaim:
				h.book.Complain("%s is told of %s: %v", h.name, what, err)
				return got, err
			default:
				return got, err
			}
		}
		time.Sleep(time.Second + upTo(h.random, 20*time.Second))
	}
	return got, errAway
}

// inShort returns an answer in short.
func inShort(got any, err error) string {
	if err != nil {
		return "no: " + err.Error()
	}
	switch got := got.(type) {
	case api.Claim:
		return fmt.Sprintf("claim %s, %q, %s until %s", got.ID, got.Task.Title, got.State, got.ExpiresAt.Format(time.TimeOnly))
	case api.Triggers:
		var lines []string
		for _, t := range got.Triggers {
			lines = append(lines, t.ID+" "+named(t))
		}
		return fmt.Sprintf("%q", lines)
	}
	return "yes"
}

// work has the agent do what agents do until the troubles end. Then it gives back what it has.
func (h *hand) work() {
	for h.pause(h.random, 0, 80*time.Second) {
		switch draw := h.random.IntN(20); {
		case draw < 11:
			if cl, ok := h.claim(); ok {
				h.hold(cl)
			}
		case draw < 14:
			h.send()
		case draw < 18:
			h.poll()
		default:
			h.reserve()
		}
	}
	for _, cl := range h.forgotten {
		h.finish(cl)
	}
}

// claim asks for a task.
func (h *hand) claim() (api.Claim, bool) {
	body := api.ClaimRequest{Agent: h.name}
	draw := h.random.IntN(6)
	if draw < 2 { // for a task for which others come now, too
		time.Sleep(rush - time.Since(h.trace.began)%rush + upTo(h.random, 500*time.Millisecond))
	}
	switch pages := h.notion.Pages(h.tasks); {
	case draw < 2:
		i := slices.IndexFunc(pages, func(p emulator.Page) bool {
			return p.Select("status") == "OPEN" && p.Text("claimed_by") == "" && !p.Trashed
		})
		body.Task = pages[max(i, 0)].ID
	case draw < 4:
		body.Task = pages[h.random.IntN(len(pages))].ID
	} // or the next one
	if h.random.IntN(3) == 0 {
		body.WaitSeconds = upTo(h.random, time.Minute).Seconds()
	}
	if h.random.IntN(4) == 0 {
		body.TimeoutMinutes = 1 + h.random.IntN(20)
	}
	call := time.Now()
	cl, err := ask(h, "a claim of "+h.book.title(body.Task), func(ctx context.Context, c *client.Client, key string) (api.Claim, error) {
		return client.Do(ctx, c, api.OpClaim, api.Keyed(key, body))
	})
	if err != nil {
		return cl, false
	}
	h.book.granted(h, call, cl)
	h.count("grants")
	return cl, true
}

// hold has the agent work on its task, say now and then that it is alive, and what became of
// it, unless it forgets that.
func (h *hand) hold(cl api.Claim) {
	for range h.random.IntN(5) {
		time.Sleep(upTo(h.random, 5*time.Minute))
		if !h.book.Trusted(cl.ID) || h.over.Load() {
			break
		}
		call := time.Now()
		renewed, err := ask(h, "a renewal of "+cl.Task.Title, func(ctx context.Context, c *client.Client, key string) (api.Claim, error) {
			return client.Do(ctx, c, api.OpRenew, api.On(string(cl.ID), key, api.RenewRequest{Agent: h.name}))
		})
		switch {
		case lost(err):
			h.book.Ended(cl.ID, call, "a renewal was refused")
			return
		case err == nil:
			h.book.Renewed(cl.ID, renewed.ExpiresAt.Time)
		}
	}
	switch draw := h.random.IntN(10); {
	case draw == 0:
		h.forgotten = append(h.forgotten, cl)
	case draw == 1:
		return // it vanishes
	case draw == 2 && h.offer(cl):
	default:
		h.finish(cl)
	}
}

// lost reports whether an agent is told that its claim is over.
func lost(err error) bool {
	p, ok := errors.AsType[*api.Problem](err)
	return ok && p.Code == api.CodeClaimLost
}

// finish has the agent say what became of its task.
func (h *hand) finish(cl api.Claim) {
	id, draw, call := string(cl.ID), h.random.IntN(20), time.Now()
	verb, kind := "complete", claim.KindCompleted
	switch {
	case draw < 10:
	case draw < 16:
		verb, kind = "release", claim.KindReleased
	case draw < 18:
		verb, kind = "block", claim.KindBlocked
	default:
		verb, kind = "fail", claim.KindFailed
	}
	h.book.Ended(cl.ID, call, "its agent is to %s it", verb)
	_, err := ask(h, "to "+verb+" "+cl.Task.Title, func(ctx context.Context, c *client.Client, key string) (api.Claim, error) {
		switch kind {
		case claim.KindCompleted:
			return client.Do(ctx, c, api.OpComplete, api.On(id, key, api.CompleteRequest{Agent: h.name, Summary: "done"}))
		case claim.KindReleased:
			return client.Do(ctx, c, api.OpRelease, api.On(id, key, api.StopRequest{Agent: h.name}))
		case claim.KindBlocked:
			return client.Do(ctx, c, api.OpBlock, api.On(id, key, api.BlockRequest{Agent: h.name, Reason: "no access"}))
		}
		return client.Do(ctx, c, api.OpFail, api.On(id, key, api.FailRequest{Agent: h.name, Reason: "it does not work", Reopen: draw == 18}))
	})
	if err == nil {
		h.book.Finished(cl.ID, kind, call)
		h.count(string(kind))
	}
}

// offer offers the agent's task to another one of its line; false if there is none.
func (h *hand) offer(cl api.Claim) bool {
	to := one(h.random, h.crew...)
	if to == h || to.line != h.line {
		return false
	}
	h.book.Ended(cl.ID, time.Now(), "it is offered to %s", to.name)
	h.book.offered(h, string(cl.Task.ID))
	_, err := ask(h, "to offer "+cl.Task.Title, func(ctx context.Context, c *client.Client, key string) (api.Offered, error) {
		return client.Do(ctx, c, api.OpOffer, api.OnTask(cl.Task.ID, key, api.OfferRequest{Agent: h.name, To: to.name}))
	})
	if err == nil {
		h.count("offers")
	}
	return true
}

// send says something to another agent.
func (h *hand) send() {
	to := one(h.random, h.crew...)
	if to == h {
		return
	}
	text := fmt.Sprintf("message %d of %s", h.asked+1, h.name)
	call := time.Now()
	_, err := ask(h, "to send to "+to.name, func(ctx context.Context, c *client.Client, key string) (api.Message, error) {
		return client.Do(ctx, c, api.OpSend, api.Keyed(key, api.MessageRequest{From: h.name, To: to.name, Text: text}))
	})
	if err == nil {
		h.count("messages")
		h.book.Accepted(text, call)
		if h.line == to.line {
			h.book.inbox.Owe(to.name, string(inbox.Message)+": "+text)
		}
	}
}

// poll takes triggers, and acknowledges those that it sees to. It returns how many there were.
func (h *hand) poll() int {
	taker := fmt.Sprint(h.name, "-", h.asked)
	limit := one(h.random, 0, 2)
	got, err := ask(h, "a poll", func(ctx context.Context, c *client.Client, key string) (api.Triggers, error) {
		return client.Do(ctx, c, api.OpPoll, api.PollInput{Name: h.name, Key: key, Body: &api.PollRequest{Limit: limit}})
	})
	if err != nil {
		return 0
	}
	var ids []string
	for _, t := range got.Triggers {
		h.book.shown(h, taker, t)
		if t.Type == inbox.TaskOffered && !h.over.Load() {
			h.answer(t)
		}
		if h.over.Load() || h.random.IntN(4) > 0 {
			ids = append(ids, t.ID)
		}
	}
	h.ack(ids)
	return len(got.Triggers)
}

// ack acknowledges triggers.
func (h *hand) ack(ids []string) {
	if len(ids) == 0 {
		return
	}
	h.book.inbox.Ack(ids, referee.Asked)
	if _, err := ask(h, "an acknowledgement", func(ctx context.Context, c *client.Client, key string) (api.Acked, error) {
		return c.Ack(ctx, h.name, api.AckRequest{IDs: ids}, key)
	}); err == nil {
		h.book.inbox.Ack(ids, referee.Acked)
		h.count("acknowledgements")
	}
}

// answer has the agent accept or decline what it was offered. An offer that it has accepted comes back
// until it is acknowledged. To decline it then gives the claim up.
func (h *hand) answer(t api.Trigger) {
	if h.random.IntN(3) == 0 {
		h.book.gaveUp(h, string(t.Task.ID))
		_, _ = ask(h, "to decline "+t.Task.Title, func(ctx context.Context, c *client.Client, key string) (api.Offered, error) {
			return client.Do(ctx, c, api.OpDecline, api.OnTask(t.Task.ID, key, api.DeclineRequest{Agent: h.name}))
		})
		return
	}
	call := time.Now()
	cl, err := ask(h, "to accept "+t.Task.Title, func(ctx context.Context, c *client.Client, key string) (api.Claim, error) {
		return client.Do(ctx, c, api.OpAccept, api.OnTask(t.Task.ID, key, api.AcceptRequest{Agent: h.name}))
	})
	if err == nil {
		h.count("offers accepted")
		h.book.granted(h, call, cl)
		h.forgotten = append(h.forgotten, cl)
	}
}

// reserve reserves a thing for a while.
func (h *hand) reserve() {
	thing := one(h.random, "name:alpha", "name:beta")
	lasts := time.Minute + upTo(h.random, 10*time.Minute)
	r, err := ask(h, "to reserve "+thing, func(ctx context.Context, c *client.Client, key string) (api.Reservation, error) {
		return c.Reserve(ctx, "/", []string{thing}, api.ReserveRequest{Agent: h.name, ForSeconds: lasts.Seconds()}, key)
	})
	if err != nil {
		return
	}
	h.count("reservations")
	reservation := h.book.reserved(h, thing, r)
	if h.random.IntN(2) == 0 {
		time.Sleep(upTo(h.random, lasts))
		h.book.unreserved(reservation)
		_, _ = ask(h, "to give back "+thing, func(ctx context.Context, c *client.Client, _ string) (api.Reservation, error) {
			return c.Unreserve(ctx, r.ID, h.name)
		})
	}
}

// meshPeople edit the board.
type meshPeople struct {
	*mesh
	random *rand.Rand
	made   int
}

// meshGesture is something that a person does to a task. Those that take are those after which
// a claim on it need not stand any more.
type meshGesture struct {
	name  string
	takes bool
	props map[string]any
}

var (
	nobodys = map[string]any{
		"status":     option("status", "OPEN"),
		"claimed_by": text("rich_text", ""), "claim_token": text("rich_text", ""), "claimed_at": map[string]any{"date": nil},
	}
	meshGestures = []meshGesture{
		{"hands out", true, nobodys},
		{"drags to OPEN", true, map[string]any{"status": option("status", "OPEN")}},
		{"blocks", true, map[string]any{"status": option("status", "BLOCKED")}},
		{"cancels", true, map[string]any{"status": option("status", "CANCELLED")}},
		{"completes", true, map[string]any{"status": option("status", "COMPLETED")}},
		{"takes", true, map[string]any{"claimed_by": text("rich_text", "Maria")}},
		{"clears the token of", true, map[string]any{"claim_token": text("rich_text", "")}},
		{"gives high priority to", false, map[string]any{"priority": option("select", "high")}},
		{"gives low priority to", false, map[string]any{"priority": option("select", "low")}},
		{"assigns", true, map[string]any{
			"status": option("status", "OPEN"), "claimed_by": text("rich_text", "Maria"),
			"claim_token": text("rich_text", ""), "claimed_at": map[string]any{"date": nil},
		}},
	}
)

// task is one of the board's.
func (p *meshPeople) task() emulator.Page {
	pages := p.notion.Pages(p.tasks)
	return pages[p.random.IntN(len(pages))]
}

// changes has a person do something to a task.
func (p *meshPeople) changes(page emulator.Page, g meshGesture) {
	if g.takes {
		p.book.Taken(page.ID)
	}
	p.trace.add("people", "%s %q", g.name, p.book.title(page.ID))
	p.count("people: " + g.name)
	p.edit(page.ID, g.props)
}

// work edits tasks until the troubles end.
func (p *meshPeople) work() {
	for p.busy && p.pause(p.random, 0, 4*time.Minute) {
		page := p.task()
		switch draw := p.random.IntN(len(meshGestures) + 5); draw {
		case 0:
			title := fmt.Sprint("Renamed ", p.random.IntN(1000))
			p.changes(page, meshGesture{"renames to " + title, false, map[string]any{"Name": text("title", title)}})
		case 1:
			p.book.Taken(page.ID)
			p.trace.add("people", "trash %q", p.book.title(page.ID))
			p.count("people: trash and restore")
			mustDo(p.world, p.notion.TrashPage(page.ID))
			time.Sleep(upTo(p.random, 3*time.Minute))
			p.book.Taken(page.ID)
			p.trace.add("people", "restore %q", p.book.title(page.ID))
			mustDo(p.world, p.notion.RestorePage(page.ID))
		case 2:
			// An undo: some time later, the page is as it was before an edit.
			p.changes(page, meshGestures[p.random.IntN(6)])
			time.Sleep(upTo(p.random, time.Minute))
			p.changes(page, meshGesture{"undoes a change of", true, map[string]any{
				"status": option("status", page.Select("status")), "claimed_by": text("rich_text", page.Text("claimed_by")),
			}})
		case 3:
			p.changes(page, p.leftBehind())
		case 4:
			p.made++
			p.newTask(fmt.Sprint("Extra ", p.made), map[string]any{"depends_on": relation(page.ID)})
		default:
			p.changes(page, meshGestures[draw-5])
		}
	}
}

// leftBehind has somebody have claimed a task an hour ago whose daemon is gone for good.
func (p *meshPeople) leftBehind() meshGesture {
	at := time.Now().Add(-time.Hour)
	entropy := mathrand.New(mathrand.NewSource(p.random.Int64()))
	return meshGesture{"leaves behind", true, map[string]any{
		"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Ghost"), "claimed_at": date(at),
		"claim_token": text("rich_text", ulid.MustNew(ulid.Timestamp(at), entropy).String()),
	}}
}

// lead sees to it that there is work, until the troubles end: hands out again what nobody works
// on.
func (p *meshPeople) lead() {
	for p.pause(p.random, 0, time.Minute) {
		page := p.task()
		if page.Trashed || page.Select("status") == "IN_PROGRESS" && page.Text("claimed_by") != "Maria" || page.Select("status") == "OPEN" && page.Text("claimed_by") == "" {
			continue
		}
		p.changes(page, meshGestures[0])
	}
}

// dynasty is a journal, and the daemons that work on it one after the other: each is the heir of
// the one before, on a machine of its own.
type dynasty struct {
	*mesh
	number int
	random *rand.Rand
	mutant mutant

	mu   sync.Mutex
	r    *reaper // of the last daemon
	up   bool
	gen  int
	died chan struct{} // closed when the daemon is killed
}

func (l *dynasty) name() string { return fmt.Sprint("d", l.number) }

// options are the settings of the next daemon. All of a mesh agree on what the protocol asks
// them to agree on.
func (l *dynasty) options() daemon.Options {
	o := l.world.options(func(c *config.Config) {
		c.Notion.BaseURL = fmt.Sprintf("https://d%d.test", l.number)
		c.Notion.Rate, c.Notion.Burst = l.rate, 10
		c.Sync.Interval, c.Sync.KeepFinished = l.interval, 30*time.Minute
		c.Claim.Timeout, c.Claim.MaxLifetime, c.Claim.MaxAttempts = l.lease, l.lifetime, l.attempts
		c.Inbox.Offer, c.Inbox.Visibility = 10*time.Minute, visibility
		if l.openOnly && l.number%2 == 0 {
			c.Claim.Override = config.OverrideOpenOnly
		}
		// The jobs of two daemons do not begin at the same moment.
		c.Schedule.Sweep = fmt.Sprintf("@every %ds", 61+7*l.number)
		c.Schedule.FullSync = fmt.Sprintf("@every %ds", 1801+13*l.number)
	})
	o.Config.StateDir = filepath.Join(l.dir, fmt.Sprintf("d%d-%d", l.number, l.gen))
	o.Transport = l.carry(l, wire{l.name(), l.notion, l.trace})
	o.Log = slog.New(slog.DiscardHandler)
	return o
}

// door is a client of the daemon that runs; nil if there is none.
func (l *dynasty) door() *client.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up {
		return nil
	}
	return l.r.n.Client
}

// start starts a daemon on what is left of the one before, nil for nothing. It comes when
// Notion lets it.
func (l *dynasty) start(left map[string][]byte) {
	for {
		l.gen++
		r := l.newReaper(l.options(), 0, l.mutant)
		died := make(chan struct{})
		r.passed = func(kind string, dead bool) {
			l.trace.add(l.name(), "%s", kind)
			if dead {
				close(died)
			}
		}
		r.arm()
		if l.gen == 1 {
			r.sql(l.mutant.does)
		} else {
			r.leave(left)
			r.sql(l.mutant.comes)
		}
		n, err := l.begin(r.o)
		if err == nil {
			l.trace.add(l.name(), "begins, as number %d", l.gen)
			r.n = n
			l.mu.Lock()
			l.r, l.up, l.died = r, true, died
			l.mu.Unlock()
			return
		}
		l.trace.add(l.name(), "cannot begin: %v", err)
		l.count("starts that failed")
		left = r.files()
		time.Sleep(time.Second + upTo(l.random, 5*time.Second))
	}
}

// gone notes that the daemon does not answer any more, and returns what is left of it.
func (l *dynasty) gone(how string) {
	l.trace.add(l.name(), "%s", how)
	l.count(how)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up = false
}

// killed buries the daemon after kill -9.
func (l *dynasty) killed() map[string][]byte {
	dead, left := l.r.remains()
	l.gone("killed " + dead)
	ghost := l.r.n
	l.ghost.Go(ghost.stop) // its goroutines are still there, and nobody hears them
	return left
}

// stopped ends the daemon in an orderly way.
func (l *dynasty) stopped() map[string][]byte {
	l.gone("stopped")
	l.r.n.stop()
	return l.r.files()
}

// misfortune has the daemon be killed and stopped, and others take over, until all is over.
func (l *dynasty) misfortune() {
	for l.pause(l.random, l.calm/2, 2*l.calm) {
		from := time.Now()
		var left map[string][]byte
		switch draw := l.random.IntN(10); {
		case draw < 3:
			l.r.strike()
			left = l.killed()
		case draw < 8:
			// How many commits there are at one moment is for the scheduler to say: they are
			// made together. So it is the first one after a moment, or the n-th answer.
			if kind := one(l.random, commit, commit, answer, half, answered); kind == commit {
				l.r.within(1, kind)
			} else {
				l.r.within(1+l.random.IntN(5), kind)
			}
			select {
			case <-l.died:
				left = l.killed()
			case <-time.After(2 * time.Minute):
				l.r.strike()
				left = l.killed()
			}
			from = time.Now()
		default:
			left = l.stopped()
		}
		brief := 5 * time.Second
		if !l.late {
			brief = 4 * time.Minute
		}
		time.Sleep(upTo(l.random, brief))
		l.start(left)
		l.book.WasAway(l.number, from)
	}
}

// journal is the directory of the last journal.
func (l *dynasty) journal() string { return l.r.path() }

// held are what the daemon says it holds.
func (l *dynasty) unquiet() []string {
	c := l.door()
	status, err := client.Do(l.Context(), c, api.OpStatus, struct{}{})
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	if status.Outbox.Depth > 0 {
		left = append(left, fmt.Sprintf("%s owes %s: %s", l.name(), status.Outbox.Owed(), status.Outbox.LastError))
	}
	claims, err := client.Do(l.Context(), c, api.OpListClaims, api.AgentFilter{})
	if err != nil {
		return []string{err.Error()}
	}
	for _, held := range claims.Claims {
		left = append(left, fmt.Sprintf("%s has claim %s of %s on %s, which is %s", l.name(), held.ID, held.Agent, held.Task.Title, held.State))
	}
	return left
}
