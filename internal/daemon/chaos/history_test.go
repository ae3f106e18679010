package chaos_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/notion/emulator"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/anishathalye/porcupine"
	"github.com/oklog/ulid/v2"
)

// history is what agents and people know of a run's claims. Times are since the beginning of the
// run, by this process's clock, which is Notion's.
type history struct {
	began time.Time

	mu    sync.Mutex
	holds map[claim.ID]*hold
	keys  map[string]claim.ID
	// takings are the times, by task, at which people changed what a claim depends on.
	takings map[string][]time.Duration
	// late are the times, by task, at which a claim write was delayed to land later.
	late map[string][]time.Duration
	// told are the times, by text, from the first requests for messages to their answers.
	told map[string]span
	// aways are the times in which daemons could do nothing.
	aways []away
	bad   []string // violations found immediately
	// spans are the times from which the journal admits that what it accepted may be lost.
	spans  []span
	unless []doubtful
}

// span is a time.
type span struct{ from, to time.Duration }

// doubtful is a violation, unless what was accepted in a time may be lost.
type doubtful struct {
	accepted span
	what     string
}

// hold is a claim as its agent knows it.
type hold struct {
	id             claim.ID
	task, agent    string
	daemon         int
	fence          int64         // 0 if each daemon has its own journal, with its own numbers
	call, answered time.Duration // when the agent first asked, and got its answer
	expires        time.Duration // from the last answer
	ends           []end
	finished       claim.Kind // the accepted finish; empty if there was none
	finish         span       // from the first request for it to its answer, or to the last one
}

// away is a time in which a daemon, 0 for all of them, was down or cut off from Notion.
type away struct {
	daemon   int
	from, to time.Duration
}

// end is the earliest time at which the agent stopped trusting its claim.
type end struct {
	at  time.Duration
	why string
}

func newHistory() *history {
	return &history{
		began: time.Now(), holds: make(map[claim.ID]*hold), keys: make(map[string]claim.ID),
		takings: make(map[string][]time.Duration), late: make(map[string][]time.Duration),
		told: make(map[string]span),
	}
}

func (h *history) now() time.Duration { return time.Since(h.began) }

func (h *history) complain(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bad = append(h.bad, fmt.Sprintf(format, args...))
}

// complaints returns how many there were.
func (h *history) complaints() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.bad)
}

// complainUnlessLost complains at the end, unless what was accepted in a time may be lost.
func (h *history) complainUnlessLost(accepted span, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unless = append(h.unless, doubtful{accepted, fmt.Sprintf(format, args...)})
}

// mayBeLost reports whether the journal admits that what it accepted in a time may be lost.
func (h *history) mayBeLost(accepted span) bool {
	return slices.ContainsFunc(h.spans, func(s span) bool { return accepted.from <= s.to && accepted.to >= s.from })
}

// accepted records that a message, which was first sent at call, was accepted.
func (h *history) accepted(text string, call time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told[text] = span{call, h.now()}
}

// forgotten records that a claim which was granted is unknown.
func (h *history) forgotten(id claim.ID) {
	h.mu.Lock()
	hd := h.holds[id]
	h.mu.Unlock()
	h.complainUnlessLost(span{hd.call, hd.answered}, "claim %s, granted to %s at %v, is unknown", id, hd.agent, hd.answered)
}

// bound records that the request under a key was answered with a claim.
func (h *history) bound(key string, id claim.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if other, ok := h.keys[key]; ok && other != id {
		h.bad = append(h.bad, fmt.Sprintf("the key %s was given two claims, %s and %s", key, other, id))
	}
	h.keys[key] = id
}

// granted records an agent's grant, for which it first asked at call.
func (h *history) granted(a *chaosAgent, key string, call time.Duration, cl api.Claim) {
	h.bound(key, cl.ID)
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.holds[cl.ID]; known != nil {
		if known.agent != a.name {
			h.bad = append(h.bad, fmt.Sprintf("claim %s was given to %s and to %s", cl.ID, known.agent, a.name))
		}
		return
	}
	// The times in the answer are by the daemon's clock, which may be wrong, and may have changed
	// since. The id was minted at the beginning of the attempt by Notion's time.
	minted := ulid.Time(ulid.MustParse(string(cl.ID)).Time()).Sub(h.began)
	minted = min(max(minted, call), h.now())
	if !a.daemon.shares() {
		cl.Fence = 0
	}
	h.holds[cl.ID] = &hold{
		id: cl.ID, task: string(cl.Task.ID), agent: a.name, daemon: a.daemon.number, fence: cl.Fence,
		call: call, answered: h.now(), expires: minted + cl.ExpiresAt.Sub(cl.ClaimedAt.Time),
	}
}

