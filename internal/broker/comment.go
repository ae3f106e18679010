package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/task"
)

// commentWait is how long Comment waits for the comment to be on the page.
const commentWait = 5 * time.Second

// Comment puts a comment on a task's page, once for each key. A comment that cannot be delivered now
// is owed to Notion, and delivered later. The error is an *InvalidError, ErrNoTask, or a
// *claim.StoreError if the person to mention cannot be looked up; then nothing is written.
func (b *Broker) Comment(ctx context.Context, who Caller, in *api.TaskInput[api.CommentRequest]) (api.Commented, error) {
	r := in.Body
	if strings.TrimSpace(r.Text) == "" {
		return api.Commented{}, &InvalidError{"the comment is empty: say something"}
	}
	if len(r.Text) > inbox.MaxText || !utf8.ValidString(r.Text) {
		return api.Commented{}, &InvalidError{fmt.Sprintf("the comment has %d bytes: want text of at most %d KiB", len(r.Text), inbox.MaxText>>10)}
	}
	t, known := b.mirror.Task(task.ID(in.ID))
	if !known {
		id, err := b.Named(ctx, in.ID)
		if err != nil {
			return api.Commented{}, err
		}
		t = task.Task{ID: id}
	}
	if t.Trashed {
		return api.Commented{}, fmt.Errorf("%w: %q is in the trash", ErrNoTask, t.Title)
	}
	e := claim.Fact{At: b.now(), Kind: claim.KindCommented, Task: t.ID, Key: t.Key, Title: t.Title, URL: t.URL, Agent: r.Agent, By: who.signs(r.Agent), Summary: r.Text, Comment: true}
	e.ID = who.factID(e.At, r.Agent, in.ID, r.Mention, r.Text)
	if r.Mention != "" {
		who, err := b.person(ctx, strings.TrimSpace(r.Mention))
		if err != nil {
			return api.Commented{}, err
		}
		e.Mention = who.ID
	}
	if err := b.journal.Record(context.WithoutCancel(ctx), e); err != nil {
		return api.Commented{}, err
	}
	delivered, why, err := b.delivery(ctx, e.ID)
	return api.Commented{
		Task: b.ref(t), Comment: api.Comment{By: cmp.Or(e.Agent, e.By), At: b.time(e.At), Text: r.Text},
		Owed: !delivered, Detail: api.Saying(errors.New(why)),
	}, err
}

// delivery waits until a comment is on its page. If it is not, why is the reason.
func (b *Broker) delivery(ctx context.Context, event string) (delivered bool, why string, err error) {
	deadline := time.After(commentWait)
	for {
		more := b.delivered.next()
		if delivered, why, err = b.journal.Delivery(ctx, event, claim.Comments); err != nil || delivered || why != "" {
			return delivered, why, err
		}
		select {
		case <-more:
		case <-deadline:
			return false, "Notion has not answered yet", nil
		case <-b.closed:
			return false, "the daemon is stopping", nil
		case <-ctx.Done():
			return false, "", context.Cause(ctx)
		}
	}
}

// Delivered wakes calls of Comment: a log entry was delivered, or could not be.
func (b *Broker) Delivered() { b.delivered.fire() }
