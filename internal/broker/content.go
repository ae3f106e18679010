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

// Pages reads tasks' pages. The texts have no control characters, see task.Plain. Errors are
// *claim.StoreErrors.
type Pages interface {
	// Text returns a page as Markdown. missing names the parts that the text does not show.
	Text(ctx context.Context, id task.ID) (text string, missing []string, err error)
	// Whole is Text, but fails if a part of the page could not be read.
	Whole(ctx context.Context, id task.ID) (string, error)
	// Comments returns the open comments on a page, oldest first.
	Comments(ctx context.Context, id task.ID) ([]Comment, error)
}

// Comment is somebody's comment on a task.
type Comment struct {
	By     string // the author's name; empty if unknown
	Signed bool   // the author chose that name, as dibs does for agents
	At     time.Time
	Text   string
}

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
		page.Comments = each(c.comments, func(said Comment) api.Comment {
			return api.Comment{By: api.Collapse(said.By), At: b.time(said.At), Text: said.Text}
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

// beginning cuts a text to that many characters, at the end of a line if one is near. It also
// returns how many characters were dropped.
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
