package broker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// known returns the tasks from the mirror; for an unknown one, a task with only its id.
func (bd *board) known(ids []task.ID) []task.Task {
	var out []task.Task
	for _, id := range ids {
		t, ok := bd.Task(id)
		if !ok {
			t = task.Task{ID: id, Status: task.Unknown}
		}
		out = append(out, t)
	}
	return out
}

// unready marks a task as not ready, with the reason.
func unready(out *api.Task, code claim.Code, reason string) {
	out.Ready, out.Code, out.Reason = false, string(code), api.Collapse(reason)
}

// why returns why a task is not ready. waitsFor are the tasks that it waits for, as far as known.
func (bd *board) why(t task.Task, waitsFor []task.Task, agent string) (claim.Code, string) {
	if c, taken := bd.occupied(t.ID); taken {
		if c.State == claim.Finishing {
			return claim.CodeHeld, c.Agent + " is done with it, and Notion has yet to be told"
		}
		return claim.CodeHeld, c.Agent + " has it"
	}
	d := claim.Decide(t, agent, bd.waitsFor(t), bd.now, bd.policy)
	switch d.Code {
	case claim.CodeBlockedByDependency:
		return d.Code, cmp.Or(bd.stuck(t), "it "+bd.waits(waitsFor))
	case "": // it may be claimed by name, but is not offered
		if f, kept := bd.kept[t.ID]; kept {
			return claim.CodeNotOffered, fmt.Sprintf("%s; %s is not offered it for an hour", f.Taking(), agent)
		}
		return claim.CodeNotOpen, fmt.Sprintf("the lease of %s is over: the next sweep opens it", d.Holder)
	}
	return d.Code, d.Reason
}

// leftAlone says that a card is left alone for that long.
func leftAlone(d time.Duration) string {
	return fmt.Sprintf("left alone for another %v, because something changes its card back whenever dibs tidies it: look in Notion for an automation, and for who edited it last", d.Round(time.Second))
}

// named adds to the denial of a task that waits for others which ones these are.
func (bd *board) named(d *claim.Denied) *claim.Denied {
	blockers := bd.waitsFor(d.Task)
	if d.Code != claim.CodeBlockedByDependency || len(blockers) == 0 {
		return d
	}
	named := *d
	named.Detail = fmt.Sprintf("“%s” %s; ask for the next ready task instead", d.Task.Title, bd.waits(bd.known(blockers)))
	if stuck := bd.stuck(d.Task); stuck != "" {
		named.Detail = fmt.Sprintf("“%s” cannot be claimed: %s; ask for the next ready task instead", d.Task.Title, stuck)
	}
	return &named
}

// maxWaits is how many of the tasks waited for a message names.
const maxWaits = 2

// waits says which tasks a task waits for.
func (bd *board) waits(tasks []task.Task) string {
	var names []string
	for i, t := range tasks {
		if i == maxWaits && len(tasks) > maxWaits {
			names = append(names, fmt.Sprintf("%d more", len(tasks)-i))
			break
		}
		names = append(names, bd.waited(t))
	}
	if last := len(names) - 1; last > 0 {
		return "waits for " + strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return "waits for " + strings.Join(names, "")
}

// waited names a task that is waited for, with its status.
func (bd *board) waited(t task.Task) string {
	if t.Title == "" && t.Status == task.Unknown {
		return fmt.Sprintf("task %s, which is not on this board", t.ID)
	}
	standing := bd.words.StatusOf(t)
	switch {
	case t.Trashed:
		standing = "in the trash"
	case claim.Whose(t) != "" && !t.Status.Finished():
		standing += ", " + claim.Whose(t)
	}
	return fmt.Sprintf("“%s” (%s)", cmp.Or(t.Title, t.Key, string(t.ID)), standing)
}

// matters ranks a task in a list: first tasks in progress, then ready ones, those that wait, those
// that a person has to look at, and finished ones.
func (bd *board) matters(t task.Task, agent string) int {
	switch {
	case t.Status == task.InProgress:
		return 0
	case bd.ready(t, agent):
		return 1
	case t.Status == task.Open:
		return 2
	case !t.Status.Finished():
		return 3
	}
	return 4
}

// sort sorts tasks by matters, and otherwise keeps the order in which they are offered; among
// finished tasks the last edited comes first.
func (bd *board) sort(tasks []task.Task, agent string) {
	rank := make(map[task.ID]int, len(tasks))
	for _, t := range tasks {
		rank[t.ID] = bd.matters(t, agent)
	}
	slices.SortStableFunc(tasks, func(a, b task.Task) int {
		order := cmp.Compare(rank[a.ID], rank[b.ID])
		if order == 0 && a.Status.Finished() {
			order = b.Edited.Compare(a.Edited)
		}
		return order
	})
}