// grants returns how many claims agents were granted so far.
func (h *history) grants() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.holds)
}

// renewed records a renewal that an agent was told of.
func (h *history) renewed(id claim.ID, expires time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if hd := h.holds[id]; hd != nil {
		hd.expires = max(hd.expires, expires.Sub(h.began))
	}
}

// ended records that an agent stops trusting its claim at that time.
func (h *history) ended(id claim.ID, at time.Duration, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if hd := h.holds[id]; hd != nil {
		hd.ends = append(hd.ends, end{at, fmt.Sprintf(format, args...)})
	}
}

// finished records an agent's finish, for which it first asked at call. as is empty if it was not
// accepted.
func (h *history) finished(id claim.ID, as claim.Kind, call time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if hd := h.holds[id]; hd != nil {
		hd.finished, hd.finish = as, span{call, h.now()}
	}
}

// trusted reports whether the agent still trusts its claim.
func (h *history) trusted(id claim.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	hd := h.holds[id]
	return hd != nil && len(hd.ends) == 0 && h.now() < hd.expires
}

// taken records that a person changes what the claim on a task depends on.
func (h *history) taken(task string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.takings[task] = append(h.takings[task], h.now())
}

// touched reports whether a person changed what a claim on the task depended on.
func (h *history) touched(task string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.takings[task]) > 0
}

// heldUp records that a claim write to the task is delayed.
func (h *history) heldUp(task string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.late[task] = append(h.late[task], h.now())
}

// wasAway records that a daemon, 0 for all of them, could do nothing from then until now.
func (h *history) wasAway(daemon int, from time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.aways = append(h.aways, away{daemon, from, time.Since(h.began)})
}

// over returns the earliest time at which the hold's agent stopped trusting its claim.
func (h *history) over(hd *hold) end {
	first := end{hd.expires, "its lease was over"}
	for _, e := range hd.ends {
		if e.at < first.at {
			first = e
		}
	}
	for _, at := range h.takings[hd.task] {
		if at >= hd.call && at < first.at {
			first = end{at, "a person took it"}
		}
	}
	return first
}

// lockStep is one operation on a task seen as a lock.
type lockStep struct {
	claim claim.ID
	fence int64 // 0 without fences
	ends  bool
}

// locked is the lock's owner, and the greatest fence so far.
type locked struct {
	claim claim.ID
	fence int64
}

// lock models a task as its agents see it: it can be taken while nobody has it, and its owner has
// it until the owner stops trusting that, or somewhat longer. With fences, each owner has a greater
// one than the last.
var lock = porcupine.Model{
	Init: func() any { return locked{} },
	Step: func(state, input, _ any) (bool, any) {
		was, op := state.(locked), input.(lockStep)
		if op.ends {
			return was.claim == op.claim, locked{fence: was.fence}
		}
		return was.claim == "" && (op.fence == 0 || op.fence > was.fence), locked{op.claim, max(op.fence, was.fence)}
	},
}

// excused reports whether package claim allows that b was granted while a was trusted: a late write
// covered a's claim, and a's daemon could not reach Notion in time to repair that.
func (h *history) excused(a, b *hold) bool {
	return slices.ContainsFunc(h.late[a.task], func(late time.Duration) bool {
		return late > a.call && late < b.answered && slices.ContainsFunc(h.aways, func(w away) bool {
			return (w.daemon == 0 || w.daemon == a.daemon) && w.from < b.answered && w.to > late
		})
	})
}

// check returns the tasks whose history is not that of a lock, with the history, and counts those
// that are excused.
func (h *history) check() (stories map[string]string, excused int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.unless {
		if !h.mayBeLost(d.accepted) {
			h.bad = append(h.bad, d.what)
		}
	}
	byTask := make(map[string][]*hold)
	for _, hd := range h.holds {
		byTask[hd.task] = append(byTask[hd.task], hd)
	}
	stories = make(map[string]string)
	for task, holds := range byTask {
		var ops []porcupine.Operation
		for i, hd := range holds {
			ops = append(ops,
				porcupine.Operation{ClientId: i, Input: lockStep{claim: hd.id, fence: hd.fence}, Call: int64(hd.call), Return: int64(hd.answered)},
				porcupine.Operation{ClientId: i, Input: lockStep{claim: hd.id, ends: true}, Call: int64(max(h.over(hd).at, hd.call)), Return: math.MaxInt64})
		}
		if porcupine.CheckOperations(lock, ops) {
			continue
		}
		var doubles, fine int
		for _, a := range holds {
			for _, b := range holds {
				if a.answered < b.answered && h.over(a).at > b.answered && h.over(b).at > b.answered {
					doubles++
					if h.excused(a, b) {
						fine++
					}
				}
			}
		}
		if excused += fine; doubles == 0 || fine < doubles {
			stories[task] = h.story(task, holds)
		}
	}
	return stories, excused
}

