package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

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

// Content is a task with what its page says. Whoever may edit the page wrote that.
type Content struct {
	View View
	// Text is the page as Markdown, Missing names what it does not show, and Cut is how many
	// characters were left out at its end.
	Text    string
	Missing []string
	Cut     int
	// TextErr is why there is no text; nil if there is.
	TextErr error
	// Comments are the newest open comments on the page, the oldest of them first, and
	// CommentsCut is how many older ones were left out.
	Comments    []Comment
	CommentsCut int
	// CommentsErr is why there are no comments; nil if they were read.
	CommentsErr error
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
func (b *Broker) Content(ctx context.Context, id task.ID) (Content, error) {
	var c Content
	var err error
	if c.View, err = b.Task(ctx, id); err != nil {
		return c, err
	}
	reading, cancel := context.WithTimeout(ctx, contentWait)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		c.Text, c.Missing, c.TextErr = b.pages.Text(reading, id)
		c.TextErr = unread(reading, c.TextErr)
		c.Text, c.Cut = beginning(c.Text, maxText)
	})
	wg.Go(func() {
		c.Comments, c.CommentsErr = b.pages.Comments(reading, id)
		c.CommentsErr = unread(reading, c.CommentsErr)
		c.Comments, c.CommentsCut = newest(c.Comments)
	})
	wg.Wait()
	if away(c.TextErr) && away(c.CommentsErr) {
		c.CommentsErr = c.TextErr // once is enough
	}
	return c, ctx.Err()
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
