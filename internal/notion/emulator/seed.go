package emulator

import (
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
)

// The ids of the seeded databases are always the same, so that a configuration
// made for one emulator works with the next.
var seeded = Databases{
	Tasks:   "2f835e81-2bbb-81b6-9700-e18108a40b1f",
	TaskLog: "2fa35e81-2bbb-8180-8f74-cbd9acd08b52",
	MeshLog: "2fa35e81-2bbb-811a-b6f7-ff9eb7448c99",
}

// Seed makes the three databases that dibs works with: "empty" without tasks, "demo" with the
// backlog of a small product team. It does nothing if the state is seeded already.
func (e *Emulator) Seed(kind string) (Databases, error) {
	if kind != "empty" && kind != "demo" {
		return Databases{}, fmt.Errorf("no seed is called %q: want demo or empty", kind)
	}
	err := e.do(func(tx *tx) error {
		if tx.world.Seeded != (Databases{}) {
			return nil
		}
		for _, d := range []struct {
			id, title string
			schema    map[string]any
		}{
			{seeded.Tasks, "Tasks", tasksSchema()},
			{seeded.TaskLog, "Agent Task Log", taskLogSchema()},
			{seeded.MeshLog, "Mesh Communication Log", meshLogSchema()},
		} {
			if err := tx.makeDatabase(d.id, d.title, d.schema); err != nil {
				return err
			}
		}
		assign(tx, &tx.world.Seeded, seeded)
		if kind == "demo" {
			return tx.seedBacklog()
		}
		return nil
	})
	return e.Databases(), err
}

// AddTasks adds n open tasks to the seeded tasks database, to try a large board: without
// dependencies, of all priorities in turn, and created twenty a minute up to now.
func (e *Emulator) AddTasks(n int) error {
	now := time.Now()
	priorities := []string{"critical", "high", "medium", "low"}
	return e.Fill(e.Databases().Tasks, n, func(i int) (time.Time, map[string]any) {
		return now.Add(-time.Duration((n-1-i)/20) * time.Minute), map[string]any{
			"Name":     map[string]any{"title": richText(fmt.Sprintf("Task %d of a large board", i+1))},
			"priority": map[string]any{"select": map[string]any{"name": priorities[i%len(priorities)]}},
		}
	})
}

// Databases returns the databases that Seed made, now or in the loaded state; empty if there are
// none.
func (e *Emulator) Databases() Databases {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.world.Seeded
}

// ofType returns the schema of a property that needs only its type.
func ofType(kind string) map[string]any { return map[string]any{kind: map[string]any{}} }

func withOptions(names ...string) map[string]any {
	out := []any{}
	for _, n := range names {
		out = append(out, map[string]any{"name": n})
	}
	return map[string]any{"options": out}
}

