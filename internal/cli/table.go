package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// minCell is the narrowest to which a column is cut, gap the space between columns.
const (
	minCell = 8
	gap     = 2
)

// cell is a cell of a table. Its style applies on a terminal that shows colours.
type cell struct {
	text  string
	style ansi.Style
}

func plain(text string) cell            { return cell{text: text} }
func (c cell) in(style ansi.Style) cell { return cell{c.text, style} }

// The styles of cells.
var (
	bold   = ansi.NewStyle().Bold()
	faint  = ansi.NewStyle().Faint()
	green  = ansi.NewStyle().ForegroundColor(ansi.Green)
	yellow = ansi.NewStyle().ForegroundColor(ansi.Yellow)
	red    = ansi.NewStyle().ForegroundColor(ansi.Red)
)

// table is a list for people. Columns are as wide as their widest cell on a terminal, and cut if
// the terminal is narrower than all of them.
type table struct{ rows [][]cell }

func (t *table) head(names ...string) {
	row := make([]cell, len(names))
	for i, name := range names {
		row[i] = plain(name).in(bold)
	}
	t.rows = append(t.rows, row)
}

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// list prints an answer: as JSON with --json, else as the table that fill makes.
func (a *app) list(answer any, fill func(*table)) error {
	if a.json {
		return writeJSON(a.stdout, answer)
	}
	var t table
	fill(&t)
	_, err := io.WriteString(a.stdout, t.layout(width(a.stdout), coloured(a.stdout)))
	return err
}

// layout formats the table for a terminal of so many columns, 0 for any number.
func (t *table) layout(fits int, colours bool) string {
	widths := t.widths()
	if fits > 0 {
		shrink(widths, fits)
	}
	var out strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, c := range row {
			text := ansi.Truncate(c.text, widths[i], "…")
			padding := strings.Repeat(" ", widths[i]-ansi.StringWidth(text)+gap)
			if colours && len(c.style) > 0 && text != "" {
				text = c.style.Styled(text)
			}
			if i < len(row)-1 {
				text += padding
			}
			line.WriteString(text)
		}
		out.WriteString(strings.TrimRight(line.String(), " "))
		out.WriteByte('\n')
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

// shrink narrows the widest columns until all fit, but none below minCell.
func shrink(widths []int, fits int) {
	total := gap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > fits; total-- {
		widest := slices.Index(widths, slices.Max(widths))
		if widths[widest] <= minCell {
			return
		}
		widths[widest]--
	}
}

// defaultWidth is the width of a terminal that does not report one.
const defaultWidth = 80

// width returns how many columns a terminal has; 0 if w is not a terminal.
func width(w io.Writer) int {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0
	}
	if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
		return columns
	}
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns > 0 {
		return columns
	}
	return defaultWidth
}

// coloured reports whether to use colours: on a terminal that has them, unless NO_COLOR is set.
func coloured(w io.Writer) bool {
	return width(w) > 0 && colorprofile.Detect(w, os.Environ()) >= colorprofile.ANSI
}

// defaultLimit is how many lines of a list people see without --limit.
const defaultLimit = 50

// limited returns the first limit items, and how many are left out. A limit of 0 means all.
func limited[T any](list []T, limit int) (shown []T, more int) {
	if limit == 0 || len(list) <= limit {
		return list, 0
	}
	return list[:limit], len(list) - limit
}

// more says how many lines were left out.
func (a *app) more(left int) {
	if left > 0 {
		a.say("%s", fmt.Sprintf("… and %d more; --limit 0 shows them all", left))
	}
}
