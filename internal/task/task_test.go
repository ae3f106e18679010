package task_test

import (
	"testing"

	"dibs/internal/task"
)

func TestParseTaskID(t *testing.T) {
	const want = "2f835e81-2bbb-81b6-9700-e18108a40b1f"
	for _, s := range []string{
		want, "2F835E812BBB81B69700E18108A40B1F",
		"https://www.notion.so/Fix-the-login-2f835e812bbb81b69700e18108a40b1f?pvs=4#x",
		"https://www.notion.so/acme/11835e812bbb81b69700e18108a40b11?v=22835e812bbb81b69700e18108a40b22&p=2f835e812bbb81b69700e18108a40b1f&pm=s",
	} {
		if id, err := task.ParseTaskID(s); err != nil || id != want {
			t.Errorf("ParseTaskID(%q) = %q, %v", s, id, err)
		}
	}
	for _, s := range []string{"", "T-3", "3", "2f835e812bbb81b69700e18108a40b1", "https://www.notion.so/x?p=y"} {
		if id, err := task.ParseTaskID(s); err == nil {
			t.Errorf("ParseTaskID(%q) = %q", s, id)
		}
	}
}

// A board's URL names the board, whatever page it shows.
func TestParseID(t *testing.T) {
	if id, err := task.ParseID("https://www.notion.so/acme/11835e812bbb81b69700e18108a40b11?v=1&p=2f835e812bbb81b69700e18108a40b1f"); err != nil || id != "11835e81-2bbb-81b6-9700-e18108a40b11" {
		t.Errorf("ParseID = %q, %v", id, err)
	}
}

func TestKey(t *testing.T) {
	for s, ok := range map[string]bool{
		"T-3": true, "task-12": true, "3": true, "Größe-1": true, "A1-2": true,
		"": false, "-3": false, "T-": false, "T3": false, "T-3x": false, "a/b-3": false, "T -3": false, "nonsense": false,
	} {
		if _, got := task.ParseKey(s); got != ok {
			t.Errorf("ParseKey(%q) = %v, want %v", s, got, ok)
		}
	}
	one := task.Task{Key: "TASK-3"}
	if !one.IsKey("task-3") || one.IsKey("TASK-30") || (task.Task{}).IsKey("") {
		t.Error("a key is told by its letters, in whatever case, and its number")
	}
}