// story formats the history of a task.
func (h *history) story(task string, holds []*hold) string {
	type line struct {
		at   time.Duration
		text string
	}
	var lines []line
	for _, hd := range holds {
		over := h.over(hd)
		lines = append(lines,
			line{hd.call, fmt.Sprintf("%s asks, at daemon %d, for %s", hd.agent, hd.daemon, hd.id)},
			line{hd.answered, fmt.Sprintf("%s is told of %s, fence %d, until %v", hd.agent, hd.id, hd.fence, hd.expires)},
			line{over.at, fmt.Sprintf("%s trusts %s no longer: %s", hd.agent, hd.id, over.why)})
	}
	for _, at := range h.takings[task] {
		lines = append(lines, line{at, "a person takes it"})
	}
	for _, at := range h.late[task] {
		lines = append(lines, line{at, "a claim write is held up"})
	}
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	var out strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&out, "%8.3fs  %s\n", l.at.Seconds(), l.text)
	}
	return out.String()
}

// afterwards kills the daemons, and runs the next ones for some virtual time. Then all outboxes
// must be delivered, and all claims have ended.
func (c *chaos) afterwards() {
	for _, p := range c.daemons {
		p.kill()
	}
	if err := errors.Join(c.notion.Close(), c.notion.WriteState(c.state)); err != nil {
		c.Fatal(err)
	}
	left := time.Now()
	synctest.Test(c.T, func(t *testing.T) {
		time.Sleep(time.Until(left)) // the bubble begins in the past
		notion, err := emulator.New(emulator.Options{Begin: c.state})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			notion.Close()
			if err := notion.WriteState(c.state); err != nil {
				t.Error(err)
			}
		}()
		var nodes []*node
		for _, p := range c.journals() {
			n := c.again(t, notion, p)
			defer n.stop()
			nodes = append(nodes, n)
		}
		// Abandoned attempts must be cleared soon, everything else after a while.
		time.Sleep(soon)
		c.cleared(t, notion, nodes)
		if c.shared {
			c.goesOn(t, nodes[0])
		}
		var left []string
		for waited, quiet := time.Duration(0), 0; waited < c.aftermath && (testkit.InFull() || quiet < stillQuiet); waited += time.Minute {
			time.Sleep(time.Minute)
			if left = c.left(t, notion, nodes); len(left) > 0 {
				quiet = 0
			} else {
				quiet++
			}
		}
		for _, what := range left {
			c.complain("%s", what)
		}
	})
	// The logs are compared outside of the bubble, where the journals are.
	var err error
	if c.notion, err = emulator.New(emulator.Options{StateFile: c.state}); err != nil {
		c.Fatal(err)
	}
}

// goesOn checks that a task is granted within some minutes, whatever was lost.
func (c *chaos) goesOn(t *testing.T, n *node) {
	const name = "late"
	cl, err := client.Do(t.Context(), n.Client, api.OpClaim, api.Keyed(name, api.ClaimRequest{Agent: name}))
	for range 3 {
		if err == nil {
			c.bound(name, cl.ID)
			_, err = client.Do(t.Context(), n.Client, api.OpRelease, api.On(string(cl.ID), "", api.StopRequest{Agent: name}))
			break
		}
		time.Sleep(time.Minute)
		cl, err = client.Do(t.Context(), n.Client, api.OpClaim, api.Keyed(name, api.ClaimRequest{Agent: name}))
	}
	if err != nil {
		c.complain("afterwards nothing is granted: %v", err)
	}
}

// stillQuiet is the number of minutes in which nothing may come back once everything is done. With
// TEST_LONG=all the whole aftermath passes.
const stillQuiet = 3

