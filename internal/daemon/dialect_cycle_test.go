package daemon_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// TestDialects runs the whole life of claims with each dialect.
func TestDialects(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	t.Parallel()
	for _, d := range few(4, dialects()) {
		t.Run(d.String(), func(t *testing.T) {
			inWorld(t, 0, func(w *world) { speaking(w, d).cycle() })
		})
	}
}

func (b *board) cycle() {
	first := b.task("first", task.Open, "low")
	time.Sleep(time.Minute) // Notion keeps times of creation to the minute
	waits := b.task("waits for the first", task.Open, "high", first)
	time.Sleep(time.Minute)
	other := b.task("other", task.Open, "medium")
	b.task("finished", task.Completed, "critical")
	b.task("cancelled", task.Cancelled, "critical")

	n, rival := b.daemon(b.configure), b.daemon(b.configure)
	defer n.stop()
	defer rival.stop()
	b.warnings(n)

	// Granted, and refused to others at this and the other daemon.
	cl := n.mustClaim("Sandman", first)
	b.shows("claimed", first, task.InProgress, "Sandman")
	for _, m := range []*node{n, rival} {
		if _, err := m.claim("Oracle", first); code(err) != denied(claim.CodeHeld) {
			b.Errorf("err = %v, want held", err)
		} else if p := err.(*api.Problem); p.Holder != "Sandman" {
			b.Errorf("held by %q, want Sandman", p.Holder)
		}
	}
	_, err := n.claim("Oracle", waits)
	if b.d.depends == "there" && code(err) != denied(claim.CodeBlockedByDependency) {
		b.Errorf("err = %v, want blocked_by_dependency", err)
	} else if b.d.depends == "missing" {
		if err != nil {
			b.Fatal(err)
		}
		if _, err := n.Release(b.Context(), waits, api.StopRequest{Agent: "Oracle"}, ""); err != nil {
			b.Error(err)
		}
	}

	// Renewed, completed.
	claimedAt := b.page(first).Date(b.names.ClaimedAt)
	time.Sleep(20 * time.Minute)
	renewed, err := n.Renew(b.Context(), string(cl.ID), api.RenewRequest{}, "")
	if err != nil || !renewed.ExpiresAt.After(cl.ExpiresAt.Time) || b.page(first).Date(b.names.ClaimedAt) == claimedAt {
		b.Errorf("renewed: %+v, err = %v, claimed at %s", renewed, err, b.page(first).Date(b.names.ClaimedAt))
	}
	if err := n.complete(cl); err != nil {
		b.Error(err)
	}
	b.shows("completed", first, task.Completed, "Sandman")

	// The rest is offered by priority, else in the order of creation.
	wanted := task.High.String()
	if b.d.priority == "missing" {
		wanted = task.None.String()
	}
	next, err := n.claim("Sandman", "")
	if err != nil || string(next.Task.ID) != waits || next.Task.Priority != wanted {
		b.Errorf("next = %+v, err = %v, want the one that waited for the first, of priority %s", next.Task, err, wanted)
	}

	// Ended in the other ways.
	for _, end := range []struct {
		what string
		do   func(id string) error
		want task.Status
	}{
		{"released", func(id string) error { _, err := n.Release(b.Context(), id, api.StopRequest{}, ""); return err }, task.Open},
		{"failed, reopened", func(id string) error {
			_, err := n.Fail(b.Context(), id, api.FailRequest{Reopen: true}, "")
			return err
		}, task.Open},
		{"failed", func(id string) error { _, err := n.Fail(b.Context(), id, api.FailRequest{}, ""); return err }, task.Blocked},
		{"blocked", func(id string) error {
			_, err := n.Block(b.Context(), id, api.BlockRequest{Reason: "no access"}, "")
			return err
		}, task.Blocked},
	} {
		cl := n.mustClaim("Oracle", other)
		if err := end.do(string(cl.ID)); err != nil {
			b.Errorf("%s: %v", end.what, err)
		}
		b.shows(end.what, other, end.want, "")
		b.edit(other, map[string]any{b.names.Status: option(b.d.status, b.stati.Open)})
	}

	b.lengths(n, rival, other)
	b.stale(n)
	b.person(n)
	b.logged()
}

