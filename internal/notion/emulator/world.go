package emulator

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// world is everything the emulator keeps. The values of its maps are never changed, only replaced
// through put: so keeping old versions costs nothing, and a change can be rolled back.
type world struct {
	Users     map[string]*user     `json:"users"`
	Databases map[string]*database `json:"databases"`
	Sources   map[string]*source   `json:"data_sources"`
	Pages     map[string]*page     `json:"pages"`
	Blocks    map[string]*block    `json:"blocks"`
	Comments  map[string]*comment  `json:"comments"`
	Views     map[string]*view     `json:"views,omitempty"`
	// Rows lists the pages of each data source in the order of their creation, Children the blocks
	// of each page and block in reading order.
	Rows     map[string][]string `json:"rows"`
	Children map[string][]string `json:"children"`
	// Token is the bearer token; saved so that it stays the same.
	Token string `json:"token"`
	// Hidden are the databases and pages that are not shared with the token.
	Hidden map[string]bool `json:"hidden"`
	// Seeded are the databases that Seed made.
	Seeded Databases `json:"seeded"`
	// BlocksLeft is how many blocks can still be made; nil for any number.
	BlocksLeft *int `json:"blocks_left,omitempty"`
	// QueryLimit is how many rows a query returns; 0 for Notion's limit.
	QueryLimit int `json:"query_limit,omitempty"`
	// MarkdownLimit is how many blocks an answer in Markdown shows; 0 for Notion's limit.
	MarkdownLimit int `json:"markdown_limit,omitempty"`
	// Subscription is the webhook's; nil if there never was one.
	Subscription *subscription `json:"subscription,omitempty"`
	// Seq numbers pages, blocks and comments in the order of their creation.
	Seq int64 `json:"seq"`

	// past lists the earlier versions of each page, oldest first. It is bounded by keepPast and
	// maxPast, and not saved.
	past map[string][]*page
}

// How much of the past is kept for stale queries.
const (
	keepPast = 10 * time.Minute
	maxPast  = 64 // versions of a page
)

type user struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Person bool   `json:"person"`
	Agent  bool   `json:"agent,omitempty"` // one of Notion's own agents
	Email  string `json:"email,omitempty"`
}

// database contains data sources, usually one.
type database struct {
	ID          string          `json:"id"`
	Title       []span          `json:"title"`
	Description []span          `json:"description"`
	Parent      parent          `json:"parent"`
	Sources     []string        `json:"data_sources"`
	Inline      bool            `json:"is_inline"`
	Trashed     bool            `json:"in_trash"`
	Locked      bool            `json:"is_locked,omitempty"`
	Linked      bool            `json:"linked,omitempty"` // shows another database, and has no data source
	Icon        json.RawMessage `json:"icon,omitempty"`
	Cover       json.RawMessage `json:"cover,omitempty"`
	Created     time.Time       `json:"created"`
	Edited      time.Time       `json:"edited"`
	CreatedBy   string          `json:"created_by"`
	EditedBy    string          `json:"edited_by"`
	Seq         int64           `json:"seq"`
}

// source is a data source: a schema and its rows.
type source struct {
	ID         string     `json:"id"`
	Database   string     `json:"database"`
	Name       []span     `json:"name"`
	Properties []property `json:"properties"`
	// Unique is the last number assigned to a unique_id property.
	Unique    int             `json:"unique"`
	Trashed   bool            `json:"in_trash"`
	Icon      json.RawMessage `json:"icon,omitempty"`
	Created   time.Time       `json:"created"`
	Edited    time.Time       `json:"edited"`
	CreatedBy string          `json:"created_by"`
	EditedBy  string          `json:"edited_by"`
	Seq       int64           `json:"seq"`
}

// page is a row of a data source, or a page below another page or the workspace.
type page struct {
	ID     string `json:"id"`
	Parent parent `json:"parent"`
	// Values by property id. A property without a value is empty.
	Values   map[string]value `json:"values"`
	Trashed  bool             `json:"in_trash"`
	Archived bool             `json:"is_archived"`
	Locked   bool             `json:"is_locked,omitempty"`
	Icon     json.RawMessage  `json:"icon,omitempty"`
	Cover    json.RawMessage  `json:"cover,omitempty"`
	// Created and Edited are exact; answers cut them to the minute.
	Created   time.Time `json:"created"`
	Edited    time.Time `json:"edited"`
	CreatedBy string    `json:"created_by"`
	EditedBy  string    `json:"edited_by"`
	Seq       int64     `json:"seq"`
}

