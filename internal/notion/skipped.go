package notion

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

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

// rawRows are the rows of a query.
type rawRows []rawPage

// bare reports which rows are pages shown without their properties, by their places in the answer
// that has that body. Properties that are null are a mistake and not that.
func (r rawRows) bare(body []byte) map[int]bool {
	if !slices.ContainsFunc(r, func(p rawPage) bool { return p.Properties == nil }) {
		return nil // nearly always: do not decode the body again
	}
	var answer struct {
		Results []map[string]json.RawMessage `json:"results"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return nil
	}
	bare := make(map[int]bool)
	for i, row := range answer.Results {
		_, has := row["properties"]
		bare[i] = !has && r[i].Object == "page" && r[i].ID != ""
	}
	return bare
}

// odd describes a row of a query that is no page, or shows too little to be a task.
func (p *rawPage) odd(bare bool) (skipped, bool) {
	row := skipped{id: shortened(transport.Excerpt(p.ID))}
	switch {
	case p.Object == "database", p.Object == "data_source":
		row.title = p.Title.text()
		row.why = "is a database, as wikis have them among their pages"
	case bare:
		row.partial = true
		row.why = "is shown without its properties: see whether the connection may read it"
	default:
		return skipped{}, false
	}
	return row, true
}

// rawTitle is the title of a database, if it is one.
type rawTitle []span

// UnmarshalJSON implements json.Unmarshaler.
func (t *rawTitle) UnmarshalJSON(data []byte) error {
	var spans []span
	if json.Unmarshal(data, &spans) == nil {
		*t = spans
	}
	return nil
}

func (t rawTitle) text() string {
	var b strings.Builder
	for _, s := range t {
		b.WriteString(s.PlainText)
	}
	return shortened(b.String())
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
