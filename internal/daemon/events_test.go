package daemon_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// eventsAfter returns the events after that one, in short: kind, agent, holder, edits, and the
// title of the task.
func (n *node) eventsAfter(after int64) []string {
	n.w.Helper()
	out := []string{}
	_, err := n.Events(n.w.Context(), api.EventsInput{After: after}, false, func(e api.Event) error {
		out = append(out, word(e))
		return nil
	})
	if err != nil {
		n.w.Fatal(err)
	}
	return out
}

func word(e api.Event) string {
	parts := []string{string(e.Kind)}
	for _, part := range []string{e.Agent, e.Holder} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if e.Task != nil {
		parts = append(parts, fmt.Sprintf("%q", e.Task.Title))
	}
	return strings.Join(append(parts, e.Changed...), " ")
}

// last returns the id of the newest event.
func (n *node) last() int64 {
	n.w.Helper()
	id, err := n.Events(n.w.Context(), api.EventsInput{}, false, func(api.Event) error { return nil })
	if err != nil {
		n.w.Fatal(err)
	}
	return id
}

// wantEvents waits until nothing more happens, and checks the events since then.
func (n *node) wantEvents(after int64, want ...string) {
	n.w.Helper()
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, n.eventsAfter(after)); diff != "" {
		n.w.Errorf("events (-want +got):\n%s", diff)
	}
}

// trash moves a page to the trash, as a person.
func (w *world) trash(id string) {
	w.Helper()
	mustDo(w, w.notion.TrashPage(id))
}

func sorted(words []string) []string { return slices.Sorted(slices.Values(words)) }

const interval = 15 * time.Second // the default of sync.interval