// left returns what the daemons have not done yet.
func (c *chaos) left(t *testing.T, notion *emulator.Emulator, nodes []*node) []string {
	var left []string
	for _, n := range nodes {
		if owed := unquiet(t.Context(), n); len(owed) > 0 {
			left = append(left, "everything has come back, and yet:\n"+strings.Join(owed, "\n"))
		}
	}
	for _, page := range notion.Pages(c.tasks) {
		reserved := page.Text("claimed_by") != "" && page.Date("claimed_at") == "" && page.Text("claim_token") == ""
		if page.Select("status") == "IN_PROGRESS" && !page.Trashed && !reserved { // a person's own
			left = append(left, fmt.Sprintf("task %s is %s, by %q since %s, with the token %q:\n%s", page.ID, page.Select("status"),
				page.Text("claimed_by"), page.Date("claimed_at"), page.Text("claim_token"), c.requestsTo(page.ID)))
		}
	}
	return left
}

// soon is when recently abandoned attempts must be cleared: once their leases are over, and swept. They
// are shorter than a write may be on its way, and so nothing takes an attempt off before.
const soon = 4 * time.Minute

// lately is the age of an abandoned attempt, when the troubles end, up to which it must be cleared
// soon. Older ones are retried less often, and by then their leases have ended.
const lately = 20 * time.Second

// cleared checks, soon after the troubles have ended, that the board shows no abandoned attempts.
func (c *chaos) cleared(t *testing.T, notion *emulator.Emulator, nodes []*node) {
	for _, page := range notion.Pages(c.tasks) {
		token := claim.ParseToken(page.Text("claim_token"))
		if token.ID == "" || token.Done || page.Trashed || c.meddled(page) {
			continue
		}
		var known, granted bool
		var facts []string
		for _, n := range nodes {
			log, err := client.Do(t.Context(), n.Client, api.OpLog, api.LogInput{Claim: string(token.ID)})
			if err != nil {
				t.Error(err)
			}
			for _, e := range log.Entries {
				known, granted = true, granted || e.Kind == claim.KindGranted
				facts = append(facts, fmt.Sprint(e.At, " ", e.Kind, " ", e.Detail))
			}
		}
		age := time.Since(ulid.Time(ulid.MustParse(string(token.ID)).Time()))
		if age < soon || age > soon+lately {
			continue
		}
		if token.Void || known && !granted {
			c.complain("after %v, task %s is %s, by %q since %s, with the token %q:\n%s\n%s", soon, page.ID, page.Select("status"),
				page.Text("claimed_by"), page.Date("claimed_at"), page.Text("claim_token"), strings.Join(facts, "\n"), c.requestsTo(page.ID))
		}
	}
}

// meddled reports whether a person assigned, finished or opened the task regardless of its page. Then
// nobody else clears the remains of its claim: not even a sweep opens what is OPEN, and whoever takes
// the task overrides them. Only called for claims whose leases are over.
func (c *chaos) meddled(page emulator.Page) bool {
	return c.touched(page.ID) && (page.Text("claimed_by") == "Maria" || page.Select("status") != "IN_PROGRESS")
}

// unquiet returns what a daemon still has to do.
func unquiet(ctx context.Context, n *node) []string {
	status, err := client.Do(ctx, n.Client, api.OpStatus, struct{}{})
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	if status.Outbox.Depth > 0 {
		left = append(left, fmt.Sprintf("%s: %s", status.Outbox.Owed(), status.Outbox.LastError))
	}
	claims, err := client.Do(ctx, n.Client, api.OpListClaims, api.AgentFilter{})
	if err != nil {
		return []string{err.Error()}
	}
	for _, held := range claims.Claims {
		left = append(left, fmt.Sprintf("claim %s of %s on %s is %s", held.ID, held.Agent, held.Task.ID, held.State))
	}
	return left
}

