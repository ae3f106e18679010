package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// minCell is the narrowest to which a column is cut, gap the space between columns.
const (
	minCell = 6
	maxKey  = 12 // the longest key that is never cut
	gap     = 2
)

// cell is a cell of a table. Its style applies on a terminal that shows colours.
type cell struct {
	text  string
	style ansi.Style
}

func plain(text string) cell { return cell{text: text} }

func (c cell) in(style ansi.Style) cell { return cell{c.text, style} }

// The styles of cells.
var (
	bold   = ansi.NewStyle().Bold()
	faint  = ansi.NewStyle().Faint()
	green  = ansi.NewStyle().ForegroundColor(ansi.Green)
	yellow = ansi.NewStyle().ForegroundColor(ansi.Yellow)
	red    = ansi.NewStyle().ForegroundColor(ansi.Red)
)

// table is a list for people. Columns are as wide as their widest cell. A terminal does not show
// columns that say nothing, and cuts the others to its width, the column whole last of all.
type table struct {
	rows  [][]cell
	heads int    // the number of rows that are names of columns
	whole int    // the column to keep whole, such as the title; 0 if there is no such column
	right []bool // the columns of numbers, which are aligned on the right
}

func (t *table) head(names ...string) {
	t.heads++
	row := make([]cell, len(names))
	for i, name := range names {
		row[i] = plain(name).in(bold)
	}
	t.rows = append(t.rows, row)
}

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// layout formats the table for a terminal of so many columns, 0 for any number.
func (t *table) layout(fits int, colours bool) string {
	common := ""
	if fits > 0 {
		common = t.common()
		t.drop(t.silent)
	}
	widths := t.widths()
	if fits > 0 {
		widths = t.squeeze(fits)
	}
	var out strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, c := range row {
			text := ansi.Truncate(c.text, widths[i], "…")
			padding := strings.Repeat(" ", widths[i]-ansi.StringWidth(text))
			if colours && len(c.style) > 0 && text != "" {
				text = c.style.Styled(text)
			}
			if i < len(t.right) && t.right[i] {
				text, padding = padding+text, ""
			}
			line.WriteString(text)
			if i < len(row)-1 {
				line.WriteString(padding + strings.Repeat(" ", gap))
			}
		}
		out.WriteString(strings.TrimRight(line.String(), " "))
		out.WriteByte('\n')
	}
	if common != "" {
		out.WriteString(ansi.Truncate(common, fits, "…") + "\n")
	}
	return out.String()
}

func (t *table) widths() []int {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], ansi.StringWidth(c.text))
		}
	}
	return widths
}

// silent reports whether a column says nothing: all its cells are empty or, in a table with names of
// columns, say the same. The first column names the row, and always stays, as does the one that is
// kept whole.
func (t *table) silent(column int) bool {
	body := t.rows[t.heads:]
	if column == 0 || column == t.whole || len(body) == 0 {
		return false
	}
	for _, row := range body {
		if row[column].text != body[0][column].text {
			return false
		}
	}
	return nothing(body[0][column]) || t.heads > 0 && len(body) > 1
}

// nothing reports whether a cell says that there is nothing.
func nothing(c cell) bool { return c.text == "" || c.text == "-" || c.text == "none" }

// common says what all rows have in common in the columns that are silent; empty for nothing.
func (t *table) common() string {
	var all []string
	for column := range t.widths() {
		if t.silent(column) && !nothing(t.rows[t.heads][column]) {
			all = append(all, strings.ToLower(t.rows[0][column].text)+" "+t.rows[t.heads][column].text)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "All of them: " + strings.Join(all, ", ")
}

// drop takes out the columns that f names.
func (t *table) drop(f func(column int) bool) {
	if len(t.rows) == 0 {
		return
	}
	for column := len(t.rows[0]) - 1; column >= 0; column-- {
		if !f(column) {
			continue
		}
		for i, row := range t.rows {
			t.rows[i] = slices.Delete(row, column, column+1)
		}
		if column < t.whole {
			t.whole--
		}
		if column < len(t.right) {
			t.right = slices.Delete(t.right, column, column+1)
		}
	}
}

// squeeze narrows the widest columns until all fit, but none below minCell. The column that is kept
// whole gives way last: before it, columns go, the last first.
func (t *table) squeeze(fits int) []int {
	for {
		widths := t.widths()
		over := gap*(len(widths)-1) - fits
		for _, w := range widths {
			over += w
		}
		for ; over > 0; over-- {
			widest := t.widest(widths)
			if widths[widest] <= minCell || t.whole > 0 && widest == 0 && widths[0] <= maxKey {
				break
			}
			widths[widest]--
		}
		last := len(widths) - 1
		if last == t.whole {
			last--
		}
		switch {
		case over <= 0 || t.whole == 0:
			return widths
		case last == 0: // only the first column and the whole one are left
			widths[t.whole] = max(minCell, widths[t.whole]-over)
			return widths
		}
		t.drop(func(column int) bool { return column == last })
	}
}

// widest returns the widest column of those that may be narrowed. A key is not: with a part of it no
// task can be named.
func (t *table) widest(widths []int) int {
	widest, most := 0, 0
	for i, w := range widths {
		if w <= most || t.whole > 0 && (i == t.whole || i == 0 && w <= maxKey) {
			continue
		}
		widest, most = i, w
	}
	return widest
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// defaultWidth is the width of a terminal that does not report one.
const defaultWidth = 80

// width returns how many columns a terminal has; 0 if w is not a terminal.
func width(w io.Writer) int {
	if !isTerminal(w) {
		return 0
	}
	if columns, _, err := term.GetSize(int(w.(*os.File).Fd())); err == nil && columns > 0 {
		return columns
	}
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns > 0 {
		return columns
	}
	return defaultWidth
}

// coloured reports whether to use colours: on a terminal that has them, unless NO_COLOR is set.
func coloured(w io.Writer) bool {
	term := os.Getenv("TERM")
	return isTerminal(w) && term != "" && term != "dumb" && os.Getenv("NO_COLOR") == ""
}

// row prints a line of a table. Cells must not contain tabs or line ends, see clean.
func row(w io.Writer, cells ...string) {
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}

// writeJSON writes a document on one line. It also escapes the characters that could control a
// terminal and that JSON allows.
func writeJSON(w io.Writer, value any) error {
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err
	}
	var out bytes.Buffer
	for _, r := range plain.String() {
		if r == '\n' || unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}
