package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/feed"
	"dibs/internal/inbox"
	"dibs/internal/task"
)

// FeedFilter chooses facts that agents are told; its zero value chooses all.
type FeedFilter struct {
	After int64  // only those told later, see [claim.Fact.Told]
	Agent string // whom it concerns, or who is the other party
	Task  task.ID
	Limit int // how many at most, 0 for any number
}

// Feed returns the facts that f chooses as agents see them, in the order in which they are
// told, which is also the one in which they became visible.
func (j *Journal) Feed(ctx context.Context, f FeedFilter) ([]claim.Fact, error) {
	query, args := "SELECT told, body FROM facts WHERE told > ?", []any{f.After}
	if f.Task != "" {
		query, args = query+" AND task_id = ?", append(args, f.Task)
	}
	if f.Agent != "" {
		query, args = query+" AND ? IN (agent, holder)", append(args, f.Agent)
	}
	query, args = query+" ORDER BY told LIMIT ?", append(args, atMost(f.Limit))
	facts, err := collect(ctx, j.readers, scanTold, query, args...)
	return facts, j.failed(err, "reading the feed")
}

func scanTold(row scanner) (claim.Fact, error) {
	var told int64
	var body []byte
	if err := row.Scan(&told, &body); err != nil {
		return claim.Fact{}, err
	}
	f, err := decodeFact(body)
	f.Told = told
	return feed.Seen(f), err
}

// FeedBounds returns the number of the last fact that was told, and of the last one
// that is no longer kept; 0 for none.
func (j *Journal) FeedBounds(ctx context.Context) (last, pruned int64, err error) {
	err = j.readers.QueryRowContext(ctx, `
		SELECT coalesce((SELECT max(told) FROM facts WHERE told IS NOT NULL), 0),
		       coalesce((SELECT min(told) - 1 FROM facts WHERE told IS NOT NULL), 0)`).
		Scan(&last, &pruned)
	return last, pruned, j.failed(err, "reading the feed")
}

// Untold returns the ids of tasks of which there may be something to tell, in
// the order of their ids: the first ones after that one.
func (j *Journal) Untold(ctx context.Context, after task.ID, limit int) ([]task.ID, error) {
	ids, err := collect(ctx, j.readers, scanString, "SELECT task_id FROM told WHERE due = 1 AND task_id > ? ORDER BY task_id LIMIT ?", after, atMost(limit))
	out := make([]task.ID, len(ids))
	for i, id := range ids {
		out[i] = task.ID(id)
	}
	return out, j.failed(err, "reading what is to be told")
}

// Tell adds to the feed what became of the given tasks since they were told of
// last, as the mirror has it, and returns whether there may be more to tell: of
// tasks that depend on these. Tasks on which the protocol's business here is
// not settled are left for later.
//
// Until Begin is called, tasks are only taken note of: once each, so that what becomes of
// them afterwards is told as soon as the feed has begun.
func (j *Journal) Tell(ctx context.Context, at time.Time, ids []task.ID) (more bool, err error) {
	err = j.writeMany(ctx, len(ids), func(tx *tx) error {
		more = false
		for _, id := range ids {
			marked, err := j.tell(ctx, tx, id, at)
			if err != nil {
				return fmt.Errorf("task %s: %w", id, err)
			}
			more = more || marked
		}
		return nil
	})
	return more, j.failed(err, "telling of %d tasks", len(ids))
}

// metaFeed is the key under which it is kept that the feed has begun.
const metaFeed = "feed.begun"

// Begin ends the time in which tasks are taken note of without telling anybody: what the
// mirror held before was there before. What the protocol did meanwhile was told, and what
// else became of tasks that had been taken note of is Untold.
func (j *Journal) Begin(ctx context.Context) error { return j.SetMeta(ctx, metaFeed, "yes") }

// Begun reports whether Begin was called, by an earlier process perhaps.
func (j *Journal) Begun(ctx context.Context) (bool, error) {
	begun, err := j.Meta(ctx, metaFeed)
	return begun != "", err
}

// record stores what the protocol recorded, and what agents are told of it and of the
// changes of state that it made.
func (j *Journal) record(ctx context.Context, tx *tx, record []claim.Fact) error {
	for len(record) > 0 {
		n := 1
		for n < len(record) && record[n].Task == record[0].Task {
			n++
		}
		if _, err := j.tell(ctx, tx, record[0].Task, record[0].At, record[:n]...); err != nil {
			return err
		}
		record = record[n:]
	}
	return nil
}

