package emulator

import (
	"bytes"
	"math/rand/v2"
	"slices"
)

// event is one event in the form of Notion's body.
type event struct {
	ID             string    `json:"id"`
	Timestamp      string    `json:"timestamp"` // of the last change told, in milliseconds
	WorkspaceID    string    `json:"workspace_id"`
	WorkspaceName  string    `json:"workspace_name"`
	SubscriptionID string    `json:"subscription_id"`
	IntegrationID  string    `json:"integration_id"`
	Authors        []ref     `json:"authors"`
	Attempt        int       `json:"attempt_number"`
	APIVersion     version   `json:"api_version"`
	Type           string    `json:"type"`
	Entity         ref       `json:"entity"`
	Data           eventData `json:"data"`

	random *rand.Rand // of its delays
}

type eventData struct {
	Page   string `json:"page_id,omitempty"` // of a comment
	Parent ref    `json:"parent"`
	// Properties has ids of a page's properties, or propertyChanges of a schema.
	Properties []any `json:"updated_properties,omitempty"`
	Blocks     []ref `json:"updated_blocks,omitempty"`
}

// ref names an object in an event.
type ref struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Source string `json:"data_source_id,omitempty"` // of a page's database
}

// propertyChange is what happened to a property of a schema.
type propertyChange struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Action string `json:"action"` // created, updated, deleted
}

// join adds what a later event of the same type and entity says.
func (ev *event) join(next *event) {
	ev.Timestamp, ev.Data.Parent = next.Timestamp, next.Data.Parent
	ev.Authors = union(ev.Authors, next.Authors)
	ev.Data.Properties = union(ev.Data.Properties, next.Data.Properties)
	ev.Data.Blocks = union(ev.Data.Blocks, next.Data.Blocks)
}

func union[T comparable](a, b []T) []T {
	for _, v := range b {
		if !slices.Contains(a, v) {
			a = append(a, v)
		}
	}
	return a
}

// news collects the events of one transaction.
type news struct {
	*tx
	events []*event
}

// events returns what a committed transaction has changed for the connection: once for each object,
// whose first change says what it was before.
func (tx *tx) events() []*event {
	n := &news{tx: tx}
	seen := map[string]bool{}
	for _, c := range tx.changes {
		if seen[c.id] {
			continue
		}
		switch was := c.was.(type) {
		case *page:
			n.page(was, tx.world.Pages[c.id])
		case *source:
			n.source(was, tx.world.Sources[c.id])
		case *database:
			d := tx.world.Databases[c.id]
			if !tx.world.Hidden[c.id] {
				n.lifecycle(ref{ID: c.id, Type: "database"}, d.Parent, was == nil, was != nil && was.Trashed, d.Trashed)
			}
		case *block:
			if on := tx.world.pageOf(tx.world.Blocks[c.id]); was == nil && !on.Created.Equal(tx.now) { // the content of a new page is no event
				n.content(parent{Page: on.ID}, ref{ID: c.id, Type: "block"})
			}
		case *comment:
			n.comment(was, tx.world.Comments[c.id])
		default:
			continue // lists of ids, whose elements change as well
		}
		seen[c.id] = true
	}
	return n.events
}

// add tells of an entity in that place, and returns the event for more to be said.
func (n *news) add(kind string, entity ref, in parent) *event {
	author := ref{ID: n.user, Type: "bot"}
	if u := n.world.Users[n.user]; u != nil && u.Person {
		author.Type = "person"
	} else if u != nil && u.Agent {
		author.Type = "agent"
	}
	ev := &event{
		Authors: []ref{author}, Type: kind, Entity: entity, Data: eventData{Parent: n.world.refTo(in)},
	}
	n.events = append(n.events, ev)
	return ev
}

// refTo names a parent.
func (w *world) refTo(p parent) ref {
	switch {
	case p.Source != "":
		return ref{ID: w.Sources[p.Source].Database, Type: "database", Source: p.Source}
	case p.Database != "":
		return ref{ID: p.Database, Type: "database"}
	case p.Page != "":
		return ref{ID: p.Page, Type: "page"}
	case p.Block != "":
		return ref{ID: p.Block, Type: "block"}
	}
	return ref{ID: workspaceID, Type: "space"}
}

