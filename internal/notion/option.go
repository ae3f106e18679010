package notion

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// The options of a status may be renamed or deleted while claims live. A claim shows its
// status by the option for IN_PROGRESS, so such a change of the schema looks like an edit
// of every held task:
//
//   - A renamed option keeps its id. Tasks show its new name.
//   - A task whose option is deleted shows none, or the status's default, which may be
//     OPEN. That does not change when an option of the same name is made anew.
//
// Nobody edited those tasks, and the claims on them are not over.

// remember copies from was, the earlier status, the ids of former options that tasks still use.
// A property that was made again with another type does not inherit them.
func (s TaskSchema) remember(is, was Column) Column {
	if is.Type != was.Type {
		return is
	}
	ids := maps.Clone(is.OptionIDs)
	for _, status := range s.statuses() {
		name := s.statusName(status)
		if id := was.OptionIDs[name]; id != "" && !slices.Contains(is.Options, name) {
			if ids == nil {
				ids = make(map[string]string)
			}
			ids[name] = id
		}
	}
	is.OptionIDs = ids
	return is
}

// nowNamed returns the present name of an option that had the given name. renamed is false if
// the name is the same, or the option is gone.
func (col Column) nowNamed(name string) (now string, renamed bool) {
	id := col.OptionIDs[name]
	if id == "" || slices.Contains(col.Options, name) {
		return name, false
	}
	for _, other := range col.Options {
		if col.OptionIDs[other] == id {
			return other, true
		}
	}
	return name, false
}

// deleted reports whether a status once had an option of that name, and has it no more under
// any name.
func (col Column) deleted(name string) bool {
	_, renamed := col.nowNamed(name)
	return !renamed && col.OptionIDs[name] != "" && !slices.Contains(col.Options, name)
}

// changedOptions returns which missing options were renamed or deleted, and what to do about
// it.
func (s TaskSchema) changedOptions(col Column, missing []string) (problems, remedies []string) {
	var deleted []string
	for _, status := range s.statuses() {
		name := s.statusName(status)
		if !slices.Contains(missing, name) {
			continue
		}
		key := "tasks.statuses." + strings.ToLower(string(status))
		if now, renamed := col.nowNamed(name); renamed {
			problems = append(problems, fmt.Sprintf("option %q of property %q was renamed to %q", name, col.Name, now))
			remedies = append(remedies, fmt.Sprintf("set %s to %q, or rename it back", key, now))
		} else if col.deleted(name) {
			problems = append(problems, fmt.Sprintf("option %q of property %q was deleted", name, col.Name))
			deleted = append(deleted, key)
		}
	}
	if len(deleted) > 0 {
		remedies = append(remedies, fmt.Sprintf("add what was deleted again, or set %s to the option that stands for it now", strings.Join(deleted, ", ")))
	}
	return problems, remedies
}

// statusOf returns the status of a database, with what was knows about its former options.
func (s TaskSchema) statusOf(db Database, was Column) Column {
	for _, col := range db.Columns {
		if col.ID == was.ID && col.ID != "" {
			return s.remember(col, was)
		}
	}
	return Column{}
}

// shows reports whether tasks' statuses can be read from the property. A renamed option is
// found under its new name, and a select may lack some options.
func (s TaskSchema) shows(status Column) bool {
	fit := s.statusFit(status)
	if fit.Grade != Unusable {
		return true
	}
	for _, name := range fit.Missing {
		if _, renamed := status.nowNamed(name); !renamed && (status.Type != typeSelect || s.lostProgress(status)) {
			return false
		}
	}
	return len(fit.Missing) > 0 // else two have the same name
}

// lostProgress reports whether the option for IN_PROGRESS was deleted, so that tasks in
// progress cannot show it.
func (s TaskSchema) lostProgress(status Column) bool {
	return status.deleted(s.statusName(task.InProgress))
}

