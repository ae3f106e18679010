package emulator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion/emulator"

	"github.com/oklog/ulid/v2"
)

func TestSeeds(t *testing.T) {
	want := emulator.Databases{
		Tasks:   "2f835e81-2bbb-81b6-9700-e18108a40b1f",
		TaskLog: "2fa35e81-2bbb-8180-8f74-cbd9acd08b52",
		MeshLog: "2fa35e81-2bbb-811a-b6f7-ff9eb7448c99",
	}
	for kind, tasks := range map[string]int{"empty": 0, "demo": 20} {
		a, dbs := seeded(t, kind)
		if n := len(a.e.Pages(dbs.Tasks)); dbs != want || a.e.Databases() != want || n != tasks || len(a.query(dbs.Tasks, object{})) != tasks {
			t.Errorf("%s: databases are %v, with %d tasks, want %d", kind, dbs, n, tasks)
		}
		for id, types := range map[string]string{
			dbs.Tasks: "ID unique_id, Name title, Notes rich_text, claim_timeout_minutes number, claim_token rich_text, claimed_at date, claimed_by rich_text, " +
				"claimed_until formula, depends_on relation, note rich_text, priority select, status status",
			dbs.MeshLog: "Name title, agent rich_text, at date, claim_id rich_text, code rich_text, count number, detail rich_text, entry_id rich_text, event select, " +
				"from rich_text, holder rich_text, message rich_text, task rich_text, task_id rich_text, to rich_text",
			dbs.TaskLog: "Name title, agent rich_text, claim_id rich_text, duration_seconds number, entry_id rich_text, finished date, outcome select, " +
				"started date, summary rich_text, task rich_text, task_id rich_text",
		} {
			var got []string
			for name, p := range a.ok("GET", "/v1/databases/"+id, nil)["properties"].(object) {
				got = append(got, fmt.Sprint(name, " ", at(p, "type")))
			}
			slices.Sort(got)
			same(t, types, strings.Join(got, ", "), "%s", id)
		}
		names := func(property, kind string) (out []string) {
			for _, o := range at(a.ok("GET", "/v1/databases/"+dbs.Tasks, nil), "properties", property, kind, "options").(list) {
				out = append(out, at(o, "name").(string))
			}
			return out
		}
		same(t, []string{"OPEN", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED"}, names("status", "status"), "statuses")
		same(t, []string{"critical", "high", "medium", "low"}, names("priority", "select"), "priorities")
		a.play(`GET databases/$tasks | properties.depends_on.relation.database_id = "$tasks" | properties.ID.unique_id.prefix = "TASK"`)
	}
	a := start(t, emulator.Options{})
	if _, err := a.e.Seed("huge"); err == nil || a.e.Databases() != (emulator.Databases{}) {
		t.Errorf("an unknown seed: %v, %v", err, a.e.Databases())
	}
}

func TestDemoBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "demo")
		tasks := a.e.Pages(dbs.Tasks)
		counts, done, apart := map[string]int{}, map[string]bool{}, map[string]bool{}
		for _, p := range tasks {
			counts[p.Select("status")]++
			counts["priority "+p.Select("priority")] = 1
			done[p.ID] = p.Select("status") == "COMPLETED"
			by, at := p.Text("claimed_by"), p.Date("claimed_at")
			_, err := ulid.ParseStrict(p.Text("claim_token"))
			switch {
			case p.Select("status") == "BLOCKED":
				apart[p.ID] = true
			case by == "Maria" && at == "" && p.Select("status") == "OPEN":
				apart[p.ID] = true
				counts["reserved"]++
			case by == "claude-chat-7K9X" && at == "1999-12-31T22:00:00.000+00:00" && p.Select("status") == "IN_PROGRESS" && err == nil:
				counts["stale"]++
			case by != "":
				t.Errorf("%q is claimed by %s at %s", p.Title(), by, at)
			}
		}
		same(t, map[string]int{
			"OPEN": 17, "IN_PROGRESS": 1, "BLOCKED": 1, "COMPLETED": 1, "reserved": 1, "stale": 1,
			"priority critical": 1, "priority high": 1, "priority medium": 1, "priority low": 1, "priority ": 1,
		}, counts, "tasks")
		// All others but the one that waits for the blocked one can be completed, as they become ready.
		for range tasks {
			for _, p := range tasks {
				waits := slices.ContainsFunc(p.Relation("depends_on"), func(id string) bool { return !done[id] })
				done[p.ID] = done[p.ID] || !waits && !apart[p.ID]
			}
		}
		var stuck []string
		for _, p := range tasks {
			if !done[p.ID] && !apart[p.ID] {
				stuck = append(stuck, a.page(p.Relation("depends_on")[0]).Select("status"))
			}
		}
		same(t, []string{"BLOCKED"}, stuck, "what is stuck waits for a task that is")
	})
}

func TestAddTasks(t *testing.T) {
	a, dbs := seeded(t, "empty")
	must(t, a.e.AddTasks(45))
	priorities, minutes := make(map[string]int), make(map[time.Time]int)
	for _, p := range a.e.Pages(dbs.Tasks) {
		priorities[p.Select("priority")]++
		minutes[p.Created]++
		if p.Select("status") != "OPEN" || p.Text("claimed_by") != "" || p.Created != p.Edited {
			t.Errorf("%q is %s, edited %s", p.Title(), p.Select("status"), p.Edited)
		}
	}
	same(t, map[string]int{"critical": 12, "high": 11, "medium": 11, "low": 11}, priorities, "tasks in %d minutes", len(minutes))
	if len(minutes) != 3 {
		t.Errorf("in %d minutes, want 3", len(minutes))
	}
}
