package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// Pages are the pages of tasks, with what others wrote on them. What they return has no
// control characters, see task.Plain. Their errors are *claim.StoreErrors.
type Pages interface {
	// Text reads what a page says, as Markdown. missing names what the text does not show.
	Text(ctx context.Context, id task.ID) (text string, missing []string, err error)
	// Comments reads the open comments on a page, the oldest first.
	Comments(ctx context.Context, id task.ID) ([]Comment, error)
}

// Comment is what somebody said of a task.
type Comment struct {
	By   string // the name of whoever said it; empty if it is not known
	At   time.Time
	Text string
}

// content is what the page of a task says. Whoever may edit the page wrote that.
type content struct {
	// text is the page as Markdown, missing names what it does not show, and cut is how many
	// characters were left out at its end.
	text    string
	missing []string
	cut     int
	// textErr is why there is no text; nil if there is.
	textErr error
	// comments are the newest open comments on the page, the oldest of them first, and
	// older is how many older ones were left out.
	comments []Comment
	older    int
	// commentsErr is why there are no comments; nil if they were read.
	commentsErr error
}

// How much of a page is handed on. It is for agents, who read it all.
const (
	maxText     = 200_000 // characters
	maxComments = 100
	maxComment  = 10_000 // characters of one
)

// contentWait is how long a page is waited for.
const contentWait = 10 * time.Second

// Content reads what the page of a task says, and what was said of it: with two requests,
// see Config.Pages, and within contentWait. That a page or its comments cannot be read is
// in the answer, and no error. The error is ErrNoTask, or ctx's.
func (b *Broker) Content(ctx context.Context, id task.ID) (api.TaskContent, error) {
	shown, err := b.Task(ctx, id)
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
		c.commentsErr = c.textErr // once is enough
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
		page.Comments = each(c.comments, func(said Comment) api.Comment {
			return api.Comment{By: api.Collapse(said.By), At: b.time(said.At), Text: said.Text}
		})
	}
	return page
}

// away reports whether an error says that Notion cannot be reached.
func away(err error) bool {
	store, ok := errors.AsType[*claim.StoreError](err)
	return ok && store.Kind == claim.Unavailable
}

// unread says in plain words that time was up, or that Notion cannot be reached.
func unread(ctx context.Context, err error) error {
	switch {
	case away(err) && ctx.Err() == nil:
		return claim.Errorf(claim.Unavailable, claim.LandedNo, "Notion cannot be reached: %w: try again", err)
	case err == nil || ctx.Err() == nil:
		return err
	}
	return claim.Errorf(claim.Unavailable, claim.LandedNo, "Notion did not show it within %s: try again", contentWait)
}

// beginning returns as much of a text as fits, in whole lines if these are not too long,
// and how many characters were left out.
func beginning(text string, fits int) (kept string, cut int) {
	if len(text) <= fits {
		return text, 0
	}
	all := utf8.RuneCountInString(text)
	if all <= fits {
		return text, 0
	}
	at := 0
	for range fits {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	if line := strings.LastIndexByte(text[:at], '\n'); line >= at-at/10 {
		at = line + 1
	}
	return text[:at], all - utf8.RuneCountInString(text[:at])
}

// newest returns the newest comments, each as far as it fits, and how many are older.
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