// tell tells of one task, and stores what the protocol recorded of it. It returns
// whether tasks that depend on it are to be told of next.
func (j *Journal) tell(ctx context.Context, tx *tx, id task.ID, at time.Time, record ...claim.Fact) (marked bool, err error) {
	before, err := lastTold(ctx, tx, id)
	if err != nil {
		return false, err
	}
	var begun bool
	err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM meta WHERE key = ?)", metaFeed).Scan(&begun)
	if err != nil {
		return false, err
	}
	noted := before != nil
	if !begun && noted && len(record) == 0 {
		return false, nil // until the feed begins
	}
	var after *feed.State
	settled := false
	// What was recorded without Notion says nothing of the page.
	if len(record) == 0 || slices.ContainsFunc(record, func(e claim.Fact) bool { return e.Remote }) {
		if after, settled, err = current(ctx, tx, id, before); err != nil {
			return false, err
		}
	}
	if !begun && !noted && after != nil && len(record) > 0 {
		// What the protocol does is news, although the feed has yet to begin.
		was, err := stateOf(ctx, tx, after.Unclaimed().Task)
		if err != nil {
			return false, err
		}
		before = &was
	}
	news := after
	if !settled || !begun && before == nil {
		news = nil
	}
	record, changed := feed.Tell(before, news, record)
	if err := insertRecord(ctx, tx, record...); err != nil {
		return false, err
	}
	if err := reopenedSince(ctx, tx, id, changed); err != nil {
		return false, err
	}
	if err := insertNews(ctx, tx, at, changed); err != nil {
		return false, err
	}
	known := after
	if !settled {
		known = nil
	}
	if err := j.triggerOf(ctx, tx, inbox.News{At: at, Before: before, After: news, Record: record, Changed: changed}, known); err != nil {
		return false, err
	}
	switch {
	case !settled && (begun || noted || after == nil):
		return false, nil
	case !settled:
		// What comes of the claim will be news.
		if *after, err = stateOf(ctx, tx, after.Unclaimed().Task); err != nil {
			return false, err
		}
	case after == nil:
		return false, forget(ctx, tx, id)
	}
	// Who polled before the feed begins was told of the tasks that are there.
	if begun {
		if err := j.available(ctx, tx, at, before, *after); err != nil {
			return false, err
		}
	}
	return remember(ctx, tx, at, before, *after)
}

// current returns the state of the task, nil if there is nothing to be told of
// it, and whether it is settled.
func current(ctx context.Context, tx *tx, id task.ID, before *feed.State) (after *feed.State, settled bool, err error) {
	t, err := scanTask(tx.QueryRowContext(ctx, "SELECT body FROM tasks WHERE id = ?", id))
	switch {
	case errors.Is(err, sql.ErrNoRows) && (before == nil || before.Status.Finished()):
		return nil, true, nil // nobody knew it, or it was put away
	case errors.Is(err, sql.ErrNoRows):
		t = before.Task
		t.Trashed = true
	case err != nil:
		return nil, false, err
	}
	live, err := collect(ctx, tx, scanClaim, "SELECT body FROM claims WHERE task_id = ? AND state <> 'ended'", id)
	if err != nil {
		return nil, false, err
	}
	marks, err := collect(ctx, tx, scanMark, "SELECT body FROM marks WHERE task_id = ? AND ended = 0", id)
	if err != nil {
		return nil, false, err
	}
	state, err := stateOf(ctx, tx, t)
	return &state, feed.Settled(t, live, marks), err
}

// stateOf returns the state of t, whose dependencies are as the mirror has them.
func stateOf(ctx context.Context, tx *tx, t task.Task) (feed.State, error) {
	var failed error
	blockers := task.Unfinished(t, func(on task.ID) (task.Status, bool) {
		known, err := scanTask(tx.QueryRowContext(ctx, "SELECT body FROM tasks WHERE id = ?", on))
		if errors.Is(err, sql.ErrNoRows) {
			return "", false
		}
		failed = errors.Join(failed, err)
		return known.Status, !known.Trashed
	})
	s := feed.NewState(t, blockers)
	if failed != nil {
		return s, failed
	}
	return s, withoutCopy(ctx, tx, &s)
}

