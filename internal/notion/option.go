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
// status by the option for IN_PROGRESS, so that such a change of the schema looks like an
// edit of every task that is held:
//
//   - A renamed option keeps its id. Tasks show its new name.
//   - A task whose option is deleted shows none, or the status's default, which may be
//     OPEN; and goes on to do so when an option of that name is made anew.
//
// Nobody edited those tasks, and the claims on them are not over.

// remember adds to a status as it is the ids of the options that tasks go by and that are
// not there any more, as was knows them. One that was made anew, of another type, has
// nothing to do with those.
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

// nowNamed returns the name that the option which was known by that name has now. renamed
// is false if it is the same, or if there is no such option any more.
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

// deleted reports whether a status had an option of that name and has it no more, under
// any name.
func (col Column) deleted(name string) bool {
	_, renamed := col.nowNamed(name)
	return !renamed && col.OptionIDs[name] != "" && !slices.Contains(col.Options, name)
}

// changedOptions says which of the missing options were renamed or deleted, and what to do
// about it.
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

// statusOf finds the status in a database, with what was knows of it.
func (s TaskSchema) statusOf(db Database, was Column) Column {
	for _, col := range db.Columns {
		if col.ID == was.ID && col.ID != "" {
			return s.remember(col, was)
		}
	}
	return Column{}
}

// shows reports whether the statuses of tasks can be read by what the property shows: one
// that was renamed has another name, and a select need not have all.
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

// lostProgress reports whether tasks in progress cannot show it, because its option was deleted.
func (s TaskSchema) lostProgress(status Column) bool {
	return status.deleted(s.statusName(task.InProgress))
}

// remade reports whether the option for IN_PROGRESS is another one than it was: tasks that
// were in progress do not show it.
func (s TaskSchema) remade(was, is Column) bool {
	name := s.statusName(task.InProgress)
	before, now := was.OptionIDs[name], is.OptionIDs[name]
	return before != "" && now != "" && before != now
}

// heldBefore reports whether last is a task in progress under a claim that now shows, in all
// but its status. A person may have set that, or the option was deleted.
func (c *codec) heldBefore(last, now task.Task) bool {
	tok := claim.ParseToken(now.Token)
	return last.Status == task.InProgress && now.Status != task.InProgress && !now.Trashed &&
		now.ClaimedBy != "" && now.ClaimedBy == last.ClaimedBy && now.Token == last.Token && !now.ClaimedAt.IsZero() &&
		(c.known.token.ID == "" || tok.ID != "" && !tok.Void && !tok.Done)
}

// marked marks a task that was in progress when the option for that was deleted, as far as
// that is known, and has not been given a status since.
func (t *Tasks) marked(c *codec, now task.Task) task.Task {
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

// clearedTask is how a task shows that its option was deleted.
type clearedTask struct {
	token, holder string
	status        task.Status
}

// setRemade notes that tasks may have lost their option without anybody knowing.
func (t *Tasks) setRemade() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remades++
	t.remade = t.remades
}

// remakes is what listed is to be called with once all tasks have been read.
func (t *Tasks) remakes() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.remade
}

// listed notes that all tasks have been read since remakes was called: from then on it is
// somebody's doing if a task is not in progress any more.
func (t *Tasks) listed(remakes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.remade == remakes {
		t.remade = 0
	}
}

// doubts reports whether a task that is in progress, for all that is known, does not show
// it, so that the schema has to tell whether somebody set the status.
func (t *Tasks) doubts(now task.Task) bool {
	last, known := t.last(now.ID)
	return known && !now.Cleared && t.codec.Load().heldBefore(last, now)
}

// settled reads the schema, unless it is known already that the option for IN_PROGRESS is
// missing. The error says why it cannot be told what the status of a task is: nothing is to
// be made of that before the option is back.
func (t *Tasks) settled(ctx context.Context) error {
	if b := t.broken.Load(); b != nil && b.lostProgress {
		return b.err
	}
	err := t.Check(ctx)
	if b := t.broken.Load(); b != nil && b.lostProgress {
		return b.err
	}
	return err
}

// SetStatuses changes what the database calls the statuses, and reads the schema with one
// request. It is for when the options were renamed: it fails, and changes nothing, while
// tasks can be claimed under the old names, and if they cannot under the new ones.
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
		_ = t.Check(ctx) // which fails as it did before
	}
	return err
}

// rename changes the names of the statuses, and returns those that they had.
func (t *Tasks) rename(names map[task.Status]string) map[task.Status]string {
	t.changing.Lock()
	defer t.changing.Unlock()
	before := t.schema.Statuses
	t.schema.Statuses = names
	return before
}
