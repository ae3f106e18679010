package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"dibs/internal/notion/emulator"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestTeamsBoards takes the boards of invented teams, in testdata/teams, from the plan of init to
// a finished task. Beside the commands of TestEndToEnd, its scripts have
//
//	team FILE                 serve a team's board; $BOARD is its database, $PAGE an empty page
//	row TITLE PROPERTY VALUE  check what a row shows, as text
func TestTeamsBoards(t *testing.T) {
	takesSeconds(t)
	runEndToEnd(t, "testdata/boards")
}

// boards is the folder of the boards. Scripts run in another one.
var boards, _ = filepath.Abs("testdata/teams")

// teamsBoard is a board as its file describes it.
type teamsBoard struct {
	Title string
	// Properties has a type for each name, or a type with its options, those of a status in groups.
	Properties map[string]any
	// Rows have values by the names of properties: texts, lists of people's names, and titles of
	// other rows. A row with times is there that often, with its number in the title.
	Rows []map[string]any
}

// startTeam serves a team's board.
func startTeam(ts *testscript.TestScript, _ bool, args []string) {
	data, err := os.ReadFile(filepath.Join(boards, args[0]))
	ts.Check(err)
	var b teamsBoard
	ts.Check(json.Unmarshal(data, &b))
	notion, err := emulator.New(emulator.Options{})
	ts.Check(err)
	newPage(ts, serveBoard(ts, notion), notion.Token())
	m := &mover{TestScript: ts, notion: notion, kinds: make(map[string]string), people: make(map[string]string), rows: make(map[string]string)}
	ts.Setenv("BOARD", m.move(b))
}

// mover makes a team's board.
type mover struct {
	*testscript.TestScript
	notion *emulator.Emulator
	kinds  map[string]string // the types of the properties
	people map[string]string // ids by name
	rows   map[string]string // ids by title
}

// move returns the id of the new database.
func (m *mover) move(b teamsBoard) string {
	schema, relations := map[string]any{}, map[string]any{}
	for name, of := range b.Properties {
		config := map[string]any{}
		if with, ok := of.(map[string]any); ok {
			for kind, options := range with {
				var list []any
				grouped, ok := options.(map[string]any)
				if !ok {
					grouped = map[string]any{"To-do": options}
				}
				for _, group := range []string{"To-do", "In progress", "Complete"} {
					names, _ := grouped[group].([]any)
					for _, name := range names {
						one := map[string]any{"name": name}
						if ok {
							one["group"] = group
						}
						list = append(list, one)
					}
				}
				of, config["options"] = kind, list
			}
		}
		m.kinds[name] = of.(string)
		if schema[name] = map[string]any{m.kinds[name]: config}; of == "relation" {
			relations[name] = schema[name]
			delete(schema, name)
		}
	}
	id, err := m.notion.CreateDatabase(b.Title, schema)
	m.Check(err)
	for _, of := range relations {
		of.(map[string]any)["relation"] = map[string]any{"database_id": id, "single_property": map[string]any{}}
	}
	m.Check(m.notion.EditSchema(id, relations))
	var later []func()
	for _, row := range b.Rows {
		times, several := row["times"].(float64)
		delete(row, "times")
		for i := range max(int(times), 1) {
			props := map[string]any{}
			title := ""
			for name, v := range row {
				if m.kinds[name] == "title" {
					if title = v.(string); several {
						title = fmt.Sprintf(title, i+1)
					}
					v = title
				}
				if m.kinds[name] == "relation" {
					later = append(later, func() { m.Check(m.notion.EditPage(m.rows[title], map[string]any{name: m.value(name, v)})) })
					continue
				}
				props[name] = m.value(name, v)
			}
			made, err := m.notion.CreatePage(id, props)
			m.Check(err)
			m.rows[title] = made
		}
	}
	for _, relate := range later { // every row is there
		relate()
	}
	return id
}

// value returns a property's value as the API takes it.
func (m *mover) value(name string, v any) any {
	kind := m.kinds[name]
	spans := func(v any) any { return []any{map[string]any{"text": map[string]any{"content": v}}} }
	var list []any
	all, _ := v.([]any)
	for _, one := range all {
		switch kind {
		case "people":
			who := one.(string)
			if m.people[who] == "" {
				id, err := m.notion.AddPerson(who, "")
				m.Check(err)
				m.people[who] = id
			}
			list = append(list, map[string]any{"id": m.people[who]})
		case "relation":
			list = append(list, map[string]any{"id": m.rows[one.(string)]})
		default:
			list = append(list, map[string]any{"name": one})
		}
	}
	switch kind {
	case "title", "rich_text":
		v = spans(v)
	case "select", "status":
		v = map[string]any{"name": v}
	case "people", "relation", "multi_select":
		v = list
	}
	return map[string]any{kind: v}
}

// row checks what a row of the team's board shows.
func row(ts *testscript.TestScript, _ bool, args []string) {
	for _, p := range boardOf(ts).notion.Pages(ts.Getenv("BOARD")) {
		if p.Title() != args[0] {
			continue
		}
		got := p.Text(args[1])
		if is, ok := p.Value(args[1]).(bool); ok {
			got = strconv.FormatBool(is)
		}
		if got != args[2] {
			ts.Fatalf("%q shows %s %q, want %q", args[0], args[1], got, args[2])
		}
		return
	}
	ts.Fatalf("there is no row %q", args[0])
}
