package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"dibs/internal/mirror"
	"dibs/internal/task"
)

const (
	// askTime is for how long the wire is waited for.
	askTime = 2 * time.Second
	// againSoon is after how long something that failed is tried again.
	againSoon = time.Second
	// part is how many tasks are passed on together at most.
	part = 1000
)

// repeats is how long after it was published first a task is published again. Who has read it
// at about the same time may have gone by its own reading, and who read the board shortly
// after, by a query that was behind.
var repeats = [...]time.Duration{mirror.Again, mirror.Overlap + mirror.Again}

// owed is what has yet to be published.
type owed struct {
	tasks                 map[task.ID]bool
	removed, gone, absent []task.ID
	full                  bool
}

// Elected is to be called when this member begins to lead, and when it ceases to.
func (r *Relay) Elected() { wake(r.term) }

// begin begins the terms of this member.
func (r *Relay) begin(ctx context.Context) {
	for wait := time.Duration(0); await(ctx, r.term, wait); {
		wait = time.Hour
		if err := r.prepare(ctx); err != nil && ctx.Err() == nil {
			r.Log.Debug("a term cannot begin yet", "error", err)
			wait = againSoon
		}
	}
}

// prepare makes ready to publish, if this member leads: its next sync has to read what was
// edited since the last publication of whoever led before.
func (r *Relay) prepare(ctx context.Context) error {
	term := r.Term()
	r.publishing.Lock()
	defer r.publishing.Unlock()
	if term == 0 || term == r.ready {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	_, data, err := r.Wire.Newest(asking)
	if err != nil {
		return err
	}
	r.ready, r.first, r.from, r.at, r.failing = term, true, time.Time{}, time.Time{}, false
	r.told, r.recent, r.gone, r.owed = make(map[task.ID]mark), make(map[task.ID]bool), make(map[task.ID]mark), owed{tasks: make(map[task.ID]bool)}
	if last, err := decode(data); data != nil && err == nil && last.Format == format {
		r.from, r.at = last.At, last.At
		r.Mirror.Rewind(last.At)
	}
	r.mu.Lock()
	r.leads = term
	r.mu.Unlock()
	r.Mirror.Hasten()
	return nil
}

// Read passes on what a sync of this daemon has found out, if it leads.
func (r *Relay) Read(ctx context.Context, result mirror.Result) {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	if term := r.Term(); term == 0 || term != r.ready {
		return // what follows from it comes with the first sync of a term
	}
	since := result.Since
	if r.first && result.Full {
		since = r.from
	}
	if r.first && !r.from.IsZero() && since.After(r.from) {
		r.Mirror.Hasten() // it was begun before the term
		return
	}
	r.collect(result)
	p := publication{At: result.At, Since: since, First: r.first, Claimed: result.Claimed}
	if p.At.Before(r.at) {
		p.At = r.at
	}
	r.failing = false
	err := r.publish(ctx, p)
	if _, large := errors.AsType[tooLarge](err); large {
		r.Log.Warn("the other daemons of the cluster are told nothing of the board", "error", err)
	} else if err != nil && ctx.Err() == nil {
		r.Log.Debug("the others are told with the next sync", "error", err)
	}
}

// collect notes what is to be published of a sync.
func (r *Relay) collect(result mirror.Result) {
	o := &r.owed
	note := func(ids ...task.ID) {
		for _, id := range ids {
			o.tasks[id] = true
		}
	}
	if !result.Full {
		note(result.Seen...)
	} else {
		// Who has read the board once knows all that was not edited, nor is told here to be
		// different.
		for _, id := range result.Seen {
			_, told := r.told[id]
			if t, ok := r.Mirror.Task(id); told || ok && r.first && !t.Edited.Before(r.from.Add(-mirror.Overlap).Truncate(time.Minute)) {
				o.tasks[id] = true
			}
		}
		note(result.Claimed...)
	}
	for _, t := range result.Changed {
		note(t.ID)
	}
	o.removed = append(o.removed, result.Removed...)
	for _, t := range result.Gone {
		o.gone = append(o.gone, t.ID)
	}
	o.absent = append(o.absent, result.Absent...)
	o.full = o.full || result.Full
}

// publish passes on p, with what is owed. r.publishing is locked.
func (r *Relay) publish(ctx context.Context, p publication) error {
	if p.Full, p.Absent = r.owed.full, r.owed.absent; p.Full {
		p.All = prints(r.Mirror.Tasks())
	}
	r.forget()
	left := r.left(p.At)
	p.Gone = slices.Concat(r.owed.gone, left)
	p.Removed = slices.Concat(r.owed.removed, left)
	p.Schema, p.Broken = r.Schema()
	marks := make(map[task.ID]mark)
	var tasks []task.Body
	candidates := maps.Clone(r.recent)
	maps.Copy(candidates, r.owed.tasks)
	for _, id := range slices.Sorted(maps.Keys(candidates)) {
		t, ok := r.Mirror.Task(id)
		if !ok {
			continue
		}
		body := task.BodyOf(t)
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		now := mark{sum: maphash.Bytes(r.seed, data), at: p.At}
		if before, told := r.told[id]; told && before.sum == now.sum {
			if before.repeat == len(repeats) || p.At.Sub(before.at) < repeats[before.repeat] {
				continue
			}
			now.at, now.repeat = before.at, before.repeat+1
		}
		marks[id] = now
		tasks = append(tasks, body)
	}
	p.Tasks = tasks
	if err := r.send(ctx, p); err != nil {
		return err
	}
	for id, m := range marks {
		r.told[id], r.recent[id] = m, true
		if m.repeat == len(repeats) {
			delete(r.recent, id)
		}
	}
	for _, id := range r.owed.gone {
		r.gone[id] = mark{at: p.At}
	}
	for _, id := range left {
		m := r.gone[id]
		if m.repeat++; m.repeat == len(repeats) {
			delete(r.gone, id)
		} else {
			r.gone[id] = m
		}
	}
	r.first, r.at, r.owed = false, p.At, owed{tasks: make(map[task.ID]bool)}
	return nil
}

// forget forgets what was published of tasks that have left the board: they are published anew if
// they come back.
func (r *Relay) forget() {
	gone := func(id task.ID) bool { _, there := r.Mirror.Task(id); return !there }
	maps.DeleteFunc(r.told, func(id task.ID, _ mark) bool { return gone(id) })
	maps.DeleteFunc(r.recent, func(id task.ID, _ bool) bool { return gone(id) })
}

// left returns the tasks of which it is to be said again, at that time, that they are gone.
func (r *Relay) left(at time.Time) (ids []task.ID) {
	for id, m := range r.gone {
		if _, back := r.Mirror.Task(id); back {
			delete(r.gone, id)
		} else if at.Sub(m.at) >= repeats[m.repeat] {
			ids = append(ids, id)
		}
	}
	return ids
}

var errNotLed = errors.New("this daemon does not lead any more")

// tooLarge is what is wrong with what cannot be published in any number of parts.
type tooLarge struct {
	tasks []task.Body // one, if it is that
	bytes int
}

func (e tooLarge) Error() string {
	of := ""
	if len(e.tasks) > 0 {
		of = " of task " + string(e.tasks[0].ID)
	}
	return fmt.Sprintf("what is to be passed on%s is too large for etcd: %d bytes; shorten the text in its fields", of, e.bytes)
}

// send publishes p, in several parts if it is too large.
func (r *Relay) send(ctx context.Context, p publication) error {
	p.Format, p.Run, p.Settings = format, r.run, r.Settings()
	first, rest, several := p.halves()
	both := func() error {
		if err := r.send(ctx, first); err != nil {
			return err
		}
		return r.send(ctx, rest)
	}
	if several && len(p.Tasks) > part {
		return both()
	}
	data, err := encode(p)
	switch {
	case err != nil:
		return err
	case len(data) > r.Most && several:
		return both()
	case len(data) > r.Most:
		return tooLarge{p.Tasks, len(data)}
	}
	asking, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	led, err := r.Wire.Publish(asking, r.ready, data)
	if err == nil && !led {
		err = errNotLed
	}
	return err
}

// Unread passes on that a sync of this daemon has failed, if it leads. The others are told
// so once.
func (r *Relay) Unread(ctx context.Context) {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	failure := r.Mirror.Standing().Failure
	if term := r.Term(); failure == nil || term == 0 || term != r.ready || r.failing {
		return
	}
	if err := r.send(ctx, publication{At: r.at, Failed: failure.Error()}); err == nil {
		r.failing = true
	}
}