func tasksSchema() map[string]any {
	status := withOptions("OPEN", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED")
	status["groups"] = []any{
		map[string]any{"name": "To-do", "option_ids": []string{"OPEN"}},
		map[string]any{"name": "In progress", "option_ids": []string{"IN_PROGRESS", "BLOCKED"}},
		map[string]any{"name": "Complete", "option_ids": []string{"COMPLETED", "CANCELLED"}},
	}
	return map[string]any{
		"Name":                  ofType("title"),
		"status":                map[string]any{"status": status},
		"claimed_by":            ofType("rich_text"),
		"claimed_at":            ofType("date"),
		"claim_timeout_minutes": ofType("number"),
		"claim_token":           ofType("rich_text"),
		"priority":              map[string]any{"select": withOptions("critical", "high", "medium", "low")},
		"depends_on":            map[string]any{"relation": map[string]any{"database_id": seeded.Tasks, "single_property": map[string]any{}}},
		"ID":                    map[string]any{"unique_id": map[string]any{"prefix": "TASK"}},
		"claimed_until": map[string]any{"formula": map[string]any{
			"expression": `dateAdd(prop("claimed_at"), if(prop("claim_timeout_minutes") > 0, prop("claim_timeout_minutes"), 30), "minutes")`,
		}},
		"note":  ofType("rich_text"),
		"Notes": ofType("rich_text"),
	}
}

func taskLogSchema() map[string]any {
	return map[string]any{
		"Name": ofType("title"), "entry_id": ofType("rich_text"), "agent": ofType("rich_text"), "task": ofType("rich_text"), "task_id": ofType("rich_text"),
		"outcome": map[string]any{"select": withOptions("completed", "failed")},
		"started": ofType("date"), "finished": ofType("date"), "duration_seconds": ofType("number"),
		"claim_id": ofType("rich_text"), "summary": ofType("rich_text"),
	}
}

func meshLogSchema() map[string]any {
	return map[string]any{
		"Name": ofType("title"), "entry_id": ofType("rich_text"),
		"event": map[string]any{"select": withOptions("granted", "denied", "released", "blocked", "lost", "overridden", "swept")},
		"agent": ofType("rich_text"), "task": ofType("rich_text"), "task_id": ofType("rich_text"), "claim_id": ofType("rich_text"),
		"holder": ofType("rich_text"), "code": ofType("rich_text"), "detail": ofType("rich_text"), "at": ofType("date"), "count": ofType("number"),
		"from": ofType("rich_text"), "to": ofType("rich_text"), "message": ofType("rich_text"),
	}
}

// seedTask is one task of the demo.
type seedTask struct {
	title, status, priority, notes string
	claimedBy                      string
	claimed                        bool // two hours ago, so the claim is stale
	after                          []int
	page, comment                  string // the content in Markdown, and Maria's comment
}

// backlog is the demo's tasks, in the order of their creation; after lists a task's dependencies by
// index.
var backlog = []seedTask{
	0: {title: "Choose the session store for the new login", status: "COMPLETED", priority: "high", notes: "Redis, see the comparison in the engineering notes."},
	1: {title: "Fix login redirect loop on Safari", status: "OPEN", priority: "critical", notes: "Happens when third-party cookies are off. Two customers wrote in.", after: []int{0},
		page: "## Steps to reproduce\n1. Safari 17, third-party cookies off\n2. Sign in from the pricing page\n3. The browser goes round between /login and /callback\n" +
			"## Done when\n- [ ] A test covers the callback without the cookie\n- [ ] Signing in works from all four entry pages\n",
		comment: "One of the two customers would try a preview."},
	2: {title: "Add retry with backoff to the billing webhook", status: "OPEN", priority: "critical", notes: "Events get lost when the billing service restarts.",
		page: "Five tries, one second first and twice as long each time. After the last one, the event goes to the dead letter queue.\n"},
	3:  {title: "Get the legal review of the data processing agreement", status: "BLOCKED", priority: "high", notes: "Waiting for outside counsel."},
	4:  {title: "Publish the new privacy page", status: "OPEN", priority: "high", notes: "Can only go out with the reviewed agreement.", after: []int{3}},
	5:  {title: "Write the migration for account time zones", status: "OPEN", priority: "high", notes: "Nullable first, backfill later."},
	6:  {title: "Backfill account time zones", status: "OPEN", priority: "medium", notes: "From the billing country, in batches.", after: []int{5}},
	7:  {title: "Show times in the account's own zone", status: "OPEN", priority: "medium", notes: "Web and e-mail.", after: []int{6}},
	8:  {title: "Profile the slow project list", status: "IN_PROGRESS", priority: "high", notes: "p95 is 2.4 s for accounts with more than 500 projects.", claimedBy: "claude-chat-7K9X", claimed: true},
	9:  {title: "Add the index that the profile calls for", status: "OPEN", priority: "medium", notes: "Build it concurrently.", after: []int{8}},
	10: {title: "Interview three customers about exports", status: "OPEN", priority: "medium", notes: "Maria knows whom to ask.", claimedBy: "Maria"},
	11: {title: "Draft the October release notes", status: "OPEN", priority: "medium", notes: "From the merged pull requests since the 3rd."},
	12: {title: "Replace the deprecated date picker", status: "OPEN", priority: "medium", notes: "Used on four pages."},
	13: {title: "Add keyboard shortcuts to the board", status: "OPEN", priority: "low", notes: "j, k, enter, escape."},
	14: {title: "Document the export API", status: "OPEN", priority: "medium", notes: "With a curl example for each endpoint."},
	15: {title: "Translate the onboarding e-mails into German", status: "OPEN", priority: "low", notes: "Five texts."},
	16: {title: "Send the German onboarding e-mails to new sign-ups", status: "OPEN", priority: "low", notes: "Behind the flag onboarding_de.", after: []int{15}},
	17: {title: "Rotate the staging certificates", status: "OPEN", priority: "high", notes: "They expire at the end of the month."},
	18: {title: "Remove the feature flags that are on for everybody", status: "OPEN", notes: "Fourteen of them."},
	19: {title: "Collect ideas for the autumn hack week", status: "OPEN", notes: "One page is enough."},
}

func (tx *tx) seedBacklog() error {
	s := tx.world.first(tx.world.Databases[seeded.Tasks])
	ids := make([]string, len(backlog))
	for i, t := range backlog {
		n, err := asNode("properties", t.properties(tx.now, ids))
		if err != nil {
			return err
		}
		p, err := tx.createPage(parent{Source: s.ID}, s, n)
		if err != nil {
			return fmt.Errorf("seeding %q: %w", t.title, err)
		}
		ids[i] = p.ID
		tx.appendBlocks(p.ID, parent{Page: p.ID}, markdownBlocks(t.page), 0)
		if t.comment != "" {
			tx.addComment(p.ID, personID, t.comment)
		}
	}
	return nil
}

func (t seedTask) properties(now time.Time, ids []string) map[string]any {
	m := map[string]any{
		"Name":   map[string]any{"title": richText(t.title)},
		"status": map[string]any{"status": map[string]any{"name": t.status}},
		"Notes":  map[string]any{"rich_text": richText(t.notes)},
	}
	if t.priority != "" {
		m["priority"] = map[string]any{"select": map[string]any{"name": t.priority}}
	}
	if t.claimedBy != "" {
		m["claimed_by"] = map[string]any{"rich_text": richText(t.claimedBy)}
	}
	if t.claimed {
		at := now.Add(-2 * time.Hour)
		token := ulid.MustNew(ulid.Timestamp(at), ulid.DefaultEntropy())
		m["claimed_at"] = map[string]any{"date": map[string]any{"start": at.UTC().Format(time.RFC3339)}}
		m["claim_token"] = map[string]any{"rich_text": richText(token.String())}
	}
	var after []any
	for _, i := range t.after {
		after = append(after, map[string]any{"id": ids[i]})
	}
	if len(after) > 0 {
		m["depends_on"] = map[string]any{"relation": after}
	}
	return m
}

// richText returns plain text in a request's form.
func richText(s string) []any {
	return []any{map[string]any{"text": map[string]any{"content": s}}}
}
