package notion

import (
	"cmp"
	"fmt"
	"slices"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
)

// skipped is a row in a query's answer that is no task.
type skipped struct {
	id, title string
	why       string
	partial   bool // it may be a task, but shows too little to be read
}

func (s skipped) String() string {
	name := cmp.Or(s.id, "of unknown id")
	if s.title != "" {
		name = fmt.Sprintf("%q (%s)", transport.Excerpt(s.title), name)
	}
	return fmt.Sprintf("row %s is skipped: it %s", name, s.why)
}

// odd describes a row of a query that is no page, or shows too little to be a task.
func (p *page) odd() (skipped, bool) {
	row := skipped{id: shortened(transport.Excerpt(p.ID))}
	switch {
	case p.Object == "database", p.Object == "data_source":
		row.title = shortened(plainText(p.Title))
		row.why = "is a database, as wikis have them among their pages"
	case p.Properties == nil && p.Object == "page" && p.ID != "":
		row.partial = true
		row.why = "is shown without its properties: see whether the connection may read it"
	default:
		return skipped{}, false
	}
	return row, true
}

// errPartial is the error of a list whose pages show no properties.
func errPartial(rows []skipped) error {
	return claim.Errorf(claim.Refused, claim.LandedUnknown,
		"Notion shows no row of the tasks database with its properties (%d of them without): give the connection the capability to read content", len(rows))
}

// mostSkipped limits the skipped rows in a message.
const mostSkipped = 5

// skip records the skipped rows. A list of all rows has all of them; another list may have some
// more.
func (t *Tasks) skip(rows []skipped, all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.skipped
	if all {
		t.skipped = nil
	}
	for _, row := range rows {
		if !slices.Contains(t.skipped, row) {
			t.skipped = append(t.skipped, row)
		}
		if !slices.Contains(before, row) && t.client.log != nil {
			t.client.log.Warn("a row of the tasks database is no task, and is skipped", "row", row.id, claim.AttrTitle, claim.Brief(row.title), claim.AttrReason, row.why)
		}
	}
}

// skippedRows describes the skipped rows, one line each.
func (t *Tasks) skippedRows() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for i, row := range t.skipped {
		if i == mostSkipped {
			lines = append(lines, fmt.Sprintf("%d more rows of the tasks database are skipped", len(t.skipped)-i))
			break
		}
		lines = append(lines, "tasks database: "+row.String())
	}
	return lines
}
