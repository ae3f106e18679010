package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/journal/inbox"
	"dibs/internal/mirror"
	"dibs/internal/notion"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

const (
	// metaMessages is the key of the cursor: the time, Notion's, up to which the mesh log was read
	// for messages.
	metaMessages = "inbox.messages"
	// messagesOverlap is how far before the cursor each read begins: Notion keeps the time of a row
	// to the minute, and its queries have been seen two minutes behind.
	messagesOverlap = 5 * time.Minute
	// messagesFirst is how far back the first read goes.
	messagesFirst = 24 * time.Hour
)

// messages reads messages from a mesh log.
type messages interface {
	// Messages returns the rows made since then that may be messages, the oldest first.
	Messages(ctx context.Context, since time.Time) ([]wording.Row, error)
}

// listener fetches what was written in Notion for agents, while an agent polls.
type listener struct {
	notion   *notion.Client
	mesh     messages // nil if the mesh log cannot be queried
	mirror   *mirror.Mirror
	journal  *journal.Journal
	claimer  *claim.Claimer
	names    func(context.Context) ([]string, error) // of all agents
	every    time.Duration                           // inbox.comments
	interval func() time.Duration                    // between two reads of messages
	keep     func() time.Duration                    // events.keep
	log      *slog.Logger

	turn         chan struct{}        // holds a value while Notion is asked, by whoever uses what is below
	asked        time.Time            // when the last read of messages began
	failed       bool                 // the last read of messages failed
	commentsRead map[string]time.Time // when a page's comments were last read, by page.key
	refused      time.Time            // no comments are read until then, because Notion refused
}

// listen implements broker.Listen. It sends one query per interval for everybody's messages, and
// one per inbox.comments for the comments on each task that the agent holds.
func (e *listener) listen(ctx context.Context, agent string) (added int, next time.Duration) {
	next = e.interval()
	if e.notion.Down() != nil {
		return 0, next
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return 0, next
	}
	if since := time.Since(e.asked); e.mesh == nil {
		// messages cannot be read
	} else if since < next {
		next -= since
	} else {
		e.asked = time.Now()
		var err error
		added, err = e.read(ctx)
		if err != nil && ctx.Err() == nil && !e.failed {
			e.log.Warn("messages in the mesh log could not be read; they will be with a later poll", claim.AttrError, err)
		}
		e.failed = err != nil
	}
	commented, again := e.comments(ctx, agent)
	return added + commented, min(next, again)
}

// refusedFor is how long comments are not read after Notion refused to show them.
const refusedFor = time.Hour

// comments stores new comments for an agent as triggers, and returns when to ask again. Comment ids
// make sure that each is delivered once.
func (e *listener) comments(ctx context.Context, agent string) (added int, next time.Duration) {
	next = e.every
	pages, err := e.pages(ctx, agent)
	if err != nil && ctx.Err() == nil {
		e.log.Warn("what agents have asked people could not be read", claim.AttrError, err)
	}
	for key, at := range e.commentsRead {
		if time.Since(at) > e.every {
			delete(e.commentsRead, key)
		}
	}
	for _, p := range pages {
		if at, ok := e.commentsRead[p.key]; ok {
			next = min(next, max(time.Second, e.every-time.Since(at)))
			continue
		}
		added += e.ask(ctx, p)
	}
	return added, next
}

const (
	// hearTime limits how long hear takes, and hearMost how many pages it reads.
	hearTime = 5 * time.Second
	hearMost = 20
)

// hear reads the comments on those of the tasks that an agent holds or has asked about. It does not
// wait for inbox.comments; what it does not get to, that brings.
func (e *listener) hear(ctx context.Context, tasks map[task.ID]bool) (added int, err error) {
	if err := cmp.Or(e.notion.Down(), e.notion.Paused()); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(notion.Impatient(ctx), hearTime)
	defer cancel()
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	pages, err := e.pages(ctx, "")
	if err != nil {
		return 0, err
	}
	asked := 0
	for _, p := range pages {
		if tasks[p.task.ID] && asked < hearMost {
			added += e.ask(ctx, p)
			asked++
		}
	}
	return added, nil
}

