package emulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

var builtinUsers = []*user{
	{ID: botID, Name: botName},
	{ID: personID, Name: "Maria", Person: true},
	{ID: "3e5b7a90-1c2d-4f3e-8a4b-5c6d7e8f9a02", Name: "Jonas", Person: true},
	{ID: "3e5b7a90-1c2d-4f3e-8a4b-5c6d7e8f9a03", Name: "Priya", Person: true},
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

// property is one property of a data source's schema.
type property struct {
	ID   string `json:"id"` // URL-encoded, as Notion shows it
	Name string `json:"name"`
	Type string `json:"type"`
	// Description is what people wrote about it; nil if nothing.
	Description *string `json:"description,omitempty"`

	Options []option  `json:"options,omitempty"` // select, multi_select, status
	Groups  []group   `json:"groups,omitempty"`  // status
	Link    *relation `json:"relation,omitempty"`
	// Config is the schema of any other type, shown as given.
	Config json.RawMessage `json:"config,omitempty"`
}

// colors of options, assigned in turn.
var colors = []string{"default", "gray", "brown", "orange", "yellow", "green", "blue", "purple", "pink", "red"}

type option struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"`
	Color       string  `json:"color"`
	Description *string `json:"description"`
	// group is the group in which a request puts a status option.
	group string
}

type group struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Color     string   `json:"color"`
	OptionIDs []string `json:"option_ids"`
}

// relation is where a relation property points.
type relation struct {
	Source string `json:"source"`
	// Synced is the id of the synced property on the other side; empty for a one-way relation.
	Synced string `json:"synced,omitempty"`
}

// hasID reports whether id is the property's, escaped or not.
func (p property) hasID(id string) bool {
	if p.ID == id {
		return true
	}
	raw, err := url.QueryUnescape(p.ID)
	return err == nil && raw == id
}

// value is the value of one property of one page. The property's type decides which field counts;
// the zero value is empty for every type.
type value struct {
	Spans   []span   `json:"spans,omitempty"`   // title, rich_text
	Number  *float64 `json:"number,omitempty"`  // number, unique_id
	Options []string `json:"options,omitempty"` // select, multi_select, status: ids
	Date    *date    `json:"date,omitempty"`
	Checked bool     `json:"checked,omitempty"`
	Text    *string  `json:"text,omitempty"`   // url, email, phone_number
	People  []string `json:"people,omitempty"` // ids of users
	Pages   []string `json:"pages,omitempty"`  // relation: ids
	// Raw is the value of types that Notion computes or only shows: formula, rollup, button, place,
	// verification, unsupported, files, and the created and edited properties if a test has set
	// them.
	Raw json.RawMessage `json:"raw,omitempty"`
}

// date is the value of a date property, as shown: each end is a day, or a time cut to the minute
// with a numeric offset, never "Z".
type date struct {
	Start string `json:"start"`
	End   string `json:"end,omitempty"`
}

// parent is an object's parent. The zero value is the workspace.
type parent struct {
	Source   string `json:"source,omitempty"`
	Database string `json:"database,omitempty"`
	Page     string `json:"page,omitempty"`
	Block    string `json:"block,omitempty"`
}

// block is a piece of a page's content.
type block struct {
	ID     string `json:"id"`
	Parent parent `json:"parent"`
	Type   string `json:"type"`
	// Text is the block's rich_text, if its type has one.
	Text []span `json:"text,omitempty"`
	// Rest has the other members under the type's key, as answers show them.
	Rest      map[string]json.RawMessage `json:"rest,omitempty"`
	Trashed   bool                       `json:"in_trash,omitempty"`
	Created   time.Time                  `json:"created"`
	Edited    time.Time                  `json:"edited"`
	CreatedBy string                     `json:"created_by"`
	EditedBy  string                     `json:"edited_by"`
	Seq       int64                      `json:"seq"`
}

// comment is a comment on a page or a block.
type comment struct {
	ID         string `json:"id"`
	Parent     parent `json:"parent"`
	Discussion string `json:"discussion"`
	Text       []span `json:"text"`
	// Name is the display name; empty for the author's own.
	Name      string    `json:"name,omitempty"`
	Created   time.Time `json:"created"`
	CreatedBy string    `json:"created_by"`
	Resolved  bool      `json:"resolved,omitempty"`
	Seq       int64     `json:"seq"`
}

// view is a view of a data source.
type view struct {
	ID       string          `json:"id"`
	Database string          `json:"database"`
	Source   string          `json:"source"`
	Name     string          `json:"name"`
	Type     string          `json:"type"`
	Config   json.RawMessage `json:"config,omitempty"`
	Created  time.Time       `json:"created"`
	Seq      int64           `json:"seq"`
}

