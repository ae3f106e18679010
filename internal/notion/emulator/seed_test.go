package emulator_test

import (
	"testing"
	"testing/synctest"

	"dibs/internal/notion/emulator"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
)

func TestSeedIDs(t *testing.T) {
	want := emulator.Databases{
		Tasks:   "2f835e81-2bbb-81b6-9700-e18108a40b1f",
		TaskLog: "2fa35e81-2bbb-8180-8f74-cbd9acd08b52",
		MeshLog: "2fa35e81-2bbb-811a-b6f7-ff9eb7448c99",
	}
	for _, kind := range []string{"empty", "demo"} {
		a, dbs := seeded(t, kind)
		if dbs != want || a.e.Databases() != want {
			t.Errorf("%s: databases are %v", kind, dbs)
		}
		tasks := map[string]int{"empty": 0, "demo": 20}[kind]
		if n := len(a.e.Pages(dbs.Tasks)); n != tasks || len(a.query(dbs.Tasks, object{})) != tasks {
			t.Errorf("%s: %d tasks, want %d", kind, n, tasks)
		}
	}
	a := start(t, emulator.Options{})
	if _, err := a.e.Seed("huge"); err == nil || a.e.Databases() != (emulator.Databases{}) {
		t.Errorf("an unknown seed: %v, %v", err, a.e.Databases())
	}
}

func TestSeedSchemas(t *testing.T) {
	a, dbs := seeded(t, "empty")
	for id, want := range map[string]map[string]any{
		dbs.Tasks: {
			"Name": "title", "status": "status", "claimed_by": "rich_text", "claimed_at": "date", "claim_timeout_minutes": "number",
			"claim_token": "rich_text", "priority": "select", "depends_on": "relation", "ID": "unique_id", "claimed_until": "formula", "note": "rich_text", "Notes": "rich_text",
		},
		dbs.MeshLog: {
			"Name": "title", "entry_id": "rich_text", "event": "select", "agent": "rich_text", "task": "rich_text", "task_id": "rich_text",
			"claim_id": "rich_text", "holder": "rich_text", "code": "rich_text", "detail": "rich_text", "at": "date", "count": "number",
			"from": "rich_text", "to": "rich_text", "message": "rich_text",
		},
		dbs.TaskLog: {
			"Name": "title", "entry_id": "rich_text", "agent": "rich_text", "task": "rich_text", "task_id": "rich_text", "outcome": "select",
			"started": "date", "finished": "date", "duration_seconds": "number", "claim_id": "rich_text", "summary": "rich_text",
		},
	} {
		got := map[string]any{}
		for name, p := range a.ok("GET", "/v1/databases/"+id, nil)["properties"].(object) {
			got[name] = at(p, "type")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
	props := a.ok("GET", "/v1/databases/"+dbs.Tasks, nil)["properties"]
	names := func(options any) (out []string) {
		for _, o := range options.(list) {
			out = append(out, at(o, "name").(string))
		}
		return out
	}
	if diff := cmp.Diff([]string{"OPEN", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED"}, names(at(props, "status", "status", "options"))); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"critical", "high", "medium", "low"}, names(at(props, "priority", "select", "options"))); diff != "" {
		t.Errorf("priorities (-want +got):\n%s", diff)
	}
	if at(props, "depends_on", "relation", "database_id") != dbs.Tasks || at(props, "ID", "unique_id", "prefix") != "TASK" {
		t.Errorf("depends_on %v, ID %v", at(props, "depends_on"), at(props, "ID"))
	}
}

func TestDemoBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "demo")
		tasks := a.e.Pages(dbs.Tasks)
		status, byID, priorities := map[string][]string{}, map[string]emulator.Page{}, map[string]bool{}
		var stale, reserved []emulator.Page
		for _, p := range tasks {
			byID[p.ID] = p
			status[p.Select("status")] = append(status[p.Select("status")], p.ID)
			priorities[p.Select("priority")] = true
			switch {
			case p.Text("claimed_by") == "":
			case p.Date("claimed_at") == "":
				reserved = append(reserved, p)
			default:
				stale = append(stale, p)
			}
		}
		if len(status["OPEN"]) != 17 || len(status["IN_PROGRESS"]) != 1 || len(status["BLOCKED"]) != 1 || len(status["COMPLETED"]) != 1 {
			t.Errorf("statuses are %v", status)
		}
		if len(priorities) != 5 {
			t.Errorf("priorities are %v", priorities)
		}
		if len(stale) != 1 || stale[0].Text("claimed_by") != "claude-chat-7K9X" || stale[0].Date("claimed_at") != "1999-12-31T22:00:00.000+00:00" || stale[0].Select("status") != "IN_PROGRESS" {
			t.Errorf("stale claims: %+v", stale)
		}
		if _, err := ulid.ParseStrict(stale[0].Text("claim_token")); err != nil {
			t.Errorf("the stale claim's token is %q", stale[0].Text("claim_token"))
		}
		if len(reserved) != 1 || reserved[0].Text("claimed_by") != "Maria" || reserved[0].Select("status") != "OPEN" {
			t.Errorf("reserved tasks: %+v", reserved)
		}

		// All other tasks can be completed one after the other, as they become ready.
		done := map[string]bool{status["COMPLETED"][0]: true}
		for again := true; again; {
			again = false
			for _, p := range tasks {
				ready := !done[p.ID] && p.Select("status") != "BLOCKED" && p.ID != reserved[0].ID
				for _, id := range p.Relation("depends_on") {
					ready = ready && done[id]
				}
				if ready {
					done[p.ID], again = true, true
				}
			}
		}
		blocked := status["BLOCKED"][0]
		var stuck []string
		onCompleted := 0
		for _, p := range tasks {
			if !done[p.ID] && p.ID != blocked && p.ID != reserved[0].ID {
				stuck = append(stuck, p.ID)
				if diff := cmp.Diff([]string{blocked}, p.Relation("depends_on")); diff != "" {
					t.Errorf("%q is stuck for another reason (-want +got):\n%s", p.Title(), diff)
				}
			}
			for _, id := range p.Relation("depends_on") {
				if byID[id].Select("status") == "COMPLETED" {
					onCompleted++
				}
			}
		}
		if len(stuck) != 1 || len(done) != 17 || onCompleted != 1 {
			t.Errorf("%d stuck, %d done in the end, %d depend on a completed task; want 1, 17, 1", len(stuck), len(done), onCompleted)
		}
	})
}
