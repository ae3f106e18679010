package task_test

import (
	"strings"
	"testing"

	"dibs/internal/task"
)

// board is a board in one line: "a:OPEN>b,c+d" is a task that depends on b and c and has the
// sub-item d. A status in lower case is that of a task in the trash.
func board(line string) map[task.ID]task.Task {
	all := make(map[task.ID]task.Task)
	ids := func(list string) (out []task.ID) {
		for id := range strings.SplitSeq(list, ",") {
			if id != "" {
				out = append(out, task.ID(id))
			}
		}
		return out
	}
	for word := range strings.FieldsSeq(line) {
		word, parts, _ := strings.Cut(word, "+")
		word, on, _ := strings.Cut(word, ">")
		id, status, _ := strings.Cut(word, ":")
		up := strings.ToUpper(status)
		all[task.ID(id)] = task.Task{ID: task.ID(id), Title: strings.ToUpper(id), Status: task.Status(up), Trashed: up != status, DependsOn: ids(on), SubItems: ids(parts)}
	}
	return all
}

func TestStuck(t *testing.T) {
	const never = "it can never become ready: "
	for _, tt := range []struct{ board, want string }{
		{"a:OPEN>b b:COMPLETED", ""},
		{"a:OPEN>b b:BLOCKED", ""},
		{"a:OPEN>b b:CANCELLED", never + "it waits for “B”, which is CANCELLED; take “B” out of its dependencies, or reopen “B”"},
		{"a:OPEN>b b:open", never + "it waits for “B”, which is in the trash; take “B” out of its dependencies, or restore “B”"},
		{"a:OPEN>b b:completed", never + "it waits for “B”, which is in the trash; take “B” out of its dependencies, or restore “B”"},
		{"a:OPEN>b b:", never + "it waits for “B”, which is not on this board, or not shared with dibs; take “B” out of its dependencies, or share “B”"},
		{"a:OPEN>unread", ""}, // nothing is known of it yet
		{"a:OPEN+b,c,d b:CANCELLED c:open d:COMPLETED", ""},
		{"a:OPEN+b b:", never + "it waits for “B”, which is not on this board, or not shared with dibs; take “B” out of its sub-items, or share “B”"},
		{"a:OPEN+b b:OPEN>c c:CANCELLED", never + "it waits for “B”, and that waits for “C”, which is CANCELLED; take “C” out of the dependencies of “B”, or reopen “C”"},
		{"a:OPEN>a", never + "it waits for itself; take it out of its dependencies"},
		{"a:OPEN>b b:BLOCKED>a", never + "it waits in a circle, for “B”, which waits for “A”; take one of them out of the dependencies of another"},
		{"a:OPEN>b b:OPEN>c c:OPEN>a", never + "it waits in a circle, for “B”, which waits for “C”, which waits for “A”; take one of them out of the dependencies of another"},
		{"a:OPEN+b b:OPEN>a", never + "it waits in a circle, for “B”, which waits for “A”; take one of them out of the dependencies of another"},
		{"a:OPEN>b b:OPEN>c c:OPEN>d d:OPEN>c", never + "it waits for “C”, and that waits in a circle, for “D”, which waits for “C”; take one of them out of the dependencies of another"},
		{"a:OPEN>b b:OPEN>a,c c:CANCELLED", never + "it waits in a circle, for “B”, which waits for “A”; take one of them out of the dependencies of another"},
		{"a:OPEN>b b:OPEN>c c:FAILED>d d:CANCELLED", never + "it waits for “C”, and that waits for “D”, which is CANCELLED; take “D” out of the dependencies of “C”, or reopen “D”"},
		{"a:OPEN>b b:IN_PROGRESS>c c:CANCELLED", ""}, // its holder finishes it all the same
		{"a:OPEN>b b:IN_PROGRESS>a", ""},
		{"a:OPEN>b b:REVIEW>a", ""},
		{"a:IN_PROGRESS>b b:CANCELLED", ""},
		{"a:COMPLETED>b b:CANCELLED", ""},
		{"a:open>b b:CANCELLED", ""},
	} {
		all := board(tt.board)
		lookup := func(id task.ID) (task.Task, bool) {
			one, ok := all[id]
			return one, ok
		}
		said := func(r *task.Rot) string {
			if s := r.Stuck(all["a"]); s != nil {
				return r.Say(all["a"], s)
			}
			return ""
		}
		r := task.NewRot(lookup)
		if got := said(r); got != tt.want {
			t.Errorf("%s:\n%s, want\n%s", tt.board, got, tt.want)
		}
		r = task.NewRot(lookup)
		for _, other := range []task.ID{"d", "c", "b"} {
			r.Stuck(all[other])
		}
		if got := said(r); got != tt.want {
			t.Errorf("%s, with the others asked about first:\n%s, want\n%s", tt.board, got, tt.want)
		}
	}
}