// withoutCopy takes out of a state the claim that it shows, if that is a copy of one on
// another task: whose it is has nothing to do with this task.
func withoutCopy(ctx context.Context, tx *tx, s *feed.State) error {
	id := claim.ParseToken(s.Token).ID
	if id == "" {
		return nil
	}
	var agent string
	err := tx.QueryRowContext(ctx, `
		SELECT agent FROM claims WHERE id = ?1 AND task_id <> ?2
		 UNION ALL SELECT agent FROM marks WHERE id = ?1 AND task_id <> ?2
		 LIMIT 1`, id, s.ID).Scan(&agent)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	s.Token = ""
	if s.ClaimedBy != agent {
		return nil
	}
	s.ClaimedBy, s.ClaimedAt = "", time.Time{}
	if s.Status == task.InProgress {
		s.Status = task.Open // nobody is at work on it
	}
	return nil
}

// stateBody is a state as its row's body holds it.
type stateBody struct {
	taskBody
	Ready bool `json:"ready,omitempty"`
}

func lastTold(ctx context.Context, tx *tx, id task.ID) (*feed.State, error) {
	var body []byte
	err := tx.QueryRowContext(ctx, "SELECT body FROM told WHERE task_id = ? AND body <> ''", id).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s stateBody
	if err := json.Unmarshal(body, &s); err != nil {
		return nil, fmt.Errorf("the body of a state: %w", err)
	}
	return &feed.State{Task: s.Whole(), Ready: s.Ready}, nil
}

// remember stores the state that was told, and marks the tasks that depend on
// the task if they may be ready because of it, or no longer.
func remember(ctx context.Context, tx *tx, at time.Time, before *feed.State, after feed.State) (marked bool, err error) {
	body, err := json.Marshal(stateBody{bodyOf(after.Task), after.Ready})
	if err != nil {
		return false, err
	}
	var since time.Time
	if after.Ready {
		since = at // or it is so already
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO told (task_id, at, ready, since, body, due) VALUES (?, ?, ?, ?, ?, 0)
		    ON CONFLICT (task_id) DO UPDATE
		   SET at = excluded.at, ready = excluded.ready, body = excluded.body, due = 0,
		       since = CASE WHEN told.ready = 1 AND excluded.ready = 1 THEN told.since ELSE excluded.since END`,
		after.ID, millis(at), flag(after.Ready), millis(since), string(body))
	if err != nil {
		return false, err
	}
	if err := dependOn(ctx, tx, before, after); err != nil {
		return false, err
	}
	if completed(before) == completed(&after) {
		return false, nil
	}
	n, err := affect(ctx, tx, tellLater+" SELECT task_id, 0, 0, 0, '', 1 FROM dependencies WHERE on_id = ? "+tellAgain, after.ID)
	return n > 0, err
}

func completed(s *feed.State) bool {
	return s != nil && !s.Trashed && s.Status == task.Completed
}

// dependOn notes what an unfinished task depends on.
func dependOn(ctx context.Context, tx *tx, before *feed.State, after feed.State) error {
	if before != nil && len(before.DependsOn) > 0 {
		if _, err := tx.ExecContext(ctx, "DELETE FROM dependencies WHERE task_id = ?", after.ID); err != nil {
			return err
		}
	}
	if after.Trashed || after.Status.Finished() {
		return nil
	}
	for _, on := range after.DependsOn {
		_, err := tx.ExecContext(ctx, "INSERT INTO dependencies (on_id, task_id) VALUES (?, ?) ON CONFLICT DO NOTHING", on, after.ID)
		if err != nil {
			return err
		}
	}
	return nil
}

// tellLater and tellAgain are the ends of a statement that notes that there may be something to
// tell of tasks.
const (
	tellLater = "INSERT INTO told (task_id, at, ready, since, body, due)"
	tellAgain = "ON CONFLICT (task_id) DO UPDATE SET due = 1 WHERE told.due = 0"
)

// forget takes the task off the list of those to be told of.
func forget(ctx context.Context, tx *tx, id task.ID) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM told WHERE task_id = ? AND body = ''", id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "UPDATE told SET due = 0 WHERE task_id = ? AND due = 1", id)
	return err
}
