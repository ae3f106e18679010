package board

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/task"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	gmtext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
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
		one.Content = markdown(*page.Content)
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

// converter converts the Markdown of a page: HTML in it is shown as text, no image is loaded, and
// only addresses that are safe become links.
var converter = sync.OnceValue(func() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(extension.GFM),
		goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(tame{}, 100))),
		goldmark.WithRendererOptions(html.WithHardWraps(), renderer.WithNodeRenderers(util.Prioritized(plainly{}, 1))),
	)
})

// markdown returns a page's Markdown as HTML.
func markdown(source string) template.HTML {
	var out bytes.Buffer
	if err := converter().Convert([]byte(source), &out); err != nil {
		return template.HTML("<pre>" + template.HTMLEscapeString(source) + "</pre>")
	}
	return template.HTML(out.String()) // the converter escapes all that others wrote
}

// tame fits what others wrote into a page: their headings stand below the page's, and their links
// open another tab that learns nothing of this one.
type tame struct{}

func (tame) Transform(doc *ast.Document, _ gmtext.Reader, _ parser.Context) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			n.Level = min(6, n.Level+2)
		case *ast.AutoLink:
			n.SetAttributeString("target", []byte("_blank"))
			n.SetAttributeString("rel", []byte("noopener noreferrer"))
		}
		return ast.WalkContinue, nil
	})
}

// plainly renders HTML as the text that it is, an image as a link to it, an address that is none of
// the web as no link, and a to-do as a sign.
type plainly struct{}

func (plainly) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	lines := func(w util.BufWriter, source []byte, all *gmtext.Segments) {
		for i := range all.Len() {
			at := all.At(i)
			template.HTMLEscape(w, at.Value(source))
		}
	}
	r.Register(ast.KindRawHTML, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			lines(w, source, n.(*ast.RawHTML).Segments)
		}
		return ast.WalkSkipChildren, nil
	})
	r.Register(ast.KindHTMLBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		block := n.(*ast.HTMLBlock)
		if entering {
			w.WriteString("<p>")
			lines(w, source, n.Lines())
			return ast.WalkContinue, nil
		}
		if block.HasClosure() {
			template.HTMLEscape(w, block.ClosureLine.Value(source))
		}
		w.WriteString("</p>\n")
		return ast.WalkContinue, nil
	})
	r.Register(extast.KindTaskCheckBox, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch box := n.(*extast.TaskCheckBox); {
		case entering && box.IsChecked:
			w.WriteString(`<span class="todo" role="img" aria-label="done:">☑</span> `)
		case entering:
			w.WriteString(`<span class="todo" role="img" aria-label="to do:">☐</span> `)
		}
		return ast.WalkContinue, nil
	})
	anchor := func(w util.BufWriter, destination []byte, before string, entering bool) {
		address := link(string(destination))
		switch {
		case entering && address != "":
			fmt.Fprintf(w, `<a href="%s" target="_blank" rel="noopener noreferrer">%s`, template.HTMLEscapeString(address), before)
		case entering:
			w.WriteString(before)
		case address != "":
			w.WriteString("</a>")
		}
	}
	r.Register(ast.KindLink, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		anchor(w, n.(*ast.Link).Destination, "", entering)
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindImage, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		anchor(w, n.(*ast.Image).Destination, "Image: ", entering)
		return ast.WalkContinue, nil
	})
}
