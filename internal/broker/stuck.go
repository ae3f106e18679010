package broker

import (
	"context"
	"encoding/json"
	"errors"
	"maps"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

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
	said, err := b.journal.Meta(ctx, metaTold)
	if err != nil {
		return nil, err
	}
	before := make(map[task.ID]string)
	if said != "" {
		if err := json.Unmarshal([]byte(said), &before); err != nil {
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
	if said != "" && maps.Equal(before, now) {
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
