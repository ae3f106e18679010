package journal

import (
	"context"
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/journal/news"
)

// triggerOf stores the triggers that news of a task cause. known is the task's state, nil if
// it is not stable.
func (j *Journal) triggerOf(ctx context.Context, tx *tx, n inbox.News, known *news.State) error {
	offered, err := offer(ctx, tx, known, n.Record)
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

// offer stores an offer that the record makes, or ends the one there is once the task is no
// longer assigned to its agent. It returns the agent that the task is offered to, if any.
func offer(ctx context.Context, tx *tx, known *news.State, record []claim.Fact) (to string, err error) {
	for _, e := range record {
		t, ok := inbox.Offered(e, known)
		if !ok {
			continue
		}
		t.ID = inbox.NewID(e.At)
		o := inbox.Offer{ID: t.ID, Task: e.Task, From: t.From, To: t.Agent, At: e.At, Until: e.Expires}
		if err := keptOffer.keep(ctx, tx, string(e.Task), "", o); err != nil {
			return "", err
		}
		_, err := insertTriggers(ctx, tx, t)
		return t.Agent, err
	}
	if known == nil {
		return "", nil
	}
	o, ok, err := kept[inbox.Offer](ctx, tx, keptOffer, string(known.ID))
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
