package broker

import (
	"context"
	"fmt"
	"strings"

	"dibs/internal/task"
)

// How much is said of the to-dos that are not ticked.
const (
	mostTodos = 20
	maxTodo   = 100 // characters of one
)

// NotDoneError refuses to complete a task with to-dos that are not ticked. The claim goes on.
type NotDoneError struct {
	Task  task.Task
	Todos []string // the first of them
	Count int      // of all of them
}

func (e *NotDoneError) Error() string {
	what := fmt.Sprintf("%d to-dos on its page are not ticked", e.Count)
	if e.Count == 1 {
		what = "a to-do on its page is not ticked"
	}
	more := ""
	if n := e.Count - len(e.Todos); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%q is not done: %s: “%s”%s; tick what is done in Notion, or end the claim otherwise", e.Task.Title, what, strings.Join(e.Todos, "”, “"), more)
}

// ticked returns a *NotDoneError if the page of a task has to-dos that are not ticked. If the page
// cannot be read, the error is a *claim.StoreError. It takes one request, or more for a long page.
func (b *Broker) ticked(ctx context.Context, t task.Task) error {
	ctx, cancel := context.WithTimeout(ctx, contentWait)
	defer cancel()
	text, err := b.pages.Whole(ctx, t.ID)
	if err = unread(ctx, err); err != nil {
		return fmt.Errorf("whether the to-dos on the page of %q are ticked is not known, and nothing was done: %w", t.Title, err)
	}
	open := unticked(text)
	if len(open) == 0 {
		return nil
	}
	return &NotDoneError{t, open[:min(len(open), mostTodos)], len(open)}
}

// unticked returns the to-dos of a page in Markdown that are not ticked. What looks like one in a
// block of code is none, unless the block has no end: then nobody knows where it ends.
func unticked(text string) (open []string) {
	fence := ""
	var coded []string // in the block of code
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		marks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case fence != "":
			if line == marks && len(marks) >= len(fence) {
				fence, coded = "", nil
			} else if todo, ok := strings.CutPrefix(line, "- [ ]"); ok {
				coded = append(coded, quotable(todo))
			}
		case len(marks) >= 3:
			fence = marks
		default:
			if todo, ok := strings.CutPrefix(line, "- [ ]"); ok {
				open = append(open, quotable(todo))
			}
		}
	}
	return append(open, coded...)
}

// quotable makes a to-do fit to be quoted.
func quotable(todo string) string {
	todo = task.Brief(todo, maxTodo)
	if todo == "" {
		return "without a text"
	}
	return strings.NewReplacer("“", `"`, "”", `"`).Replace(todo)
}
