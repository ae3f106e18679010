package claim

import (
	"context"
	"strings"

	"dibs/internal/task"
)

// Tell writes onto the note of a task that nobody has why it can never become ready. reason judges
// the page as it was read just now; if it returns nothing, or the note says so already, nothing is
// written. told is false if somebody has the task, or it may become ready after all. It changes
// nothing but the note, on which no claim rests, so it need not compete with others.
func (c *Claimer) Tell(ctx context.Context, id task.ID, reason func(task.Task) string) (told bool, err error) {
	unlock, err := c.locks.Lock(ctx, id)
	if err != nil {
		return false, err
	}
	defer unlock()
	if _, taken := c.On(id); taken {
		return false, nil
	}
	v, err := c.visit(ctx, id, 0)
	if err != nil {
		return false, err
	}
	defer v.Close()
	why := ""
	if vacant(v.Task) {
		why = reason(v.Task)
	}
	if why == "" {
		return false, nil
	}
	line := noteLine(noteStuck, why, Sweeper, v.At)
	if strings.Contains(v.Task.Note, strings.TrimSuffix(line, noteTime(v.At))) {
		return true, nil
	}
	_, _, err = v.write(Write{Note: &line})
	return err == nil, err
}

// vacant reports whether a task shows no claim and may be claimed by anybody.
func vacant(t task.Task) bool {
	return !t.Trashed && t.Status == task.Open && Assignee(t) == "" && (t.ClaimedBy == "" || ParseToken(t.Token).Done)
}
