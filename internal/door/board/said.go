package board

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/door/board/markup"
	"dibs/internal/task"
)

// said is what a task's page says, and its comments, as HTML. Others wrote it.
type said struct {
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

// How long what a page says is shown without asking again, and of how many tasks it is kept. Each
// reading costs requests to Notion.
const (
	saidFor  = time.Minute
	maxSaid  = 50
	saidWait = 15 * time.Second
)

// saids keeps what pages said. It is safe for concurrent use.
type saids struct {
	mu   sync.Mutex
	kept map[task.ID]said
}

// of returns what is known of the page of t.
func (s *saids) of(t api.Task) said {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.kept[t.ID]
	known.ID = t.ID
	known.Load = !known.edited.Equal(t.EditedAt.Time) || time.Since(known.Read.Time) > saidFor
	return known
}

func (s *saids) keep(one said) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) >= maxSaid {
		clear(s.kept)
	}
	s.kept[one.ID] = one
}

// forget has the page read again.
func (s *saids) forget(id task.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kept, id)
}

// read asks the daemon what the page of t says, unless that is known.
func (b *Board) read(ctx context.Context, t api.Task) (said, error) {
	if known := b.saids.of(t); !known.Load {
		return known, nil
	}
	page, err := b.Daemon.Content(ctx, t.ID)
	if err != nil {
		return said{}, err
	}
	one := said{ID: t.ID, Read: api.Time{Time: time.Now()}, edited: t.EditedAt}
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
	b.saids.keep(one)
	return one, nil
}

// saidPage shows what a task's page says: for browsers without JavaScript, and for the module to
// put it into the task's own page.
func (b *Board) saidPage(w http.ResponseWriter, r *http.Request) {
	t, ok := b.taskOf(w, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), saidWait, errors.New("it takes too long to answer"))
	defer cancel()
	one, err := b.read(ctx, t)
	if err != nil {
		if gone(r) {
			return
		}
		one = b.saids.of(t)
		one.Load, one.Problems = false, []string{"What the page says could not be read: " + text(err.Error(), 2*maxLine)}
	}
	render(w, http.StatusOK, "said.html", b.page("task", "What the page says", b.state.current(), struct {
		card
		Said said
	}{cardOf(t), one}))
}
