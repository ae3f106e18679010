package broker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

// batch is how many events are read at a time.
const batch = 100

// Events returns the first events that in selects, in the order of their ids. If there is none, it
// waits up to wait for one. If in.After names an event that was pruned or never existed, the first
// event is an api.Gap, which says so. next is the id to continue after. The error is ErrStopping if
// the daemon stops meanwhile.
func (b *Broker) Events(ctx context.Context, in api.EventsInput, wait time.Duration) (events []api.Event, next int64, err error) {
	if wait > 0 && !in.Patient {
		defer b.mirror.Await()()
	}
	err = b.await(ctx, wait, func() (done bool, err error) {
		more, next, err := b.read(ctx, claim.FactFilter{Told: in.After, Agent: in.Agent, Task: task.ID(in.Task), Limit: batch})
		if err == nil {
			events, in.After = each(more, b.event), next
		}
		return len(more) > 0, err
	})
	return events, in.After, err
}

func (b *Broker) event(e claim.Fact) api.Event {
	out := api.Event{
		ID: e.Told, At: b.time(e.At), Kind: api.EventKind(e.Kind),
		Agent: e.Agent, By: e.By, Holder: e.Holder, Claim: e.Claim, Changed: e.Changed,
		ExpiresAt: b.time(e.Expires), Detail: api.Collapse(e.Detail), Summary: e.Summary,
		Reservation: e.Reservation, Patterns: e.Patterns, Shared: e.Shared,
	}
	if e.Task != "" {
		out.Task = new(b.ref(task.Task{ID: e.Task, Title: e.Title, URL: e.URL, Status: e.Status, Priority: e.Priority}))
	}
	return out
}

// journalRetry is how often a waiting call asks a journal that cannot be reached.
const journalRetry = time.Second

// await calls check until it is done: at once, after every new event, and once more when the wait
// is over. While the journal cannot be reached, it keeps waiting: nothing new can be stored there.
func (b *Broker) await(ctx context.Context, wait time.Duration, check func() (done bool, err error)) error {
	over := time.NewTimer(wait)
	defer over.Stop()
	for last := wait <= 0; ; {
		more := b.published.next()
		done, err := check()
		var again <-chan time.Time
		if wait > 0 && unreachable(err) {
			err, again = nil, time.After(journalRetry)
		}
		if done || err != nil || last {
			return err
		}
		select {
		case <-more:
		case <-again:
		case <-over.C:
			last = true
		case <-b.closed:
			return ErrStopping
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// read returns the first events that f selects, and the id to continue after.
func (b *Broker) read(ctx context.Context, f claim.FactFilter) (events []claim.Fact, next int64, err error) {
	last, pruned, err := b.feed.FeedBounds(ctx)
	if err != nil || f.Told == api.EventsFuture {
		return nil, last, err
	}
	if f.Told > last || 0 < f.Told && f.Told < pruned {
		events = append(events, b.gap(f.Told, last, pruned))
		f.Told = pruned
	}
	more, err := b.feed.Feed(ctx, f)
	if err != nil {
		return nil, 0, err
	}
	next = last
	if n := len(more); n > 0 && (n == f.Limit || more[n-1].Told > last) {
		next = more[n-1].Told
	}
	return append(events, more...), next, nil
}

// gap returns an event that says which events a reader has missed.
func (b *Broker) gap(after, last, pruned int64) claim.Fact {
	e := claim.Fact{Told: pruned, At: b.now(), Kind: api.Gap}
	if after > last {
		e.Detail = fmt.Sprintf("there is no event %d: the daemon's state was made anew; look at the tasks themselves", after)
	} else {
		e.Detail = fmt.Sprintf("events %d to %d are no longer kept; look at the tasks themselves", after+1, pruned)
	}
	return e
}

// Log returns entries of the local record, oldest first: the newest of them, or those after one.
func (b *Broker) Log(ctx context.Context, _ Caller, in *api.LogInput) (api.Log, error) {
	f := claim.FactFilter{Agent: in.Agent, Task: task.ID(in.Task), After: in.After, Seen: in.Seen, Limit: cmp.Or(in.Limit, 100)}
	var err error
	if in.Since != "" {
		if f.Since, err = time.Parse(time.RFC3339, in.Since); err != nil {
			return api.Log{}, api.Invalid("query.since", fmt.Errorf("%q is no time: want one such as 2026-11-25T15:00:00Z", in.Since))
		}
	}
	if in.Claim != "" {
		var ok bool
		if f.Claim, ok = claim.ParseID(in.Claim); !ok {
			return api.Log{}, api.Invalid("query.claim", fmt.Errorf("%q is not the id of a claim", in.Claim))
		}
	}
	if in.After != "" {
		if _, ok := claim.ParseID(in.After); !ok { // they have the same form
			return api.Log{}, api.Invalid("query.after", fmt.Errorf("%q is not the id of an entry", in.After))
		}
	}
	f.Newest = f.After == ""
	facts, err := b.journal.Facts(ctx, f)
	if err != nil {
		return api.Log{}, err
	}
	if f.Newest {
		slices.Reverse(facts)
	}
	return api.Log{Entries: each(facts, b.logEntry)}, nil
}

func (b *Broker) logEntry(e claim.Fact) api.LogEntry {
	return api.LogEntry{
		ID: e.ID, At: b.time(e.At), Kind: e.Kind,
		Task: e.Task, Key: e.Key, Title: e.Title, URL: e.URL,
		Agent: e.Agent, By: e.By, Claim: e.Claim,
		Code: e.Code, Holder: e.Holder, Against: e.Against, Remote: e.Remote, Detail: e.Detail,
		Started: b.time(e.Started), Finished: b.time(e.Finished), Summary: e.Summary,
		Count: e.Count, Names: e.Names, Expires: b.time(e.Expires), Usage: api.NewUsage(e.Used),
		Former: e.Former, Changed: e.Changed, Seen: e.Seen,
	}
}

// Story tells what happened to a task, or to one claim. It fails with
// claim.ErrUnknownClaim or ErrNoTask.
func (b *Broker) Story(ctx context.Context, _ Caller, in *api.StoryInput) (api.Story, error) {
	var t task.Task
	of, isClaim := claim.ParseID(in.ID)
	if isClaim {
		cl, err := b.claimer.Find(ctx, of)
		if err != nil {
			return api.Story{}, err
		}
		t = cl.Task
	} else {
		t.ID = task.ID(in.ID)
	}
	facts, err := b.journal.Facts(ctx, claim.FactFilter{Task: t.ID, Seen: true})
	if err != nil {
		return api.Story{}, err
	}
	if known, ok := b.mirror.Task(t.ID); ok {
		t = known
	} else if len(facts) > 0 { // it is no longer on the board
		for _, f := range facts {
			t.Key, t.Title, t.URL = cmp.Or(f.Key, t.Key), cmp.Or(f.Title, t.Title), cmp.Or(f.URL, t.URL)
			t.Status = cmp.Or(f.Status, t.Status, task.Unknown)
		}
	} else if !isClaim {
		return api.Story{}, ErrNoTask
	}
	return api.Story{Task: b.ref(t), Story: each(wording.Story(facts, of), func(s wording.Step) api.Step {
		return api.Step{At: b.time(s.At), Who: s.Who, What: s.What, Why: s.Why}
	})}, nil
}
