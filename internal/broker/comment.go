package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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

// comment completes f for its comment, if there is to be one: when an agent says why it could not
// go on, or asks a person to decide. f.Mention, the agent's wording, becomes the user's id. If it
// cannot, the error is an *InvalidError, and f must not be carried out.
func (b *Broker) comment(ctx context.Context, f claim.Finish) (claim.Finish, error) {
	mention := strings.TrimSpace(f.Mention)
	hasText := strings.TrimSpace(f.Summary) != ""
	switch {
	case f.Ask && !hasText:
		return f, &InvalidError{"the question is empty: say what you want to know"}
	case mention != "" && !b.comments.On() && !f.Ask:
		return f, &InvalidError{"nobody can be mentioned, because no comments are made: set notion.comments to true, or leave the mention out"}
	case mention != "" && !hasText:
		return f, &InvalidError{"nobody can be mentioned without a reason: say in the reason what the person is to know"}
	}
	if !hasText || !b.comments.On() && !f.Ask || f.As != claim.EndBlocked && f.As != claim.EndFailed && f.As != claim.EndReview {
		return f, nil
	}
	f.Comment, f.Mention = true, ""
	if mention == "" {
		return f, nil
	}
	who, err := b.person(ctx, mention)
	f.Mention = who.ID
	return f, err
}

// person finds the person with that name, e-mail address or id.
func (b *Broker) person(ctx context.Context, who string) (Person, error) {
	var people []Person
	for _, anew := range []bool{false, true} {
		var err error
		if people, err = b.comments.People(ctx, anew); err != nil {
			return Person{}, fmt.Errorf("who %q is cannot be looked up, and nothing was done: %w", who, err)
		}
		switch found := named(people, who); len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return Person{}, &InvalidError{fmt.Sprintf("%q could be %s: name the person by e-mail address or id", who, listed(found))}
		}
	}
	var near []Person
	for _, p := range people {
		if strings.Contains(strings.ToLower(p.Name), strings.ToLower(strings.TrimPrefix(who, "@"))) {
			near = append(near, p)
		}
	}
	switch {
	case len(near) > 0:
		return Person{}, &InvalidError{fmt.Sprintf("nobody in the workspace is called %q: it could be %s", who, listed(near))}
	case len(people) == 0:
		return Person{}, &InvalidError{fmt.Sprintf("nobody in the workspace is called %q: the connection sees no people there", who)}
	}
	return Person{}, &InvalidError{fmt.Sprintf("nobody in the workspace is called %q: there is %s", who, listed(people))}
}

// named returns the people with that name, e-mail address or id: exact matches, or else those whose
// name differs only in case.
func named(people []Person, who string) []Person {
	id, err := task.ParseID(who)
	name := strings.TrimPrefix(who, "@")
	var exact, folded []Person
	for _, p := range people {
		other, perr := task.ParseID(p.ID)
		switch {
		case err == nil && perr == nil && id == other, p.Name == name, strings.EqualFold(p.Email, who) && who != "":
			exact = append(exact, p)
		case strings.EqualFold(p.Name, name):
			folded = append(folded, p)
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return folded
}

// maxNamed is how many candidates a message lists.
const maxNamed = 5

// listed lists people so that they can be distinguished.
func listed(people []Person) string {
	var names []string
	for _, p := range slices.SortedFunc(slices.Values(people), func(a, b Person) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) }) {
		if len(names) == maxNamed {
			return strings.Join(names, ", ") + fmt.Sprintf(", or one of %d more", len(people)-maxNamed)
		}
		names = append(names, fmt.Sprintf("%s (%s)", task.OneLine(p.Name, -1), cmp.Or(p.Email, p.ID)))
	}
	return strings.Join(names, ", ")
}

// Person returns the id of the Notion user with that name, e-mail address or id. The error is an
// *InvalidError, or that of a request to Notion.
func (b *Broker) Person(ctx context.Context, who string) (string, error) {
	p, err := b.person(ctx, who)
	return p.ID, err
}