func TestEventsOfATasksLife(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		first := w.add("first", nil)
		second := w.add("second", map[string]any{"depends_on": relation(first)})
		n := w.daemon(nil)
		time.Sleep(time.Minute)
		n.wantEvents(0) // earlier states are no news

		cl := n.mustClaim("Sandman", first)
		time.Sleep(time.Minute)
		n.wantEvents(0, `claimed Sandman "first"`)
		after := n.last()
		mustDo(w, n.complete(cl))
		time.Sleep(time.Second)
		n.wantEvents(after, `completed Sandman "first"`, `ready "second"`)

		after = n.last()
		cl = n.mustClaim("Oracle", second)
		if _, err := client.Do(w.Context(), n.Client, api.OpRelease, api.On(string(cl.ID), "", api.StopRequest{Reason: "too hard"})); err != nil {
			w.Fatal(err)
		}
		cl = n.mustClaim("Sandman", second)
		if _, err := client.Do(w.Context(), n.Client, api.OpBlock, api.On(string(cl.ID), "", api.BlockRequest{})); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Minute)
		n.wantEvents(after, `claimed Oracle "second"`, `released Oracle "second"`, `ready "second"`, `claimed Sandman "second"`, `blocked Sandman "second"`)

		after = n.last()
		w.add("third", nil)
		w.edit(second, map[string]any{"status": option("status", "OPEN")})
		time.Sleep(interval)
		if diff := cmp.Diff([]string{`created "third"`, `ready "second"`, `ready "third"`, `unblocked "second"`}, sorted(n.eventsAfter(after))); diff != "" {
			w.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// TestPeoplesEditsOfAHeldTask edits a task while an agent watches its claim: the agent knows within an interval, and
// nothing takes the place of what the person did.
func TestPeoplesEditsOfAHeldTask(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	set := func(property string, value any) func(*world, string) {
		return func(w *world, id string) { w.edit(id, map[string]any{property: value}) }
	}
	status := func(name string) func(*world, string) { return set("status", option("status", name)) }
	for name, tt := range map[string]struct {
		do   func(w *world, id string)
		lost string         // what the agent is told, if this ends the claim
		want []string       // the events, the agent's first
		left func(s *shown) // what the daemon leaves of the claim on the card, if it clears a part
	}{
		"open":             {status("OPEN"), "OPEN by a person", []string{`claim_lost Sandman "work"`, `released Sandman "work"`, `ready "work"`}, func(s *shown) { *s = openCard }},
		"completed":        {status("COMPLETED"), "COMPLETED", []string{`claim_lost Sandman "work"`, `completed Sandman "work"`, `ready "waits"`}, nil},
		"cancelled":        {status("CANCELLED"), "CANCELLED", []string{`claim_lost Sandman "work"`, `cancelled Sandman "work"`}, nil},
		"blocked":          {status("BLOCKED"), "BLOCKED", []string{`claim_lost Sandman "work"`, `blocked Sandman "work"`}, nil},
		"name cleared":     {set("claimed_by", text("rich_text", "")), "cleared", []string{`claim_lost Sandman "work"`, `released Sandman "work"`}, nil},
		"token replaced":   {set("claim_token", text("rich_text", "mine")), "token", []string{`claim_lost Sandman Sandman "work"`}, nil},
		"another's":        {set("claimed_by", text("rich_text", "Oracle")), "Oracle", []string{`claim_lost Sandman Oracle "work"`, `reassigned Sandman Oracle "work"`}, func(s *shown) { s.ClaimedAt, s.Token = "", false }},
		"trashed":          {(*world).trash, "trash", []string{`claim_lost Sandman "work"`, `trashed Sandman "work"`}, nil},
		"archived":         {func(w *world, id string) { mustDo(w, w.notion.ArchivePage(id, true)) }, "trash", []string{`claim_lost Sandman "work"`, `trashed Sandman "work"`}, nil},
		"moved":            {(*world).moveAway, " ", []string{`claim_lost Sandman "work"`, `trashed Sandman "work"`}, nil},
		"no longer shared": {(*world).unshare, " ", []string{`claim_lost Sandman "work"`, `trashed Sandman "work"`}, nil},
		"renamed":          {set("Name", text("title", "play")), "", []string{`edited Sandman "play" title`}, nil},
		"of other timeout": {set("claim_timeout_minutes", number(60)), "", []string{`edited Sandman "work" timeout`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				id := w.add("work", nil)
				w.add("waits", map[string]any{"depends_on": relation(id)})
				n := w.daemon(nil)
				cl := n.mustClaim("Sandman", id)
				time.Sleep(3 * time.Minute) // the claim is old news by then
				after := n.last()
				var edited emulator.Page
				time.AfterFunc(7*time.Second, func() {
					tt.do(w, id)
					edited = w.page(id)
				})
				start := time.Now()
				got, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), Agent: "Sandman", After: api.EventsFuture, Wait: time.Hour.String()})
				mustDo(w, err)
				if took := time.Since(start) - 7*time.Second; took > interval {
					w.Errorf("the agent knew after %v, want %v at most", took, interval)
				}
				if got.Event == nil || word(*got.Event) != tt.want[0] || (got.State == claim.Ended) != (tt.lost != "") {
					w.Errorf("answer = %s, event %+v, want %s", got.State, got.Event, tt.want[0])
				}
				if tt.lost != "" && (got.Outcome != claim.EndLost || !strings.Contains(got.Detail, tt.lost) || got.Event.Detail == "" || got.Event.Claim != cl.ID) {
					w.Errorf("the answer does not say how the claim was lost: %+v, event %+v", got, got.Event)
				}
				time.Sleep(interval)
				if diff := cmp.Diff(sorted(tt.want), sorted(n.eventsAfter(after))); diff != "" {
					w.Errorf("events (-want +got):\n%s", diff)
				}
				for range 2 { // whatever the agent does next preserves the person's edit
					if err := n.complete(cl); (tt.lost != "") != (code(err) == string(api.CodeClaimLost)) {
						w.Errorf("completion: err = %v, lost = %q", err, tt.lost)
					}
					time.Sleep(5 * time.Minute)
				}
				page := w.page(id)
				for _, property := range []string{"Name", "claim_timeout_minutes"} {
					if diff := cmp.Diff(edited.Value(property), page.Value(property)); diff != "" {
						w.Errorf("%s was overwritten (-edited +now):\n%s", property, diff)
					}
				}
				if tt.lost == "" {
					return
				}
				w.logs(w.work(), "orphaned: Sandman")
				want := show(edited)
				if tt.left != nil {
					tt.left(&want)
				}
				if w.sees(id, want); edited.Trashed != page.Trashed || edited.Archived != page.Archived {
					w.Errorf("it is trashed %v, archived %v", page.Trashed, page.Archived)
				}
			})
		})
	}
}