// warnings checks that the daemon warns of each missing optional property.
func (b *board) warnings(n *node) {
	b.Helper()
	s, err := n.Status(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	want := 0
	for _, missing := range []bool{
		b.d.timeout == "missing", b.d.priority == "missing", b.d.depends == "missing",
		b.d.holder == "people", b.d.status == "select" && !b.allStatuses(),
	} {
		if missing {
			want++
		}
	}
	if len(s.Warnings) != want {
		b.Errorf("%d warnings, want %d: %q", len(s.Warnings), want, s.Warnings)
	}
}

// allStatuses reports whether the tasks so far have had every status.
func (b *board) allStatuses() bool {
	seen := make(map[string]bool)
	for _, p := range b.notion.Pages(b.ids.Tasks) {
		seen[p.Select(b.names.Status)] = true
	}
	return len(seen) == len(task.Statuses)
}

// lengths gives a task a longer lease than usual. If the page cannot say so, other daemons would not
// know: then nobody may be promised one.
func (b *board) lengths(n, rival *node, id string) {
	b.Helper()
	if b.d.timeout != "missing" {
		b.edit(id, map[string]any{b.names.ClaimTimeoutMinutes: number(90)})
	}
	cl := n.mustClaim("Sandman", id)
	lease := time.Until(cl.ExpiresAt.Time)
	if told := lease > 80*time.Minute; told != (b.d.timeout == "there") {
		b.Errorf("promised %v, and the property for it is %s", lease, b.d.timeout)
	}
	time.Sleep(lease - time.Second)
	if _, err := rival.claim("Oracle", id); code(err) != denied(claim.CodeHeld) {
		b.Errorf("just before the end of the lease: err = %v, want held", err)
	}
	time.Sleep(3 * time.Minute)
	if over, err := rival.claim("Oracle", id); err != nil || !over.Override {
		b.Errorf("after the lease: %+v, err = %v, want it overridden", over, err)
	}
	b.shows("overridden", id, task.InProgress, "Oracle")
	if err := n.complete(cl); code(err) != string(api.CodeClaimLost) {
		b.Errorf("the overridden claim: err = %v, want claim_lost", err)
	}
}

// stale checks that a dead agent's task is swept.
func (b *board) stale(n *node) {
	b.Helper()
	left := b.task("left behind", task.InProgress, "low")
	b.taken(left, "claude-chat-7K9X", time.Now().Add(-3*time.Hour))
	time.Sleep(6 * time.Minute) // until the next sync
	swept, err := n.Sweep(b.Context(), "")
	if err != nil || !slices.ContainsFunc(swept.Swept, func(s api.Swept) bool { return string(s.Task) == left }) {
		b.Errorf("swept %+v, err = %v, want the task left behind among them", swept.Swept, err)
	}
	b.shows("swept", left, task.Open, "")
}

// person checks that a person's edit wins.
func (b *board) person(n *node) {
	b.Helper()
	cl := n.mustClaim("Sandman", b.task("a person's", task.Open, "low"))
	id := string(cl.Task.ID)
	b.edit(id, map[string]any{b.names.Status: option(b.d.status, b.stati.Cancelled)})
	if err := n.complete(cl); code(err) != string(api.CodeClaimLost) {
		b.Errorf("err = %v, want claim_lost", err)
	}
	if got := b.page(id).Select(b.names.Status); got != b.stati.Cancelled {
		b.Errorf("the person's %q became %q", b.stati.Cancelled, got)
	}
}

// logged checks that each log has every entry once, with its id and its agent
// where the database has room for them, or in words.
func (b *board) logged() {
	b.Helper()
	time.Sleep(time.Minute)
	for id, least := range map[string]int{b.ids.TaskLog: 3, b.ids.MeshLog: 10} {
		entries := make(map[string]bool)
		pages := b.notion.Pages(id)
		for _, p := range pages {
			entry := p.Text("entry_id") + p.Text("Entry ID")
			if entry == "" {
				entry = p.Title()[strings.LastIndex(p.Title(), "[")+1:]
			}
			said := strings.Join([]string{p.Title(), p.Text("agent"), p.Text("Agent"), p.Body()}, "\n")
			if entries[entry] || len(entry) < 26 || !strings.Contains(said, "Sandman") && !strings.Contains(said, "Oracle") && !strings.Contains(said, "claude-chat-7K9X") && !strings.Contains(said, "Maria") {
				b.Errorf("an entry of %q says %q", entry, said)
			}
			entries[entry] = true
		}
		if len(pages) < least {
			b.Errorf("%d entries, want at least %d", len(pages), least)
		}
	}
}
