// Package markup makes what others wrote fit to stand in a page of the board. Their HTML is shown
// as text, and only http and https addresses become links.
package markup

import (
	"bytes"
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"sync"

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

// Link returns an address if a browser may be sent there, or nothing.
func Link(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return ""
	}
	return u.String()
}

// converter converts the Markdown of a page: HTML in it is shown as text, no image is loaded, and
// only addresses that are safe become links.
var converter = sync.OnceValue(func() goldmark.Markdown {
	return goldmark.New(
		// Addresses are where links are: what others wrote once could be in the page a thousand times.
		goldmark.WithParser(parser.NewParser(
			parser.WithBlockParsers(parser.DefaultBlockParsers()...),
			parser.WithInlineParsers(parser.DefaultInlineParsers()...),
		)),
		goldmark.WithExtensions(extension.GFM),
		goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(tame{}, 100))),
		goldmark.WithRendererOptions(html.WithHardWraps(), renderer.WithNodeRenderers(util.Prioritized(plainly{}, 1))),
	)
})

// HTML converts the Markdown of a Notion page for the board.
func HTML(source string) template.HTML {
	var out bytes.Buffer
	rest := source[limit(source):]
	if err := converter().Convert([]byte(source[:len(source)-len(rest)]), &out); err != nil {
		out.Reset()
		rest = source
	}
	if rest != "" {
		out.WriteString(`<p class="words">`)
		template.HTMLEscape(&out, []byte(rest))
		out.WriteString("</p>\n")
	}
	return template.HTML(out.String()) // the converter escapes all that others wrote
}

// tame fits what others wrote into a page: their headings stand below the page's.
type tame struct{}

func (tame) Transform(doc *ast.Document, _ gmtext.Reader, _ parser.Context) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		if heading, ok := n.(*ast.Heading); ok {
			heading.Level = min(6, heading.Level+2)
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
	// Links open another tab that learns nothing of this one.
	anchor := func(w util.BufWriter, destination []byte, before string, entering bool) {
		address := Link(string(destination))
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
	r.Register(ast.KindAutoLink, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		link := n.(*ast.AutoLink)
		anchor(w, link.URL(source), "", entering)
		if entering {
			template.HTMLEscape(w, link.Label(source))
		}
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindImage, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		anchor(w, n.(*ast.Image).Destination, "Image: ", entering)
		return ast.WalkContinue, nil
	})
}

// mostWork bounds the work for the Markdown of a page, in about as many nanoseconds. The converter's
// time grows with the square of some texts' length, or with its cube.
const mostWork = 300_000_000

// limit returns where the part of a page begins that is not converted, since with it the work could
// exceed mostWork: a line, or the end of the page. It counts what each line can cost at worst:
//   - a mark may have the converter read all of its paragraph;
//   - a line may be compared with all blocks around it, once for each of them;
//   - in a table, each row has as many cells as the widest;
//   - an escaped bar in a cell is compared with all others of the page.
func limit(source string) int {
	const nested, cell, escaped = 4, 2000, 4
	var length, marks, bars int // of the lines that may be one paragraph; bars of its widest line
	var depth, escapes, work int
	for at := 0; at < len(source); {
		end := len(source)
		if i := strings.IndexByte(source[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		line := source[at:end]
		if begins(line) {
			work += marks * length
			length, marks, bars = 0, 0, 0
		}
		length += len(line)
		for _, mark := range "[]()<*_~`|" {
			marks += strings.Count(line, string(mark))
		}
		bars = max(bars, strings.Count(line, "|"))
		escapes += strings.Count(line, `\|`)
		depth = max(depth, nesting(line))
		work += nested*depth*depth + cell*bars
		if work+marks*length+escaped*escapes*escapes > mostWork {
			return at
		}
		at = end
	}
	return len(source)
}

// begins reports whether a line cannot belong to the paragraph of the line before. It need not know
// all such lines.
func begins(line string) bool {
	line = strings.TrimRight(line, " \t\r\n")
	mark, text, _ := strings.Cut(line, " ")
	heading := mark != "" && len(mark) <= 6 && strings.Trim(mark, "#") == ""
	return line == "" || text != "" && (mark == "-" || heading)
}

// nesting returns in how many quotes and items of lists a line can be at most: each takes a mark, or
// two columns of indentation.
func nesting(line string) int {
	columns := 0
	for i, c := range line {
		switch {
		case c == ' ':
			columns++
		case c == '\t':
			columns += 4
		case c == '>':
			columns += 2
		case '0' <= c && c <= '9':
		case strings.ContainsRune("-+*.)", c) && (i+1 == len(line) || strings.IndexByte(" \t\r\n", line[i+1]) >= 0):
			columns += 2
		default:
			return columns / 2
		}
	}
	return columns / 2
}