// lifecycle tells that an object was made, trashed or restored, and whether it did.
func (n *news) lifecycle(entity ref, in parent, isNew, wasTrashed, isTrashed bool) bool {
	switch {
	case isNew:
		n.add(entity.Type+".created", entity, in)
	case isTrashed && !wasTrashed:
		n.add(entity.Type+".deleted", entity, in)
	case wasTrashed && !isTrashed:
		n.add(entity.Type+".undeleted", entity, in)
	default:
		return false
	}
	return true
}

// content tells that something came into a page or a data source, or left it.
func (n *news) content(in parent, what ref) {
	var ev *event
	if s := n.world.Sources[in.Source]; s != nil && !n.world.Hidden[s.Database] {
		ev = n.add("data_source.content_updated", ref{ID: s.ID, Type: "data_source"}, parent{Database: s.Database})
	} else if p := n.world.Pages[in.Page]; p != nil && !n.world.hidden(p) {
		ev = n.add("page.content_updated", ref{ID: p.ID, Type: "page"}, p.Parent)
	}
	if ev != nil {
		ev.Data.Blocks = []ref{what}
	}
}

func (n *news) page(was, is *page) {
	if is == nil || n.world.hidden(is) {
		return
	}
	self := ref{ID: is.ID, Type: "page"}
	if n.lifecycle(self, is.Parent, was == nil, was != nil && was.Trashed, is.Trashed) {
		n.content(is.Parent, self)
	}
	if was == nil {
		return
	}
	if was.Locked != is.Locked {
		n.add(map[bool]string{true: "page.locked", false: "page.unlocked"}[is.Locked], self, is.Parent)
	}
	if was.Parent != is.Parent {
		n.add("page.moved", self, is.Parent)
		n.content(was.Parent, self)
		n.content(is.Parent, self)
		return // its properties are those of another schema
	}
	properties := []property{{ID: titleID}}
	if s := n.world.source(is); s != nil {
		properties = s.Properties
	}
	var ids []any
	for _, p := range properties {
		if !bytes.Equal(compact(was.Values[p.ID]), compact(is.Values[p.ID])) {
			ids = append(ids, p.ID)
		}
	}
	if ids != nil {
		n.add("page.properties_updated", self, is.Parent).Data.Properties = ids
	}
}

func (n *news) source(was, is *source) {
	if n.world.Hidden[is.Database] {
		return
	}
	self, in := ref{ID: is.ID, Type: "data_source"}, parent{Database: is.Database}
	if n.lifecycle(self, in, was == nil, was != nil && was.Trashed, is.Trashed) && was == nil {
		return
	}
	left := map[string][]byte{} // of the properties of before
	for _, p := range was.Properties {
		left[p.ID] = compact(p)
	}
	var changes []any
	for _, p := range is.Properties {
		if old := left[p.ID]; old == nil {
			changes = append(changes, propertyChange{p.ID, p.Name, "created"})
		} else if !bytes.Equal(old, compact(p)) {
			changes = append(changes, propertyChange{p.ID, p.Name, "updated"})
		}
		delete(left, p.ID)
	}
	for _, p := range was.Properties {
		if left[p.ID] != nil {
			changes = append(changes, propertyChange{p.ID, p.Name, "deleted"})
		}
	}
	if changes != nil {
		n.add("data_source.schema_updated", self, in).Data.Properties = changes
	}
}

// comment tells of a new comment. One that is resolved has no event.
func (n *news) comment(was, is *comment) {
	on := n.world.Pages[is.Parent.Page]
	if b := n.world.Blocks[is.Parent.Block]; b != nil {
		on = n.world.pageOf(b)
	}
	if was != nil || on == nil || n.world.hidden(on) {
		return
	}
	n.user = is.CreatedBy
	n.add("comment.created", ref{ID: is.ID, Type: "comment"}, is.Parent).Data.Page = on.ID
}
