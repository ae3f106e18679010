package board

import (
	"context"
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
	// Load asks the module to read the page again; what is shown is old, or not there yet.
	Load bool

	edited api.Time // the page, when it was read
}

// comment is somebody's comment on a page.
type comment struct {
	By   string
	Hue  int
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

	mu    sync.Mutex
	known map[task.ID]content
}

// of returns the cached content of t; Load is set if it has to be read.
func (s *contents) of(t api.Task) content {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[t.ID]
	known.ID = t.ID
	known.Load = !known.edited.Equal(t.EditedAt.Time) || time.Since(known.Read.Time) > contentFor
	return known
}

func (s *contents) put(one content) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxContents {
		clear(s.known)
	}
	s.known[one.ID] = one
}

// forget has the page read again.
func (s *contents) forget(id task.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, id)
}

// read returns the content of t, and asks the daemon for it unless it is cached.
func (s *contents) read(ctx context.Context, t api.Task) (content, error) {
	if known := s.of(t); !known.Load {
		return known, nil
	}
	page, err := client.Do(ctx, s.daemon, api.OpGetTaskContent, api.GetTaskInput{ID: string(t.ID)})
	if err != nil {
		return content{}, err
	}
	one := content{ID: t.ID, Read: api.Time{Time: time.Now()}, edited: t.EditedAt}
	if page.Content != nil {
		one.Content = markup.HTML(*page.Content)
	}
	for _, c := range page.Comments {
		by := text(c.By, 80)
		one.Comments = append(one.Comments, comment{By: by, Hue: hue(by), At: c.At, Text: task.Plain(c.Text)})
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
	s.put(one)
	return one, nil
}