// ask reads the comments on a page now, unless Notion refused to show any. It returns the number of
// new triggers.
func (e *listener) ask(ctx context.Context, p page) int {
	if time.Now().Before(e.refused) || ctx.Err() != nil {
		return 0
	}
	if e.commentsRead == nil {
		e.commentsRead = make(map[string]time.Time)
	}
	e.commentsRead[p.key] = time.Now()
	added, err := e.comment(ctx, p)
	if failed, ok := errors.AsType[*claim.StoreError](err); ok && failed.Kind == claim.Refused {
		e.refused = time.Now().Add(refusedFor)
	}
	if err != nil && ctx.Err() == nil {
		// At debug: that Notion refuses, or is down, has a line of its own, and this would come
		// with every poll.
		e.log.Debug("the comments on a task could not be read", claim.AttrKey, p.task.Key, claim.AttrTitle, claim.Brief(p.task.Title), claim.AttrTask, p.task.ID, claim.AttrError, err)
	}
	return added
}

// comment stores the comments on a page that are for an agent. A comment signed with an agent's
// name was written by a daemon and is skipped.
func (e *listener) comment(ctx context.Context, p page) (added int, err error) {
	found, err := e.notion.Comments(ctx, p.task.ID)
	if err != nil {
		return 0, err
	}
	known, err := e.names(ctx)
	if err != nil {
		return 0, err
	}
	var triggers []inbox.Trigger
	for _, c := range found {
		if c.At.Before(p.since.Truncate(time.Minute)) || c.Named && slices.Contains(known, c.By) {
			continue
		}
		triggers = append(triggers, inbox.Trigger{
			Type: inbox.Comment, Agent: p.agent, At: c.At, Task: p.task, From: task.OneLine(c.By, -1), Text: c.Text, Key: "comment " + c.ID,
		})
	}
	if p.question != nil && p.question.Last {
		return e.journal.SetQuestion(ctx, *p.question, true, triggers...)
	}
	if len(triggers) == 0 {
		return 0, nil
	}
	return e.journal.AddTriggers(ctx, triggers...)
}

// read stores the messages written since the last read. Page ids make sure that each is delivered
// once.
func (e *listener) read(ctx context.Context) (added int, err error) {
	now := e.notion.Now()
	since := now.Add(-messagesFirst)
	last, err := e.journal.Meta(ctx, metaMessages)
	if err != nil {
		return 0, err
	}
	if t, err := time.Parse(time.RFC3339, last); err == nil {
		since = t.Add(-messagesOverlap)
	}
	// Older ones may have been pruned, and would be delivered again.
	if oldest := now.Add(-e.keep() + messagesOverlap); since.Before(oldest) {
		since = oldest
	}
	rows, err := e.mesh.Messages(ctx, since)
	if err != nil {
		return 0, err
	}
	known, err := e.names(ctx)
	if err != nil {
		return 0, err
	}
	var triggers []inbox.Trigger
	for _, row := range rows {
		if event, ok := wording.ParseMessageID(row.EntryID); ok {
			ours, err := e.journal.Recorded(ctx, event)
			if err != nil {
				return 0, err
			}
			if ours {
				continue // its triggers were stored when it was sent
			}
		}
		triggers = append(triggers, inbox.Messages(row, known)...)
	}
	if len(triggers) > 0 {
		if added, err = e.journal.AddTriggers(ctx, triggers...); err != nil {
			return 0, err
		}
	}
	return added, e.journal.SetMeta(ctx, metaMessages, now.UTC().Format(time.RFC3339))
}

// page is a page whose comments are for an agent.
type page struct {
	// key identifies the page in listener.commentsRead.
	key   string
	agent string
	task  task.Task
	since time.Time // earlier comments are not for the agent
	// question is what the comments may answer; nil for a task that the agent holds.
	question *inbox.Question
}

// pages returns the pages of the tasks that an agent holds, and of those about which it asked
// people. An empty agent means all.
func (e *listener) pages(ctx context.Context, agent string) ([]page, error) {
	var pages []page
	for _, cl := range e.claimer.Claims(agent) {
		if cl.State == claim.Held {
			pages = append(pages, page{key: string(cl.ID), agent: cl.Agent, task: cl.Task, since: cl.Started})
		}
	}
	questions, err := e.journal.Questions(ctx)
	if err != nil {
		return pages, err
	}
	for _, q := range questions {
		if t, known := e.mirror.Task(q.Task); known && (q.Agent == agent || agent == "") {
			pages = append(pages, page{key: q.ID, agent: q.Agent, task: t, since: q.At, question: &q})
		}
	}
	return pages, nil
}
