package notion

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Database describes a database, as its data source that is used shows it.
type Database struct {
	ID task.ID
	// Source is the data source, and Title is its title.
	Source  task.ID
	Title   string
	Columns map[string]Column // by name
}

// Column is a property of a database, with the part of its schema that is used here.
type Column struct {
	ID   string
	Name string
	Type string
	// Options are the names of the options of a select, multi-select or status.
	Options []string
	// as are the names of the property and its options in Notion, where these are not in form C, by
	// those in form C.
	as map[string]string
	// OptionIDs are the ids of options, by their names.
	OptionIDs map[string]string `json:",omitempty"`
	// Groups are the groups of a status's options, by their names: To-do, In progress or Complete,
	// whatever the language.
	Groups map[string]string `json:"-"`
	// Source is the data source that a relation relates to.
	Source task.ID `json:",omitempty"`
}

// rawSchema is the part of an answer about a database or a data source that is read here.
type rawSchema struct {
	Object     string                     `json:"object"`
	ID         string                     `json:"id"`
	Title      rawTitle                   `json:"title"`
	Archived   bool                       `json:"archived"`
	InTrash    bool                       `json:"in_trash"`
	Properties map[string]json.RawMessage `json:"properties"` // of a data source
	Parent     struct {
		Database string `json:"database_id"`
	} `json:"parent"` // of a data source
	Sources []struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"data_sources"` // of a database
}

func (s *rawSchema) kind() string { return s.Object }

// columns returns the known parts of a schema. A property of a new type has few of them.
func (s *rawSchema) columns() map[string]Column {
	columns := make(map[string]Column, len(s.Properties))
	for given, data := range s.Properties {
		col := Column{Name: task.Name(given)}
		col.known(given)
		var raw map[string]json.RawMessage
		var config struct {
			Options []struct {
				ID   string `json:"id"`
				Name string `json:"name"`
			} `json:"options"`
			Groups []struct {
				Name      string   `json:"name"`
				OptionIDs []string `json:"option_ids"`
			} `json:"groups"`
			Source string `json:"data_source_id"`
		}
		if json.Unmarshal(data, &raw) == nil && json.Unmarshal(raw["id"], &col.ID) == nil && json.Unmarshal(raw["type"], &col.Type) == nil &&
			json.Unmarshal(raw[col.Type], &config) == nil {
			col.Source, _ = task.ParseID(config.Source)
			for _, o := range config.Options {
				o.Name = col.known(o.Name)
				col.Options = append(col.Options, o.Name)
				if o.ID != "" {
					if col.OptionIDs == nil {
						col.OptionIDs = make(map[string]string, len(config.Options))
					}
					col.OptionIDs[o.Name] = o.ID
				}
				for _, g := range config.Groups {
					if slices.Contains(g.OptionIDs, o.ID) {
						if col.Groups == nil {
							col.Groups = make(map[string]string, len(config.Options))
						}
						col.Groups[o.Name] = g.Name
					}
				}
			}
		}
		columns[col.Name] = col
	}
	return columns
}

// known returns a name of the property, or of one of its options, in form C, and remembers how Notion
// has it.
func (col *Column) known(given string) string {
	name := task.Name(given)
	if name != given {
		if col.as == nil {
			col.as = make(map[string]string)
		}
		col.as[name] = given
	}
	return name
}

// inNotion returns a name of the property, or of one of its options, as Notion has it.
func (col Column) inNotion(name string) string { return cmp.Or(col.as[name], name) }

// Similar returns the first of the names that differs from name only in case, spaces, "_", "-" and
// emoji, and so may be meant; empty if there is none.
func Similar(name string, among []string) string {
	i := slices.IndexFunc(among, func(other string) bool { return fold(other) == fold(name) })
	if i < 0 {
		return ""
	}
	return among[i]
}

// Similar returns a property whose name is similar.
func (db Database) Similar(name string) (Column, bool) {
	col, ok := db.Columns[Similar(name, slices.Sorted(maps.Keys(db.Columns)))]
	return col, ok
}

// keycap matches an emoji such as 1️⃣.
var keycap = regexp.MustCompile(`[0-9#*]\x{FE0F}?\x{20E3}`)

// fold makes names equal that differ only in case, spaces, "_", "-" and emoji. A name of nothing but
// those stays as it is.
func fold(name string) string {
	folded := strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.So, unicode.Sk, unicode.Cf, unicode.Variation_Selector) || strings.ContainsRune(" _-", r) {
			return -1
		}
		return unicode.ToLower(r)
	}, keycap.ReplaceAllString(name, ""))
	return cmp.Or(folded, name)
}

// errTrashed is part of the error of a database that cannot be used because it, or its data source, is
// in the trash.
var errTrashed = errors.New("is in the trash")

func trashedError(title string) error {
	return claim.Errorf(claim.Refused, claim.LandedNo, "database %q, its data source, or the page that it lies on, %w: restore it, or use another", title, errTrashed)
}
