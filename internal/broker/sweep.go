package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// Sweep is the scheduled clean-up: it sets tasks back to OPEN whose holder went silent, so that a
// dead agent never keeps a task for good. It also tells the cards of tasks that can never become
// ready. It returns what it did, also with an error. The note, and the caller's user, are for the record.
func (b *Broker) Sweep(ctx context.Context, who Caller, in *api.KeyedInput[*api.SweepRequest]) (api.Sweep, error) {
	if err := b.mirror.Closed(); err != nil {
		return api.Sweep{}, err
	}
	b.alive.RunOnce(ctx) // after a standstill of the machine, leases are over whose agents live
	swept, err := sweep(ctx, noted{b.claimer, orZero(in.Body).Note, who.User}, silent(b.mirror.Tasks(), b.now(), b.claimer.Policy()), &b.troubles)
	for i := range swept {
		t, _ := b.mirror.Task(swept[i].Task)
		swept[i].Blocked = t.Status == task.Blocked
	}
	if len(swept) > 0 {
		b.Changed()
	}
	if err != nil && !claim.Asked(err) {
		return api.Sweep{Swept: orEmpty(swept)}, err
	}
	told, failed := b.tellStuck(ctx)
	return api.Sweep{Swept: orEmpty(swept), Told: told}, errors.Join(err, failed)
}

// silent returns the tasks that look stale at now: IN_PROGRESS with a lease that has ended. It
// judges by the mirror, so each has to be read again before it is touched.
func silent(tasks iter.Seq[task.Task], now time.Time, p claim.Policy) []task.Task {
	var out []task.Task
	for t := range tasks {
		if !t.Trashed && t.Status == task.InProgress && p.Stale(t, now) {
			out = append(out, t)
		}
	}
	return out
}

// sweeper reopens one task if its page still shows a stale claim.
type sweeper interface {
	Sweep(ctx context.Context, id task.ID) (former string, swept bool, err error)
}

// noted is a sweeper that records its sweeps with a note and the user that asked for them.
type noted struct {
	*claim.Claimer
	note, by string
}

func (n noted) Sweep(ctx context.Context, id task.ID) (former string, swept bool, err error) {
	return n.SweepFor(ctx, id, n.note, n.by)
}

// sweep reopens the tasks one by one, without those that are passed over. A failure does not stop
// it, unless it says that Notion cannot be reached, or there are so many that Notion must be the
// cause.
func sweep(ctx context.Context, c sweeper, tasks []task.Task, troubled *troubles) ([]api.Swept, error) {
	out := []api.Swept{}
	var errs []error
	failures := 0
	for _, t := range tasks {
		if troubled.passed(t.ID) {
			continue
		}
		former, swept, err := c.Sweep(ctx, t.ID)
		if err != nil {
			errs = append(errs, fmt.Errorf("task %q could not be swept: %w", t.Title, err))
		}
		if swept {
			out = append(out, api.Swept{Task: t.ID, Title: t.Title, Agent: former})
		}
		if err != nil {
			if failures++; !claim.Asked(err) || failures == maxTroubled {
				break
			}
			troubled.meet(t, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return out, errors.Join(errs...)
}

// metaTold is the key of what cards were told: a JSON object, from the id of a task to why it can
// never become ready.
const metaTold = "stuck_told"

// mostTold is how many cards one sweep tells, so that it leaves room for claims.
const mostTold = 20

// tellStuck tells the cards of tasks that can never become ready why, each once for each reason: on
// the note, or in a comment if the board has none. A person may take the words off. It returns the
// tasks that were told, also with an error.
func (b *Broker) tellStuck(ctx context.Context) (told []api.TaskRef, err error) {
	if b.mirror.Standing().Stale {
		return nil, nil // it may be over
	}
	bd := b.board()
	stored, err := b.journal.Meta(ctx, metaTold)
	if err != nil {
		return nil, err
	}
	before := make(map[task.ID]string)
	if stored != "" {
		if err := json.Unmarshal([]byte(stored), &before); err != nil {
			return nil, err
		}
	}
	now := make(map[task.ID]string)
	asks := true // whether Notion can be asked
	var errs []error
	for t := range bd.tasks {
		if t.Trashed || t.Status.Finished() || len(bd.waitsFor(t)) == 0 {
			continue
		}
		if was, ok := before[t.ID]; ok {
			now[t.ID] = was
		}
		why := ""
		if code, _ := bd.obstacle(t, ""); code == claim.CodeBlockedByDependency && t.Status == task.Open {
			why = bd.stuck(t)
		}
		if why == "" || why == now[t.ID] || len(told) == mostTold || !asks || b.troubles.passed(t.ID) {
			continue
		}
		done, err := b.tell(ctx, t, why)
		if err != nil {
			errs = append(errs, err)
			asks = claim.Asked(err) && len(errs) < maxTroubled
		}
		if done {
			now[t.ID] = why
			told = append(told, b.ref(t))
		}
	}
	if stored != "" && maps.Equal(before, now) {
		return told, errors.Join(errs...)
	}
	data, err := json.Marshal(now)
	if err == nil {
		err = b.journal.SetMeta(context.WithoutCancel(ctx), metaTold, string(data))
	}
	return told, errors.Join(append(errs, err)...)
}

// tell tells one card, and records that it did. done is false if it is to be told later.
func (b *Broker) tell(ctx context.Context, t task.Task, why string) (done bool, err error) {
	noted := !b.claimer.Policy().NoNote
	if noted {
		if done, err := b.claimer.Tell(ctx, t.ID, func(page task.Task) string { return b.present().stuck(page) }); err != nil || !done {
			return false, err
		}
	}
	e := claim.Fact{At: b.now(), Kind: claim.KindCommented, Task: t.ID, Key: t.Key, Title: t.Title, URL: t.URL, By: claim.Sweeper, Summary: why}
	e.Comment = !noted && b.comments.On()
	e.ID = Caller{UID: -1, Key: metaTold}.factID(e.At, string(t.ID), why)
	err = b.journal.Record(context.WithoutCancel(ctx), e)
	return err == nil, err
}
