package chaos_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/notion/emulator"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"

	"github.com/oklog/ulid/v2"
)

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
		for waited, quiet := time.Duration(0), 0; waited < c.aftermath && (*long || quiet < stillQuiet); waited += time.Minute {
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
	cl, err := n.Claim(t.Context(), api.ClaimRequest{Agent: name}, name)
	for range 3 {
		if err == nil {
			c.bound(name, cl.ID)
			_, err = n.Release(t.Context(), string(cl.ID), api.StopRequest{Agent: name}, "")
			break
		}
		time.Sleep(time.Minute)
		cl, err = n.Claim(t.Context(), api.ClaimRequest{Agent: name}, name)
	}
	if err != nil {
		c.complain("afterwards nothing is granted: %v", err)
	}
}

// stillQuiet is the number of minutes in which nothing may come back once everything is done. With
// -long the whole aftermath passes.
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
		var said []string
		for _, n := range nodes {
			log, err := n.Log(t.Context(), api.LogFilter{Claim: token.ID})
			if err != nil {
				t.Error(err)
			}
			for _, e := range log.Entries {
				known, granted = true, granted || e.Kind == claim.KindGranted
				said = append(said, fmt.Sprint(e.At, " ", e.Kind, " ", e.Detail))
			}
		}
		age := time.Since(ulid.Time(ulid.MustParse(string(token.ID)).Time()))
		if age < soon || age > soon+lately {
			continue
		}
		if token.Void || known && !granted {
			c.complain("after %v, task %s is %s, by %q since %s, with the token %q:\n%s\n%s", soon, page.ID, page.Select("status"),
				page.Text("claimed_by"), page.Date("claimed_at"), page.Text("claim_token"), strings.Join(said, "\n"), c.requestsTo(page.ID))
		}
	}
}

// meddled reports whether a person assigned or finished the task regardless of its page: then
// nobody else clears the remains of its claim.
func (c *chaos) meddled(page emulator.Page) bool {
	status := page.Select("status")
	return c.touched(page.ID) && (page.Text("claimed_by") == "Maria" || status != "OPEN" && status != "IN_PROGRESS")
}

// unquiet returns what a daemon still has to do.
func unquiet(ctx context.Context, n *node) []string {
	status, err := n.Status(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	if status.Outbox.Depth > 0 {
		left = append(left, fmt.Sprintf("%s: %s", status.Outbox.Owed(), status.Outbox.LastError))
	}
	claims, err := n.Claims(ctx, "")
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
