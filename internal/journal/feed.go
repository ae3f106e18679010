package journal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/journal/news"
	"dibs/internal/task"
)

// Feed returns the facts that f selects by Told, Agent, Task and Limit, as agents see them, in the
// order of publication. They became visible in that order, too.
func (j *Journal) Feed(ctx context.Context, f claim.FactFilter) ([]claim.Fact, error) {
	query, args := "SELECT told, body FROM facts WHERE told > ?", []any{f.Told}
	if f.Task != "" {
		query, args = query+" AND task_id = ?", append(args, f.Task)
	}
	if f.Agent != "" {
		query, args = query+" AND ? IN (agent, holder)", append(args, f.Agent)
	}
	query, args = query+" ORDER BY told"+upTo, append(args, atMost(f.Limit))
	facts, err := collect(ctx, j.readers, scanPublished, query, args...)
	return facts, j.failed(err, "reading the feed")
}

func scanPublished(row scanner) (claim.Fact, error) {
	var told int64
	var body []byte
	if err := row.Scan(&told, &body); err != nil {
		return claim.Fact{}, err
	}
	f, err := fromBody[claim.Fact](body, "fact")
	f.Told = told
	return news.ForAgents(f), err
}

// FeedBounds returns the number of the last fact published, and of the last one pruned; 0 for
// none.
func (j *Journal) FeedBounds(ctx context.Context) (last, pruned int64, err error) {
	err = j.readers.QueryRowContext(ctx, `
		SELECT coalesce((SELECT max(told) FROM facts WHERE told IS NOT NULL), 0),
		       coalesce((SELECT min(told) - 1 FROM facts WHERE told IS NOT NULL), 0)`).
		Scan(&last, &pruned)
	return last, pruned, j.failed(err, "reading the feed")
}

// Unpublished returns the first tasks after that id, by id, that may have news for the feed.
func (j *Journal) Unpublished(ctx context.Context, after task.ID, limit int) ([]task.ID, error) {
	ids, err := collect(ctx, j.readers, scanString, "SELECT task_id FROM told WHERE due = 1 AND task_id > ? ORDER BY task_id"+upTo, after, atMost(limit))
	out := make([]task.ID, len(ids))
	for i, id := range ids {
		out[i] = task.ID(id)
	}
	return out, j.failed(err, "reading which tasks may have news")
}

// Publish compares the given tasks in the mirror with what was last published of them, and
// adds the difference to the feed. It returns whether there may be more to publish, of tasks
// that depend on these. It leaves a task for later while a claim on it here is in a state that
// may still change the page, see [news.Stable].
//
// Until BeginFeed is called, it only notes the state of each task, once. So whatever happens to
// a task after that is published as soon as the feed has begun.
func (j *Journal) Publish(ctx context.Context, at time.Time, ids []task.ID) (more bool, err error) {
	err = j.writeMany(ctx, len(ids), func(tx *tx) error {
		more = false
		for _, id := range ids {
			again, err := j.publish(ctx, tx, id, at)
			if err != nil {
				return fmt.Errorf("task %s: %w", id, err)
			}
			more = more || again
		}
		return nil
	})
	return more, j.failed(err, "publishing the news of %d tasks", len(ids))
}

// metaFeed is the key of the note that the feed has begun.
const metaFeed = "feed.begun"

// BeginFeed ends the time in which tasks are noted without being published: whatever the
// mirror shows before is no news. The protocol's own facts were published meanwhile; other
// changes to noted tasks are Unpublished.
func (j *Journal) BeginFeed(ctx context.Context) error { return j.SetMeta(ctx, metaFeed, "yes") }

// FeedBegun reports whether BeginFeed was ever called, by this process or an earlier one.
func (j *Journal) FeedBegun(ctx context.Context) (bool, error) {
	begun, err := j.Meta(ctx, metaFeed)
	return begun != "", err
}

// record stores facts of the protocol, and publishes these and the changes of state that they
// caused.
func (j *Journal) record(ctx context.Context, tx *tx, record []claim.Fact) error {
	for len(record) > 0 {
		n := 1
		for n < len(record) && record[n].Task == record[0].Task {
			n++
		}
		if _, err := j.publish(ctx, tx, record[0].Task, record[0].At, record[:n]...); err != nil {
			return err
		}
		record = record[n:]
	}
	return nil
}

// publish stores what the protocol recorded of one task, and adds its news to the feed. It
// returns whether tasks that depend on it may have news now.
func (j *Journal) publish(ctx context.Context, tx *tx, id task.ID, at time.Time, record ...claim.Fact) (more bool, err error) {
	before, err := lastPublished(ctx, tx, id)
	if err != nil {
		return false, err
	}
	begun, err := readMeta(ctx, tx, metaFeed)
	if err != nil || begun == "" && before != nil && len(record) == 0 {
		return false, err // nothing until the feed begins
	}
	first := begun == "" && before == nil
	var p page
	// Facts recorded without Notion say nothing about the page.
	if len(record) == 0 || slices.ContainsFunc(record, func(e claim.Fact) bool { return e.Remote }) {
		if p, err = pageOf(ctx, tx, id, before, first); err != nil {
			return false, err
		}
	}
	e := edition{before, p.settled, p.settled}
	if first {
		e = p.first(len(record) > 0)
	}
	record, changed := news.Compose(e.before, e.after, record)
	if err := insertRecord(ctx, tx, record...); err != nil {
		return false, err
	}
	if err := reopenedSince(ctx, tx, id, changed); err != nil {
		return false, err
	}
	if err := insertNews(ctx, tx, at, changed); err != nil {
		return false, err
	}
	if err := j.triggerOf(ctx, tx, inbox.News{At: at, Before: e.before, After: e.after, Record: record, Changed: changed}, p.settled); err != nil {
		return false, err
	}
	switch {
	case p.absent:
		return false, clearDue(ctx, tx, id)
	case e.published == nil:
		return false, nil
	}
	// Agents that polled before the feed began already know of the tasks there.
	if begun != "" {
		if err := j.available(ctx, tx, at, before, *e.published); err != nil {
			return false, err
		}
	}
	return storePublished(ctx, tx, at, e.before, *e.published)
}

