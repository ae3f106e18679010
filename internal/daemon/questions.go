package daemon

import (
	"context"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/task"
)

// answered checks the tasks about which agents asked people. An agent hears of a task that a person
// opened again; the question ends with its task. This costs no requests.
func (d *works) answered(ctx context.Context) error {
	questions, err := d.journal.Questions(ctx)
	if err != nil {
		return err
	}
	added := 0
	for _, q := range questions {
		t, known := d.mirror.Task(q.Task)
		next, opened, over := q.See(t, known, d.notion.Now())
		if next == q && !over {
			continue
		}
		var news []inbox.Trigger
		if opened != nil {
			news = append(news, *opened)
		}
		n, err := d.journal.SetQuestion(ctx, next, over, news...)
		if err != nil {
			return err
		}
		added += n
	}
	if added > 0 {
		d.broker.Published()
	}
	return nil
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
	d := e.daemon
	var pages []page
	for _, cl := range d.claimer.Claims(agent) {
		if cl.State == claim.Held {
			pages = append(pages, page{key: string(cl.ID), agent: cl.Agent, task: cl.Task, since: cl.Started})
		}
	}
	questions, err := d.journal.Questions(ctx)
	if err != nil {
		return pages, err
	}
	for _, q := range questions {
		if t, known := d.mirror.Task(q.Task); known && (q.Agent == agent || agent == "") {
			pages = append(pages, page{key: q.ID, agent: q.Agent, task: t, since: q.At, question: &q})
		}
	}
	return pages, nil
}
