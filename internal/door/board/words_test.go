package board_test

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// TestWords shows a board whose statuses and priorities have other names than dibs's.
func TestWords(t *testing.T) {
	m := newMesh(t, "empty", 0)
	m.kill()
	tasks := m.notion.Databases().Tasks
	for column, name := range map[string]string{"status": "Zurückgestellt", "priority": "Hoch"} {
		if err := m.notion.AddOption(tasks, column, name); err != nil {
			t.Fatal(err)
		}
	}
	props := status("Zurückgestellt")
	props["priority"] = map[string]any{"select": map[string]any{"name": "Hoch"}}
	id := m.add("Paint the gate", props)
	m.env = []string{"DIBS_TASKS_STATUSES_BLOCKED=Zurückgestellt", "DIBS_TASKS_STATUSES_CANCELLED=Abgebrochen", "DIBS_TASKS_PRIORITIES_HIGH=Hoch"}
	m.serve()
	v := &visitor{t: t, server: httptest.NewServer(m.board.Handler())}
	t.Cleanup(v.server.Close)
	v.enter(m.board)
	var page string
	m.until("the board shows its own words", func() bool {
		_, page = v.ask("GET", "/tasks")
		return strings.Contains(page, "</span>Zurückgestellt <span") && strings.Contains(page, `<span class="priority high">Hoch</span>`)
	})
	if !strings.Contains(page, "</span>In progress <span") {
		t.Errorf("the columns that have dibs's names: %s", page)
	}
	_, page = v.ask("GET", "/tasks/"+id)
	if !strings.Contains(page, "</span>Zurückgestellt · TASK-1 · Hoch</p>") {
		t.Errorf("the task: %s", page)
	}
	if !strings.Contains(page, "/reopen\"") || strings.Contains(page, "/cancel\"") {
		t.Errorf("the task can get a status that the board does without: %s", page)
	}
}