// page is a task as the mirror shows it. It is empty if nobody looked.
type page struct {
	settled   *news.State // nil while a claim here may still change the page, see [news.Stable]
	unclaimed *news.State // without the claim on it; for [page.first] alone
	absent    bool        // there is nothing to publish of it
}

// edition says what to publish of a task.
type edition struct {
	before, after *news.State // their difference is news; nothing is news, but for the record, if after is nil
	published     *news.State // the state to compare with next time; nil to leave it as it is
}

// first returns what is published of a task for the first time before the feed has begun. What the
// mirror shows then is no news, but what the protocol recorded is. While a claim may still change the
// page, it counts as published without the claim, so that the claim's outcome is news.
//
//	              before      after     published
//	with a record unclaimed   settled   settled, or else unclaimed
//	without       -           -         settled, or else unclaimed
func (p page) first(recorded bool) edition {
	e := edition{published: cmp.Or(p.settled, p.unclaimed)}
	if recorded {
		e.before, e.after = p.unclaimed, p.settled
	}
	return e
}

// pageOf returns a task as the mirror shows it; without the claim, too, if first is set.
func pageOf(ctx context.Context, tx *tx, id task.ID, before *news.State, first bool) (p page, err error) {
	t, err := scanTask(tx.QueryRowContext(ctx, "SELECT body FROM tasks WHERE id = ?", id))
	switch {
	case errors.Is(err, sql.ErrNoRows) && (before == nil || before.Status.Finished()):
		return page{absent: true}, nil // it was never published, or was finished and pruned
	case errors.Is(err, sql.ErrNoRows):
		t = before.Task
		t.Trashed = true
	case err != nil:
		return page{}, err
	}
	live, err := collect(ctx, tx, scanClaim, "SELECT body FROM claims WHERE task_id = ? AND state <> 'ended'", id)
	if err != nil {
		return page{}, err
	}
	marks, err := collect(ctx, tx, scanMark, "SELECT body FROM marks WHERE task_id = ? AND ended = 0", id)
	if err != nil {
		return page{}, err
	}
	state, err := stateOf(ctx, tx, t)
	if err != nil {
		return page{}, err
	}
	if news.Stable(t, live, marks) {
		p.settled = &state
	}
	if first {
		unclaimed, err := stateOf(ctx, tx, state.Unclaimed().Task)
		if err != nil {
			return page{}, err
		}
		p.unclaimed = &unclaimed
	}
	return p, nil
}

// triggerOf stores the triggers that news of a task cause. known is the task's state, nil if
// it is not stable.
func (j *Journal) triggerOf(ctx context.Context, tx *tx, n inbox.News, known *news.State) error {
	offered, err := storeOffer(ctx, tx, known, n.Record)
	if err != nil {
		return err
	}
	n.Offered = offered
	if slices.ContainsFunc(n.Changed, func(f claim.Fact) bool { return f.Kind == claim.KindCompleted }) {
		if n.Leads, err = collect(ctx, tx, scanString, "SELECT agent FROM pollers WHERE lead = 1 OR finished = 1"); err != nil {
			return err
		}
	}
	_, err = insertTriggers(ctx, tx, inbox.Of(n)...)
	return err
}

// storeOffer stores an offer that the record makes, or ends the one there is once the task is no
// longer assigned to its agent. It returns the agent that the task is offered to, if any.
func storeOffer(ctx context.Context, tx *tx, known *news.State, record []claim.Fact) (to string, err error) {
	for _, e := range record {
		t, ok := inbox.Offered(e, known)
		if !ok {
			continue
		}
		t.ID = inbox.NewID(e.At)
		o := inbox.Offer{ID: t.ID, Task: e.Task, From: t.From, To: t.Agent, At: e.At, Until: e.Expires}
		if err := kindOffer.put(ctx, tx, string(e.Task), "", o); err != nil {
			return "", err
		}
		_, err := insertTriggers(ctx, tx, t)
		return t.Agent, err
	}
	if known == nil {
		return "", nil
	}
	o, ok, err := find[inbox.Offer](ctx, tx, kindOffer, string(known.ID))
	switch {
	case err != nil || !ok:
		return "", err
	case claim.AssignedAgent(known.Task) == o.To:
		return o.To, nil
	}
	return "", endOffer(ctx, tx, known.ID)
}

// available tells every polling agent that there are tasks to claim again, if the task has
// become ready and is the only ready one.
func (j *Journal) available(ctx context.Context, tx *tx, at time.Time, before *news.State, after news.State) error {
	if !after.Ready || before != nil && before.Ready {
		return nil
	}
	var others bool
	err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM told WHERE ready = 1 AND task_id <> ?)", after.ID).Scan(&others)
	if err != nil || others {
		return err
	}
	agents, err := collect(ctx, tx, scanString, "SELECT agent FROM pollers WHERE polled > 0")
	for _, agent := range agents {
		if err == nil {
			_, err = insertTriggers(ctx, tx, inbox.Available(agent, at))
		}
	}
	return err
}
