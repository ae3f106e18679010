package arbiter_test

import (
	"strings"
	"testing"
	"time"

	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/inbox"
	"dibs/internal/task"
)

// What is too large for etcd comes in part, says so, and keeps nothing back.
func TestLargeTriggers(t *testing.T) {
	a := newPostbox(t, postboxConfig{endpoint: arbitertest.Start(t).URL()})
	a.want(nil)
	long := strings.Repeat("<é", 250_000) // of which JSON makes more
	fields := task.Fields{"plan": long}
	a.add(
		note("before"), note(long),
		inbox.Trigger{Type: inbox.Message, Text: "short", Task: task.Task{ID: taskOne, Title: "Mend the roof", Fields: fields}},
		inbox.Trigger{Type: inbox.Message, From: long, Task: task.Task{ID: taskTwo, Title: long, Note: long}},
		note("behind"),
	)
	a.push()
	now := time.Now()
	got, err := a.TakeTriggers(t.Context(), inbox.Take{Agent: "Oracle", Taker: inbox.NewID(now), Now: now, At: now, Visibility: time.Hour})
	if err != nil || len(got) != 5 || got[0].Text != "before" || got[4].Text != "behind" {
		t.Fatalf("taken %d: %v", len(got), err)
	}
	for i, begins := range []string{"<é", "short\n", "[shortened"} {
		if text := got[i+1].Text; !strings.HasPrefix(text, begins) || !strings.HasSuffix(text, "Notion has all of it]") || strings.ContainsRune(text, '\uFFFD') {
			t.Errorf("the agent is told %q … %q", text[:min(40, len(text))], text[max(0, len(text)-100):])
		}
	}
	if one, two := got[2].Task, got[3].Task; one.ID != taskOne || one.Title != "Mend the roof" || two.ID != taskTwo || !strings.HasPrefix(long, strings.TrimSuffix(two.Title, "…")) {
		t.Errorf("of %+v and %s", one, two.ID)
	}
}

// A name on a task that is longer than any agent's, and than etcd takes, keeps nothing back.
func TestLongNameOnTheBoard(t *testing.T) {
	a := newPostbox(t, postboxConfig{endpoint: arbitertest.Start(t).URL()})
	a.want(nil)
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	one, two := &task.Task{ID: taskOne, Status: task.Open, Edited: noon}, &task.Task{ID: taskTwo, Status: task.Open, Edited: noon}
	a.tell(boardOf(one, two))
	one.Edited, one.ClaimedBy = noon.Add(time.Minute), strings.Repeat("<", 300_000)
	two.Edited, two.ClaimedBy = noon.Add(time.Minute), "Oracle"
	a.tell(boardOf(one, two))
	a.want(nil, "task_assigned ")
}
