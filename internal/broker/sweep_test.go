package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

func TestSilent(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	policy := claim.Policy{Timeout: 30 * time.Minute, WriteWindow: 2 * time.Second, Settle: 3 * time.Second}
	dead := task.Task{Status: task.InProgress, ClaimedBy: "Sandman", ClaimedAt: now.Add(-time.Hour), Token: "01KA8XQ5V8ZJ6N3T4R7W9Y2M1E"}
	for name, tt := range map[string]struct {
		change func(*task.Task)
		want   bool
	}{
		"silent for an hour":           {func(*task.Task) {}, true},
		"with no token":                {func(t *task.Task) { t.Token = "" }, true},
		"with a longer lease":          {func(t *task.Task) { t.Timeout = 2 * time.Hour }, false},
		"with a shorter lease":         {func(t *task.Task) { t.Timeout, t.ClaimedAt = 5*time.Minute, now.Add(-10*time.Minute) }, true},
		"at the last moment":           {func(t *task.Task) { t.ClaimedAt = now.Add(-30 * time.Minute) }, false},
		"in the minute that is spared": {func(t *task.Task) { t.ClaimedAt = now.Add(-31 * time.Minute) }, false},
		"a minute later":               {func(t *task.Task) { t.ClaimedAt = now.Add(-32 * time.Minute) }, true},
		"of nobody":                    {func(t *task.Task) { t.ClaimedBy = "" }, false},
		"reserved by a person":         {func(t *task.Task) { t.ClaimedAt = time.Time{} }, false},
		"open":                         {func(t *task.Task) { t.Status = task.Open }, false},
		"blocked":                      {func(t *task.Task) { t.Status = task.Blocked }, false},
		"completed":                    {func(t *task.Task) { t.Status = task.Completed }, false},
		"cancelled":                    {func(t *task.Task) { t.Status = task.Cancelled }, false},
		"in the trash":                 {func(t *task.Task) { t.Trashed = true }, false},
	} {
		one := dead
		tt.change(&one)
		var want []task.Task
		if tt.want {
			want = []task.Task{one}
		}
		if diff := cmp.Diff(want, silent(slices.Values([]task.Task{one}), now, policy)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// told answers for each task as it was told to, and keeps the order.
type told struct {
	answers map[task.ID]func() (former string, swept bool, err error)
	asked   []task.ID
}

func (c *told) Sweep(_ context.Context, id task.ID) (string, bool, error) {
	c.asked = append(c.asked, id)
	return c.answers[id]()
}

// TestSweep sweeps four tasks, of which the second goes wrong in one way or another.
func TestSweep(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		second func() (string, bool, error)
		asked  []task.ID
		swept  []task.ID
		err    string
	}{
		{
			name: "nothing", second: func() (string, bool, error) { return "Sandman", true, nil },
			asked: []task.ID{"1", "2", "3", "4"}, swept: []task.ID{"1", "2", "4"},
		},
		{
			name: "refused", second: func() (string, bool, error) { return "", false, claim.Errorf(claim.Refused, claim.LandedNo, "400") },
			asked: []task.ID{"1", "2", "3", "4"}, swept: []task.ID{"1", "4"}, err: `task "second" could not be swept: 400`,
		},
		{
			name: "a failure here", second: func() (string, bool, error) { return "", false, errors.New("disk full") },
			asked: []task.ID{"1", "2", "3", "4"}, swept: []task.ID{"1", "4"}, err: `task "second" could not be swept: disk full`,
		},
		{
			name: "swept, and not noted", second: func() (string, bool, error) { return "Sandman", true, errors.New("disk full") },
			asked: []task.ID{"1", "2", "3", "4"}, swept: []task.ID{"1", "2", "4"}, err: `task "second" could not be swept: disk full`,
		},
		{
			name: "its page cannot be read", second: func() (string, bool, error) {
				return "", false, fmt.Errorf("a sweep: %w", claim.Errorf(claim.Unavailable, claim.LandedNo, "503"))
			},
			asked: []task.ID{"1", "2", "3", "4"}, swept: []task.ID{"1", "4"}, err: `task "second" could not be swept: a sweep: 503`,
		},
		{
			name: "stopped", ctx: ctx, second: func() (string, bool, error) { stop(); return "Sandman", true, nil },
			asked: []task.ID{"1", "2"}, swept: []task.ID{"1", "2"},
		},
	} {
		if tt.ctx == nil {
			tt.ctx = t.Context()
		}
		c := &told{answers: map[task.ID]func() (string, bool, error){
			"1": func() (string, bool, error) { return "Oracle", true, nil },
			"2": tt.second,
			"3": func() (string, bool, error) { return "", false, nil }, // it is not stale after all
			"4": func() (string, bool, error) { return "Oracle", true, nil },
		}}
		done, err := sweep(tt.ctx, c, []task.Task{{ID: "1"}, {ID: "2", Title: "second"}, {ID: "3"}, {ID: "4"}}, new(troubles))
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: err = %v, want %q", tt.name, err, tt.err)
		}
		var swept []task.ID
		for _, r := range done {
			swept = append(swept, r.Task)
			if r.Agent == "" {
				t.Errorf("%s: who had task %s is not said", tt.name, r.Task)
			}
		}
		if diff := cmp.Diff(tt.asked, c.asked); diff != "" {
			t.Errorf("%s: asked (-want +got):\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(tt.swept, swept); diff != "" {
			t.Errorf("%s: swept (-want +got):\n%s", tt.name, diff)
		}
	}
}

// Pages that fail one after the other are Notion's trouble, and those that failed
// before are passed over the next time.
func TestSweepWithNotionAway(t *testing.T) {
	away := func() (string, bool, error) { return "", false, claim.Errorf(claim.Unavailable, claim.LandedNo, "503") }
	c := &told{answers: map[task.ID]func() (string, bool, error){"1": away, "2": away, "3": away, "4": away, "5": away}}
	tasks := []task.Task{{ID: "1"}, {ID: "2"}, {ID: "3"}, {ID: "4"}, {ID: "5"}}
	var troubled troubles
	for _, want := range [][]task.ID{{"1", "2", "3"}, {"3", "4", "5"}} {
		c.asked = nil
		if _, err := sweep(t.Context(), c, tasks, &troubled); err == nil {
			t.Error("no error")
		}
		if diff := cmp.Diff(want, c.asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
	}
}