// span is one piece of rich text, as answers show it.
type span struct {
	Type        string          `json:"type"`
	Text        *spanText       `json:"text,omitempty"`
	Mention     json.RawMessage `json:"mention,omitempty"`
	Equation    *equation       `json:"equation,omitempty"`
	Annotations annotations     `json:"annotations"`
	PlainText   string          `json:"plain_text"`
	Href        *string         `json:"href"`
}

type spanText struct {
	Content string `json:"content"`
	Link    *link  `json:"link"`
}

type link struct {
	URL string `json:"url"`
}

type equation struct {
	Expression string `json:"expression"`
}

type annotations struct {
	Bold          bool   `json:"bold"`
	Italic        bool   `json:"italic"`
	Strikethrough bool   `json:"strikethrough"`
	Underline     bool   `json:"underline"`
	Code          bool   `json:"code"`
	Color         string `json:"color"`
}

// subscription is what the state file keeps of a webhook.
type subscription struct {
	ID       string `json:"id"`
	URL      string `json:"url"`
	Token    string `json:"token"`
	Verified bool   `json:"verified"`
}

// Databases are the ids of the databases that Seed makes.
type Databases struct {
	Tasks   string `json:"tasks"`
	TaskLog string `json:"task_log"`
	MeshLog string `json:"mesh_log"`
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

// titleID is the id of every title property.
const titleID = "title"

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

func (w *world) find(id string) (*page, error) {
	if canonical, ok := parseID(id); ok {
		if p := w.Pages[canonical]; p != nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no page with the id %q", id)
}

func (w *world) firstSource(databaseID string) (*source, error) {
	if canonical, ok := parseID(databaseID); ok {
		if d := w.Databases[canonical]; d != nil && !d.Linked {
			return w.first(d), nil
		}
		if s := w.Sources[canonical]; s != nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("no database with the id %q", databaseID)
}

// newPropertyID mints an unused id of four characters, in the escaped form that Notion shows, such
// as "%3Dzw%7C".
func (s *source) newPropertyID() string {
	for {
		var b strings.Builder
		for range 4 {
			b.WriteByte(propertyIDAlphabet[randomBelow(len(propertyIDAlphabet))])
		}
		id := url.QueryEscape(b.String())
		if _, taken := s.property(id); !taken {
			return id
		}
	}
}

// propertyIDAlphabet has characters that clients must not escape twice, like Notion's ids. '%' and
// '/' are left out, so that every way of escaping an id gives the same one back.
const propertyIDAlphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ:;?@=`{|}[]<>^~_\\"

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

// plainText returns the text that people read.
func plainText(spans []span) string {
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.PlainText)
	}
	return b.String()
}

// textSpans returns s as plain rich text, in spans of at most maxContent.
func textSpans(s string) []span {
	var out []span
	for s != "" {
		size, cut := 0, len(s)
		for i, r := range s {
			size += utf16Len(string(r))
			if size > maxContent {
				cut = i
				break
			}
		}
		out = append(out, span{
			Type: "text", Text: &spanText{Content: s[:cut]}, PlainText: s[:cut],
			Annotations: annotations{Color: "default"},
		})
		s = s[cut:]
	}
	return out
}

func (w *world) encodeUser(id string) map[string]any {
	u, ok := w.Users[id]
	if !ok {
		return partialUser(id)
	}
	m := map[string]any{"object": "user", "id": u.ID, "name": u.Name, "avatar_url": nil, "type": "bot", "bot": map[string]any{}}
	if u.Agent {
		delete(m, "bot")
		m["type"] = "agent"
	}
	if u.Person {
		delete(m, "bot")
		m["type"] = "person"
		person := map[string]any{}
		if u.Email != "" {
			person["email"] = u.Email
		}
		m["person"] = person
	}
	return m
}

// partialUser encodes a user as created_by shows it.
func partialUser(id string) map[string]any { return map[string]any{"object": "user", "id": id} }

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

// tx is one transaction, which may only read. It runs with the emulator's lock, and is rolled back
// if it fails.
type tx struct {
	world *world
	now   time.Time
	user  string // the author
	// direct is set for changes that bypass the API: they may set read-only values, and have no
	// limits.
	direct bool
	// oneSource is set for API versions that know only one data source per database.
	oneSource bool
	// step is what dates are rounded up to; zero cuts them to the minute.
	step time.Duration
	undo []func()
	// watched is set if a webhook is to hear of the changes: they are then kept in changes.
	watched bool
	changes []change
}

// change says what an object was before a transaction wrote it: a nil pointer if it is new.
type change struct {
	id  string
	was any
}

// changed reports whether the transaction has written anything.
func (tx *tx) changed() bool { return len(tx.undo) > 0 }

// rollback undoes everything that was written.
func (tx *tx) rollback() {
	for i := len(tx.undo) - 1; i >= 0; i-- {
		tx.undo[i]()
	}
	tx.undo, tx.changes = nil, nil
}

// put replaces an entry of one of the world's maps.
func put[K comparable, V any](tx *tx, m map[K]V, key K, v V) {
	old, ok := m[key]
	tx.undo = append(tx.undo, func() {
		if ok {
			m[key] = old
		} else {
			delete(m, key)
		}
	})
	if tx.watched {
		if id, isID := any(key).(string); isID {
			tx.changes = append(tx.changes, change{id, old})
		}
	}
	m[key] = v
}

// drop removes an entry of one of the world's maps, if it is there.
func drop[K comparable, V any](tx *tx, m map[K]V, key K) {
	if old, ok := m[key]; ok {
		tx.undo = append(tx.undo, func() { m[key] = old })
		delete(m, key)
	}
}

// assign replaces a variable of the world.
func assign[T any](tx *tx, to *T, v T) {
	old := *to
	tx.undo = append(tx.undo, func() { *to = old })
	*to = v
}

// seq numbers a new object.
func (tx *tx) seq() int64 {
	tx.world.Seq++
	return tx.world.Seq
}

// takeBlocks counts n new blocks against the limit.
func (tx *tx) takeBlocks(n int) error {
	left := tx.world.BlocksLeft
	if left == nil {
		return nil
	}
	if n > *left {
		return restricted()
	}
	rest := *left - n
	assign(tx, &tx.world.BlocksLeft, &rest)
	return nil
}

// edit replaces a page by a changed copy and keeps the old version.
func (tx *tx) edit(old *page, change func(*page)) *page {
	p := *old
	p.Values = maps.Clone(old.Values)
	change(&p)
	p.Edited, p.EditedBy = tx.now, tx.user
	past := append(slices.Clone(tx.world.past[p.ID]), old)
	for len(past) > maxPast || len(past) > 1 && tx.now.Sub(past[1].Edited) > keepPast {
		past = past[1:]
	}
	put(tx, tx.world.past, p.ID, past)
	put(tx, tx.world.Pages, p.ID, &p)
	return &p
}

// editSource replaces a data source by a changed copy.
func (tx *tx) editSource(old *source, change func(*source)) *source {
	s := *old
	s.Properties = slices.Clone(old.Properties)
	change(&s)
	s.Edited, s.EditedBy = tx.now, tx.user
	put(tx, tx.world.Sources, s.ID, &s)
	return &s
}

// editDatabase replaces a database by a changed copy.
func (tx *tx) editDatabase(old *database, change func(*database)) *database {
	d := *old
	change(&d)
	d.Edited, d.EditedBy = tx.now, tx.user
	put(tx, tx.world.Databases, d.ID, &d)
	return &d
}

// stateFile keeps a world on disk. Changes made while a file is being written are written together
// by the next save.
type stateFile struct {
	path    string
	version int64 // the world's; guarded by the emulator's lock

	mu    sync.Mutex // locked while writing
	saved int64
}

// touch records a change of the world. The caller has the emulator's lock.
func (f *stateFile) touch() { f.version++ }

func (f *stateFile) load() (*world, error) {
	w := newWorld()
	if f.path == "" {
		return w, nil
	}
	data, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the emulator's state: %w", err)
	}
	w = &world{}
	if err := json.Unmarshal(data, w); err != nil {
		return nil, fmt.Errorf("reading the emulator's state %s: %w: move the file away to start anew", f.path, err)
	}
	w.fill()
	return w, nil
}

// save writes what snapshot returns, unless that version is on disk already. The file is replaced
// atomically.
func (f *stateFile) save(snapshot func() (data []byte, version int64)) error {
	if f.path == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	data, version := snapshot()
	if version == f.saved {
		return nil
	}
	if err := replaceFile(f.path, data); err != nil {
		return fmt.Errorf("writing the emulator's state: %w", err)
	}
	f.saved = version
	return nil
}

func replaceFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // already renamed, unless something failed
	if _, err := tmp.Write(data); err != nil {
		tmp.Close()
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

func (w *world) marshal() []byte { return compact(w) }