// parent is an object's parent. The zero value is the workspace.
type parent struct {
	Source   string `json:"source,omitempty"`
	Database string `json:"database,omitempty"`
	Page     string `json:"page,omitempty"`
	Block    string `json:"block,omitempty"`
}

func newWorld() *world {
	w := &world{}
	w.fill()
	return w
}

// fill makes missing maps, the built-in users and the home page.
func (w *world) fill() {
	makeMap(&w.Users)
	makeMap(&w.Databases)
	makeMap(&w.Sources)
	makeMap(&w.Pages)
	makeMap(&w.Blocks)
	makeMap(&w.Comments)
	makeMap(&w.Views)
	makeMap(&w.Rows)
	makeMap(&w.Children)
	makeMap(&w.Hidden)
	makeMap(&w.past)
	for _, u := range builtinUsers {
		w.Users[u.ID] = u
	}
	if _, ok := w.Pages[homeID]; !ok {
		now := time.Now().UTC()
		w.Pages[homeID] = &page{
			ID: homeID, Values: map[string]value{titleID: {Spans: textSpans("Home")}},
			Created: now, Edited: now, CreatedBy: personID, EditedBy: personID,
		}
	}
}

func makeMap[K comparable, V any](m *map[K]V) {
	if *m == nil {
		*m = map[K]V{}
	}
}

// property returns the property of that name or id; names take precedence, as in Notion.
func (s *source) property(key string) (property, bool) {
	for _, p := range s.Properties {
		if p.Name == key {
			return p, true
		}
	}
	for _, p := range s.Properties {
		if p.hasID(key) {
			return p, true
		}
	}
	return property{}, false
}

// source returns the data source of a row, nil for other pages.
func (w *world) source(p *page) *source { return w.Sources[p.Parent.Source] }

// sources returns the ids of a database's data sources outside the trash. There is always one: the
// last cannot be trashed.
func (w *world) sources(d *database) []string {
	return slices.DeleteFunc(slices.Clone(d.Sources), func(id string) bool { return w.Sources[id].Trashed })
}

// onlySource reports whether a data source is the only one of its database.
func (w *world) onlySource(s *source) bool {
	return slices.Equal(w.sources(w.Databases[s.Database]), []string{s.ID})
}

// first returns the data source that API versions with one data source use.
func (w *world) first(d *database) *source { return w.Sources[w.sources(d)[0]] }

// title returns the plain text of a page's title.
func (w *world) title(p *page) string { return plainText(p.Values[titleID].Spans) }

// inTrash reports whether a page is in the trash, by itself or with what it lies in.
func (w *world) inTrash(p *page) bool {
	if p.Trashed {
		return true
	}
	in := p.Parent
	if s := w.source(p); s != nil {
		d := w.Databases[s.Database]
		if s.Trashed || d.Trashed {
			return true
		}
		in = d.Parent
	}
	above := w.Pages[in.Page]
	return above != nil && w.inTrash(above)
}

// live reports whether a page shows up in queries, searches and relations.
func (p *page) live() bool { return !p.Trashed && !p.Archived }

// at returns the version of a page that was current at t; nil if there was none, or it is no longer
// kept.
func (w *world) at(id string, t time.Time) *page {
	p := w.Pages[id]
	if !p.Edited.After(t) {
		return p
	}
	for _, old := range slices.Backward(w.past[id]) {
		if !old.Edited.After(t) {
			return old
		}
	}
	return nil
}

// pageURL returns the address of a page or, without a title, of a database.
func pageURL(title, id string) string {
	var slug strings.Builder
	for _, r := range title {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			slug.WriteRune(r)
		case slug.Len() > 0 && !strings.HasSuffix(slug.String(), "-"):
			slug.WriteByte('-')
		}
	}
	name := strings.TrimSuffix(slug.String(), "-")
	if name != "" {
		name += "-"
	}
	return "https://www.notion.so/" + name + undashed(id)
}
