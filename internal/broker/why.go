package broker

import (
	"cmp"
	"fmt"
	"strings"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// known returns what the mirror has of tasks; of one that it does not have, the id.
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

// why says why a claim could not get a task that is not ready.
func (bd *board) why(t task.Task, v View) (claim.Code, string) {
	if c, taken := bd.occupied(t.ID); taken {
		if c.State == claim.Finishing {
			return claim.CodeHeld, c.Agent + " is done with it, and Notion has yet to be told"
		}
		return claim.CodeHeld, c.Agent + " has it"
	}
	d := claim.Decide(t, v.WaitsFor, bd.now, bd.policy)
	switch d.Code {
	case claim.CodeBlockedByDependency:
		return d.Code, "it " + waits(v.WaitingFor)
	case "": // it may be claimed by name, and is not offered
		return claim.CodeNotOpen, fmt.Sprintf("it is %s, and the lease of %s is over: the next sweep opens it", t.Status, d.Holder)
	}
	return d.Code, d.Reason
}

// maxWaits is how many tasks are named that another one waits for.
const maxWaits = 2

// waits says for what a task waits.
func waits(tasks []task.Task) string {
	var names []string
	for i, t := range tasks {
		if i == maxWaits && len(tasks) > maxWaits {
			names = append(names, fmt.Sprintf("%d more", len(tasks)-i))
			break
		}
		names = append(names, waited(t))
	}
	if last := len(names) - 1; last > 0 {
		return "waits for " + strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return "waits for " + strings.Join(names, "")
}

// waited names a task that another one waits for, and says how it stands.
func waited(t task.Task) string {
	if t.Title == "" && t.Status == task.Unknown {
		return fmt.Sprintf("task %s, which is not on this board", t.ID)
	}
	standing := string(t.Status)
	switch {
	case t.Trashed:
		standing = "in the trash"
	case t.ClaimedBy != "" && !t.Status.Finished():
		standing += ", " + t.ClaimedBy
	}
	return fmt.Sprintf("“%s” (%s)", cmp.Or(t.Title, t.Key, string(t.ID)), standing)
}
