package daemon

import (
	"context"
	"time"

	"dibs/internal/claim"
	"dibs/internal/inbox"
	"dibs/internal/task"
)

// answered looks at the tasks that agents have asked about: they are told of those that
// people have opened again, and no more of those that are gone. It costs no requests.
func (d *works) answered(ctx context.Context) error {
	questions, err := d.journal.Questions(ctx)
	if err != nil {
		return err
	}
	told := 0
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
		told += n
	}
	if told > 0 {
		d.broker.Published()
	}
	return nil
}

// page is one whose comments are for an agent.
type page struct {
	// key is what it is remembered by when its comments were asked for.
	key   string
	agent string
	task  task.Task
	since time.Time // those from before are not
	// question is the one that they may answer; nil for a task that the agent holds.
	question *inbox.Question
}

// pages are those whose comments an agent is to be told of: of the tasks that it holds,
// and of those that it has asked people about.
func (e *ears) pages(ctx context.Context, agent string) ([]page, error) {
	d := e.daemon
	var pages []page
	for _, cl := range d.claimer.Claims(agent) {
		if cl.State == claim.Held {
			pages = append(pages, page{key: string(cl.ID), agent: agent, task: cl.Task, since: cl.Started})
		}
	}
	questions, err := d.journal.Questions(ctx)
	if err != nil {
		return pages, err
	}
	for _, q := range questions {
		if t, known := d.mirror.Task(q.Task); known && q.Agent == agent {
			pages = append(pages, page{key: q.ID, agent: agent, task: t, since: q.At, question: &q})
		}
	}
	return pages, nil
}