// checkLogs compares what agents know with the journals of the stopped daemons and with the logs.
func (c *chaos) checkLogs() {
	want, granted := make(map[string]claim.Fact), make(map[claim.ID]bool)
	for _, p := range c.journals() {
		for _, e := range c.events(p) {
			for _, log := range e.Logs() {
				want[fmt.Sprint(log, " ", wording.NewEntry(e, log).ID)] = e
			}
			switch e.Kind {
			case claim.KindGranted:
				granted[e.Claim] = true
			case claim.KindLost, claim.KindSwept:
				c.ended(e.Claim, e.At.Truncate(time.Second).Sub(c.began), "daemon %d found it %s", p.number, e.Kind)
			}
		}
	}
	rows, grants, finishes, messages := make(map[string]int), make(map[string]int), make(map[string]int), make(map[string]int)
	for log, db := range map[claim.Log]string{claim.MeshLog: c.notion.Databases().MeshLog, claim.TaskLog: c.notion.Databases().TaskLog} {
		for _, row := range c.notion.Pages(db) {
			key := fmt.Sprint(log, " ", row.Text("entry_id"))
			if rows[key]++; rows[key] == 2 {
				c.complain("the %s log has an entry twice: %s", log, describe(row))
			}
			made, told := c.told[row.Text("message")]
			if !told { // Notion's clock tells seconds
				id, _ := ulid.Parse(row.Text("entry_id"))
				made = span{ulid.Time(id.Time()).Add(-time.Second).Sub(c.began), row.Created.Sub(c.began)}
			}
			if _, ok := want[key]; !ok && !c.mayBeLost(made) {
				c.complain("the %s log has an entry, made from %v to %v, that no journal has: %s", log, made.from, made.to, describe(row))
			}
			if told {
				messages[row.Text("message")]++
			} else if log == claim.TaskLog {
				finishes[row.Text("claim_id")]++
			} else if row.Select("event") == string(claim.KindGranted) {
				grants[row.Text("claim_id")]++
			}
		}
	}
	for key, e := range want {
		if rows[key] == 0 {
			c.complain("there is no entry %s of %+v", key, e)
		}
	}
	c.counts["log entries"] += len(rows)
	bound := c.bindings()
	for id := range granted {
		if !bound[id] {
			c.complain("claim %s was granted, and nobody was told", id)
		}
	}
	for text, accepted := range c.told {
		if n := messages[text]; n != 1 && (n > 1 || !c.mayBeLost(accepted)) {
			c.complain("the message %q, accepted at %v, has %d entries in the mesh log", text, accepted.to, n)
		}
	}
	for id, h := range c.holds {
		if n := grants[string(id)]; n != 1 && (n > 1 || !c.mayBeLost(span{h.call, h.answered})) {
			c.complain("the grant of %s to %s has %d entries in the mesh log", id, h.agent, n)
		}
		if n := finishes[string(id)]; n > 1 || n < 1 && h.finished == claim.KindCompleted && !c.mayBeLost(h.finish) {
			c.complain("the work of %s under %s, which is %q, has %d entries in the task log", h.agent, id, h.finished, n)
		}
	}
}

func describe(row emulator.Page) string {
	return fmt.Sprintf("%q, claim %s", row.Title(), row.Text("claim_id"))
}

// journals returns the daemons with a journal of their own, and one of those that share one.
func (c *chaos) journals() []*process {
	some := slices.Clone(c.daemons)
	return slices.CompactFunc(some, func(a, b *process) bool { return a.shares() && b.shares() })
}

// events returns the facts in the journal of a stopped daemon, which must be sound.
func (c *chaos) events(p *process) []claim.Fact {
	c.Helper()
	if p.shares() {
		return c.sharedEvents(p)
	}
	db, err := sql.Open("sqlite", p.journal())
	if err != nil {
		c.Fatal(err)
	}
	var sound string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&sound); err != nil || sound != "ok" {
		c.Errorf("the journal of daemon %d: %s, %v", p.number, sound, err)
	}
	if err := db.Close(); err != nil {
		c.Error(err)
	}
	j, err := journal.Open(c.Context(), p.journal())
	if err != nil {
		c.Fatal(err)
	}
	defer j.Close()
	events, err := j.Facts(c.Context(), journal.FactFilter{})
	if err != nil {
		c.Error(err)
	}
	return events
}

// sharedEvents returns the facts in the shared journal of stopped daemons.
func (c *chaos) sharedEvents(p *process) []claim.Fact {
	c.Helper()
	board, err := task.ParseID(c.tasks)
	if err != nil {
		c.Fatal(err)
	}
	database, err := journal.Dial(c.Context(), journal.Postgres{URL: p.setting("DIBS_JOURNAL_POSTGRES"), Schema: "dibs", Board: string(board)})
	if err != nil {
		c.Fatal(err)
	}
	defer database.Close()
	var term journal.Term
	for term.Epoch == 0 { // waits for the last term to end
		if term, err = database.Lead(c.Context(), "reader"); err != nil || !sleep(c.Context(), 100*time.Millisecond) {
			c.Fatal(err)
		}
	}
	j, err := database.Open(c.Context(), term)
	if err != nil {
		c.Fatal(err)
	}
	defer j.Close()
	events, err := j.Facts(c.Context(), journal.FactFilter{})
	if err != nil {
		c.Error(err)
	}
	return events
}
