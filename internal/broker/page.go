package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// content is a task's page, as written by anybody who may edit it.
type content struct {
	// text is the page as Markdown, missing names the parts it does not show, and cut is how many
	// characters were dropped at the end.
	text    string
	missing []string
	cut     int
	// textErr is why the text could not be read.
	textErr error
	// comments are the newest open comments, oldest first; older counts the ones left out.
	comments []Comment
	older    int
	// commentsErr is why the comments could not be read.
	commentsErr error
}

// How much of a page is passed on. Agents read all of it.
const (
	maxText     = 200_000 // characters
	maxComments = 100
	maxComment  = 10_000 // characters of one
)

// contentWait limits the reading of a page.
const contentWait = 10 * time.Second

// GetTaskContent returns a task's page and comments, within contentWait. It takes two requests or more,
// see Config.Pages. A failure to read the page or the comments is part of the answer. The error is
// ErrNoTask, or ctx's.
func (b *Broker) GetTaskContent(ctx context.Context, _ Caller, in *api.GetTaskInput) (api.TaskContent, error) {
	id := task.ID(in.ID)
	shown, err := b.task(ctx, id)
	if err != nil {
		return api.TaskContent{}, err
	}
	page := b.page(b.content(ctx, id))
	return shown.With(page), ctx.Err()
}

func (b *Broker) content(ctx context.Context, id task.ID) (c content) {
	ctx, cancel := context.WithTimeout(ctx, contentWait)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		c.text, c.missing, c.textErr = b.pages.Text(ctx, id)
		c.textErr = unread(ctx, c.textErr)
		c.text, c.cut = beginning(c.text, maxText)
	})
	wg.Go(func() {
		c.comments, c.commentsErr = b.pages.Comments(ctx, id)
		c.commentsErr = unread(ctx, c.commentsErr)
		c.comments, c.older = newest(c.comments)
	})
	wg.Wait()
	if away(c.textErr) && away(c.commentsErr) {
		c.commentsErr = c.textErr // say it once
	}
	return c
}

func (b *Broker) page(c content) api.Page {
	page := api.Page{WrittenBy: api.ByOthers, NotShown: c.missing, ContentCut: c.cut, CommentsCut: c.older}
	if c.textErr != nil {
		page.ContentError = api.Saying(c.textErr)
	} else {
		page.Content = &c.text
	}
	if c.commentsErr != nil {
		page.CommentsError = api.Saying(c.commentsErr)
	} else {
		page.Comments = each(c.comments, func(c Comment) api.Comment {
			return api.Comment{By: api.Collapse(c.By), At: b.time(c.At), Text: c.Text}
		})
	}
	return page
}

// away reports whether an error means that Notion cannot be reached.
func away(err error) bool {
	store, ok := errors.AsType[*claim.StoreError](err)
	return ok && store.Kind == claim.Unavailable
}

// unread rewords the error if time was up, or if Notion cannot be reached.
func unread(ctx context.Context, err error) error {
	switch {
	case away(err) && ctx.Err() == nil:
		return claim.Errorf(claim.Unavailable, claim.LandedNo, "Notion cannot be reached: %w: try again", err)
	case err == nil || ctx.Err() == nil:
		return err
	}
	return claim.Errorf(claim.Unavailable, claim.LandedNo, "Notion did not show it within %s: try again", contentWait)
}

// newest returns the newest comments, each cut to maxComment, and how many older ones there are.
func newest(comments []Comment) (kept []Comment, older int) {
	older = max(0, len(comments)-maxComments)
	for _, c := range comments[older:] {
		text, cut := beginning(c.Text, maxComment)
		if cut > 0 {
			text += fmt.Sprintf("… (%d more characters)", cut)
		}
		c.Text = text
		kept = append(kept, c)
	}
	return kept, older
}

// How much is said of the to-dos that are not ticked.
const (
	mostTodos = 20
	maxTodo   = 100 // characters of one
)

// NotDoneError refuses to complete a task with to-dos that are not ticked. The claim goes on.
type NotDoneError struct {
	Task  task.Task
	Todos []string // the first of them
	Count int      // of all of them
}

func (e *NotDoneError) Error() string {
	what := fmt.Sprintf("%d to-dos on its page are not ticked", e.Count)
	if e.Count == 1 {
		what = "a to-do on its page is not ticked"
	}
	more := ""
	if n := e.Count - len(e.Todos); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%q is not done: %s: “%s”%s; tick what is done in Notion, or end the claim otherwise", e.Task.Title, what, strings.Join(e.Todos, "”, “"), more)
}

// ticked returns a *NotDoneError if the page of a task has to-dos that are not ticked. If the page
// cannot be read, the error is a *claim.StoreError. It takes one request, or more for a long page.
func (b *Broker) ticked(ctx context.Context, t task.Task) error {
	ctx, cancel := context.WithTimeout(ctx, contentWait)
	defer cancel()
	text, err := b.pages.Whole(ctx, t.ID)
	if err = unread(ctx, err); err != nil {
		return fmt.Errorf("whether the to-dos on the page of %q are ticked is not known, and nothing was done: %w", t.Title, err)
	}
	open := unticked(text)
	if len(open) == 0 {
		return nil
	}
	return &NotDoneError{t, open[:min(len(open), mostTodos)], len(open)}
}

// unticked returns the to-dos of a page in Markdown that are not ticked. What looks like one in a
// block of code is none, unless the block has no end: then nobody knows where it ends.
func unticked(text string) (open []string) {
	fence := ""
	var coded []string // in the block of code
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		marks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case fence != "":
			if line == marks && len(marks) >= len(fence) {
				fence, coded = "", nil
			} else if todo, ok := strings.CutPrefix(line, "- [ ]"); ok {
				coded = append(coded, quotable(todo))
			}
		case len(marks) >= 3:
			fence = marks
		default:
			if todo, ok := strings.CutPrefix(line, "- [ ]"); ok {
				open = append(open, quotable(todo))
			}
		}
	}
	return append(open, coded...)
}

// quotable makes a to-do fit to be quoted.
func quotable(todo string) string {
	todo = task.Brief(todo, maxTodo)
	if todo == "" {
		return "without a text"
	}
	return strings.NewReplacer("“", `"`, "”", `"`).Replace(todo)
}

// addRemarks adds what people said in comments to a review that somebody returned in Notion. That takes
// a request; without Notion's answer, the claim comes without.
func (b *Broker) addRemarks(ctx context.Context, c *api.Claim) {
	if len(c.Task.Attempts) == 0 || c.Task.Attempts[0].Outcome != claim.Returned || c.Task.Attempts[0].Text != "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, contentWait)
	defer cancel()
	claims, err := b.journal.TaskClaims(ctx, c.Task.ID)
	i := slices.IndexFunc(claims, func(h claim.Hold) bool { return h.Ending == claim.EndReview })
	if err != nil || i < 0 {
		return
	}
	comments, err := b.commentsSince(ctx, claims[i])
	if err != nil {
		b.log.Warn("a task that was returned comes without the comments on it", claim.AttrTask, c.Task.ID, claim.AttrError, err)
	}
	var said []string
	for _, one := range comments {
		said = append(said, one.By+": "+one.Text)
	}
	c.Task.Attempts[0].Text = ofAttempt(strings.Join(said, "\n"))
}