// What leaves the board and comes back is news, as is what comes from elsewhere. Sharing is no edit, so only a full sync
// finds it.
func TestTrashedAndRestored(t *testing.T) {
	testkit.RacedElsewhere(t)
	testkit.TakesSeconds(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		held, free, moved, shared := w.add("held", nil), w.add("free", nil), w.add("moved", nil), w.add("shared", nil)
		w.moveAway(moved)
		w.unshare(shared)
		n := w.daemon(nil)
		n.mustClaim("Sandman", held)
		time.Sleep(3 * time.Minute)
		after := n.last()
		w.trash(held)
		w.trash(free)
		time.Sleep(interval)
		n.wantEvents(after, `claim_lost Sandman "held"`, `trashed Sandman "held"`)
		time.Sleep(time.Hour) // a full sync
		after = n.last()
		for _, id := range []string{held, free} {
			mustDo(w, w.notion.RestorePage(id))
		}
		mustDo(w, w.notion.MovePage(moved, w.tasks))
		time.Sleep(2 * time.Minute)
		got := sorted(n.eventsAfter(after))
		for i, e := range got { // the sweep of the same minute may have taken the name off before
			got[i] = strings.Replace(e, `restored Sandman "held"`, `restored "held"`, 1)
		}
		want := []string{`created "moved"`, `ready "free"`, `ready "held"`, `ready "moved"`, `restored "free"`, `restored "held"`, `swept Sandman "held"`}
		if diff := cmp.Diff(want, got); diff != "" {
			w.Errorf("events (-want +got):\n%s", diff)
		}
		after = n.last()
		mustDo(w, w.notion.SharePage(shared))
		time.Sleep(time.Hour)
		n.wantEvents(after, `created "shared"`, `ready "shared"`)
	})
}

// A person's edit during a claim attempt stays, nothing of the claim does, and no agent hears of the attempt.
func TestEditWhileAClaimSettles(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(func(c *config.Config) {
			c.Sync.Interval = time.Second // sees the write and the edit
			c.Claim.Settle = 3 * time.Second
		})
		time.Sleep(time.Minute) // earlier states are no news
		for _, tt := range []struct {
			edit       map[string]any
			code, says string
			want       []string
			shows      shown
		}{
			{map[string]any{"status": option("status", "CANCELLED")}, "not_open", "CANCELLED by a person", []string{`created "work"`, `ready "work"`, `cancelled "work"`}, shown{Status: "CANCELLED"}},
			{map[string]any{"claimed_by": text("rich_text", "Oracle")}, "reserved", "Oracle by a person", []string{`created "work"`, `ready "work"`, `claimed Oracle "work"`}, shown{Status: "IN_PROGRESS", ClaimedBy: "Oracle"}},
		} {
			after, id := n.last(), w.add("work", nil) // a sync may come at this moment
			n.sync()
			time.AfterFunc(1500*time.Millisecond, func() { w.edit(id, tt.edit) })
			_, err := n.claim("Sandman", id)
			if code(err) != tt.code || !strings.Contains(err.Error(), tt.says) {
				w.Errorf("claim: err = %v, want %s, and %q", err, tt.code, tt.says)
			}
			time.Sleep(time.Minute)
			n.wantEvents(after, tt.want...)
			w.sees(id, tt.shows)
		}
	})
}

// Whoever ends a claim in Notion, a person, a connection or one of Notion's own agents, is named to
// the agent and in the log, unless the connection may not read users.
func TestEditorsAreNamed(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(nil)
		cleaner, err := w.notion.AddBot("Cleaner", false)
		mustDo(w, err)
		helper, err := w.notion.AddBot("Helper\nof Notion", true)
		mustDo(w, err)
		ada, err := w.notion.AddPerson("Ada", "")
		mustDo(w, err)
		eve, err := w.notion.AddPerson("Eve", "")
		mustDo(w, err)
		for _, tt := range []struct{ user, name string }{{ada, "Ada"}, {cleaner, "Cleaner"}, {helper, "Helper of Notion"}, {ada, "Ada"}, {eve, ""}} {
			if tt.name == "" {
				w.notion.Inject(emulator.Fault{Path: "/v1/users", Kind: emulator.Forbidden403})
			}
			id := w.add("Alpha", nil)
			n.mustClaim("Sandman", id)
			n.react("Sandman", 0)
			w.notion.ResetRequests()
			mustDo(w, w.notion.EditPageAs(tt.user, id, map[string]any{"status": option("status", "CANCELLED")}))
			n.sync()
			got := strings.Join(n.react("Sandman", 0), "\n")
			want := "its status was set to CANCELLED (" + tt.name + " edited the card last)"
			if tt.name == "" {
				want = "its status was set to CANCELLED"
			}
			if !strings.HasSuffix(got, want) {
				w.Errorf("told %q, want %q", got, want)
			}
			asked := 0
			for _, r := range w.notion.Requests() {
				if strings.HasPrefix(r.Path, "/v1/users/") {
					asked++
				}
			}
			if asked > 1 {
				w.Errorf("%d requests for the name of %s", asked, tt.name)
			}
		}
	})
}
