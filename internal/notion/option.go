package notion

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dibs/internal/task"
)

// The options of a status may be renamed or deleted while claims live. A claim shows its status by
// the option for IN_PROGRESS, so such a change of the schema looks like an edit of every held task:
//
//   - A renamed option keeps its id. Tasks show its new name.
//   - A task whose option is deleted shows none, or the status's default, which may be OPEN. That does
//     not change when an option of the same name is made anew.
//
// Nobody edited those tasks, and the claims on them are not over: while an option is missing the
// database is broken, and what a task lost with a deleted one is written again by the claim's holder.

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

// SetStatuses changes the database's names of the statuses, and reads the schema with one
// request before and one after. It is for renamed options. It fails, and changes nothing, if
// tasks can be claimed under the old names, or cannot be claimed under the new ones.
func (t *Tasks) SetStatuses(ctx context.Context, names map[task.Status]string) error {
	if t.Check(ctx) == nil {
		return errors.New("the names of the statuses cannot change while tasks can be claimed under the old ones: restart the daemon")
	}
	before := t.rename(names)
	err := t.Check(ctx)
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