// remade reports whether the option for IN_PROGRESS was replaced by a new one. Tasks that were
// in progress do not show it.
func (s TaskSchema) remade(was, is Column) bool {
	name := s.statusName(task.InProgress)
	before, now := was.OptionIDs[name], is.OptionIDs[name]
	return before != "" && now != "" && before != now
}

// heldBefore reports whether last is the same task in progress under the same claim, with another
// status. A person may have set the status, or the option was deleted.
func (c *codec) heldBefore(last, now task.Task) bool {
	tok := claim.ParseToken(now.Token)
	return last.Status == task.InProgress && now.Status != task.InProgress && !now.Trashed &&
		now.ClaimedBy != "" && now.ClaimedBy == last.ClaimedBy && now.Token == last.Token && !now.ClaimedAt.IsZero() &&
		(c.known.token.ID == "" || tok.ID != "" && !tok.Void && !tok.Done)
}

// flagCleared sets Cleared on a task that seems to have lost its status because the option for
// IN_PROGRESS was deleted, and that nobody has given a status since.
func (t *Tasks) flagCleared(c *codec, now task.Task) task.Task {
	last, known := t.last(now.ID)
	t.mu.Lock()
	defer t.mu.Unlock()
	was, marked := t.cleared[now.ID]
	switch {
	case marked && was.token == now.Token && was.holder == now.ClaimedBy && was.status == now.Status:
		now.Cleared = true
	case t.remade > 0 && known && c.heldBefore(last, now):
		if t.cleared == nil {
			t.cleared = make(map[task.ID]clearedTask)
		}
		t.cleared[now.ID] = clearedTask{now.Token, now.ClaimedBy, now.Status}
		now.Cleared = true
	case marked:
		delete(t.cleared, now.ID)
	}
	return now
}

// clearedTask is a task whose option was deleted, as it was found.
type clearedTask struct {
	token, holder string
	status        task.Status
}

// setRemade records that tasks may have lost their option unnoticed.
func (t *Tasks) setRemade() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remades++
	t.remade = t.remades
}

// remakes returns the argument for a later call of listed.
func (t *Tasks) remakes() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.remade
}

// listed records that all tasks were read since remakes was called. From then on, a task that
// leaves IN_PROGRESS was changed by somebody.
func (t *Tasks) listed(remakes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.remade == remakes {
		t.remade = 0
	}
}

// doubts reports whether a task should be in progress but does not show it. The schema must
// then tell whether somebody set the status.
func (t *Tasks) doubts(now task.Task) bool {
	last, known := t.last(now.ID)
	return known && !now.Cleared && t.codec.Load().heldBefore(last, now)
}

// checkProgress reads the schema, unless the option for IN_PROGRESS is known to be missing. The
// error says why the status of a task is uncertain: nothing may act on it before the option is
// back.
func (t *Tasks) checkProgress(ctx context.Context) error {
	if b := t.broken.Load(); b != nil && b.lostProgress {
		return b.err
	}
	err := t.Check(ctx)
	if b := t.broken.Load(); b != nil && b.lostProgress {
		return b.err
	}
	return err
}

// SetStatuses changes the database's names of the statuses, and reads the schema with one
// request before and one after. It is for renamed options. It fails, and changes nothing, if
// tasks can be claimed under the old names, or cannot be claimed under the new ones.
func (t *Tasks) SetStatuses(ctx context.Context, names map[task.Status]string) error {
	if err := t.Check(ctx); err == nil && t.Broken() == nil {
		return errors.New("the names of the statuses cannot change while tasks can be claimed under the old ones: restart the daemon")
	}
	before := t.rename(names)
	err := t.Check(ctx)
	if err == nil {
		err = t.Broken()
	}
	if err != nil {
		t.rename(before)
		_ = t.Check(ctx) // fails as before
	}
	return err
}

// rename sets the names of the statuses, and returns the former ones.
func (t *Tasks) rename(names map[task.Status]string) map[task.Status]string {
	t.changing.Lock()
	defer t.changing.Unlock()
	before := t.schema.Statuses
	t.schema.Statuses = names
	return before
}
