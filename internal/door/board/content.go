package board

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/door/board/markup"
	"dibs/internal/task"
)

// content is the text of a task's page, and its comments, as HTML. Others wrote it.
type content struct {
	ID       task.ID
	Content  template.HTML
	Comments []comment
	Problems []string // what could not be read or is not shown, and why
	Read     api.Time
	Load     bool // it is being read; what is shown is old, or not there yet

	edited api.Time // the page, when it was read
}

// comment is somebody's comment on a page.
type comment struct {
	By   string
	At   api.Time
	Text string
}

// How long a content is shown without asking again, and how many are cached. Each reading costs
// requests to Notion.
const (
	contentFor  = time.Minute
	maxContents = 50
	contentWait = 15 * time.Second
)

// contents caches the contents of pages. It is safe for concurrent use.
type contents struct {
	daemon *client.Client
	told   func() // is called when one was read

	mu      sync.Mutex
	known   map[task.ID]content
	reading map[task.ID]bool
}

// of returns the cached content of t. If that is old, it is read again meanwhile.
func (s *contents) of(t api.Task) content {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[t.ID]
	if known.ID = t.ID; known.edited.Equal(t.EditedAt.Time) && time.Since(known.Read.Time) <= contentFor {
		return known
	}
	known.Load = true
	if !s.reading[t.ID] {
		s.reading[t.ID] = true
		go func() {
			ctx, cancel := context.WithTimeoutCause(context.Background(), contentWait, errors.New("it takes too long to answer"))
			defer cancel()
			s.read(ctx, t)
			s.told()
		}()
	}
	return known
}

func (s *contents) put(one content) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxContents {
		clear(s.known)
	}
	s.known[one.ID] = one
	delete(s.reading, one.ID)
}

// forget has the page read again.
func (s *contents) forget(id task.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, id)
}

// read asks the daemon for the content of t.
func (s *contents) read(ctx context.Context, t api.Task) {
	page, err := client.Do(ctx, s.daemon, api.OpGetTaskContent, api.GetTaskInput{ID: string(t.ID)})
	one := content{ID: t.ID, Read: api.Time{Time: time.Now()}, edited: t.EditedAt}
	if page.Content != nil {
		one.Content = markup.HTML(*page.Content)
	}
	for _, c := range page.Comments {
		by := text(c.By, 80)
		one.Comments = append(one.Comments, comment{By: by, At: c.At, Text: task.Plain(c.Text)})
	}
	for _, problem := range []string{page.ContentError, page.CommentsError} {
		if problem != "" {
			one.Problems = append(one.Problems, text(problem, 2*maxLine))
		}
	}
	for _, part := range page.NotShown {
		one.Problems = append(one.Problems, "Not shown: "+text(part, 2*maxLine))
	}
	if page.ContentCut > 0 {
		one.Problems = append(one.Problems, fmt.Sprintf("%d more characters are in Notion.", page.ContentCut))
	}
	if page.CommentsCut > 0 {
		one.Problems = append(one.Problems, fmt.Sprintf("%d older comments are in Notion.", page.CommentsCut))
	}
	if err != nil {
		one.Problems = append(one.Problems, "What the page says could not be read: "+text(err.Error(), 2*maxLine))
	}
	s.put(one)
}
