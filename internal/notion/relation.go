package notion

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"time"

	"dibs/internal/notion/transport"
	"dibs/internal/task"
)

// related reads and remembers a whole relation. A page's answer shows only 25 of its tasks.
func (t *Tasks) related(ctx context.Context, of relationKey) ([]task.ID, error) {
	path := "/v1/pages/" + of.page + "/properties/" + url.PathEscape(plainID(of.property))
	query := url.Values{"page_size": {"100"}}
	var all []task.ID
	for answers := 1; ; answers++ {
		var items struct {
			Results []struct {
				Relation pageRef `json:"relation"`
			} `json:"results"`
			HasMore    bool   `json:"has_more"`
			NextCursor string `json:"next_cursor"`
		}
		if err := t.client.get(transport.WithoutPermits(ctx), path, query, &items); err != nil {
			return nil, err
		}
		for _, item := range items.Results {
			other, err := task.ParseID(item.Relation.ID)
			if err != nil {
				return nil, err
			}
			all = append(all, other)
		}
		if !items.HasMore {
			break
		}
		if items.NextCursor == "" || items.NextCursor == query.Get("start_cursor") {
			return nil, errNoCursor
		}
		if answers == maxAnswers {
			return nil, errEndless
		}
		query.Set("start_cursor", items.NextCursor)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.long.put(of, all)
	return slices.Clone(all), nil
}

// recall returns a relation from memory, or else the part that the page shows.
func (t *Tasks) recall(of relationKey, shown []task.ID) ([]task.ID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if all, ok := t.long.get(of); ok {
		return slices.Clone(all), nil
	}
	return shown, nil
}

const (
	// titleKept is how long a related page's title is used before the page is read again.
	titleKept = 24 * time.Hour
	// titleRefused is how long a page is left alone that Notion does not show.
	titleRefused = time.Hour
)

// Titled returns a task with the titles of the pages that its fields relate to in place of their ids,
// as far as SetTitle was told, and with what it lacks of the scope by them. It sends nothing.
func (t *Tasks) Titled(row task.Task) task.Task {
	for name, ids := range row.Related {
		shown := t.headed(ids)
		for _, in := range []*task.Fields{&row.Fields, &row.Scope} {
			if before, has := (*in)[name]; has && !reflect.DeepEqual(before, shown) {
				*in = maps.Clone(*in)
				(*in)[name] = shown
			}
		}
	}
	row.Outside = task.Filter{Where: t.codec.Load().scope}.Miss(row, nil)
	return row
}

// headed returns the titles of pages; the id of one whose title is not known.
func (t *Tasks) headed(ids []task.ID) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	return listOf(ids, func(id task.ID) any { return cmp.Or(t.headings[id].title, string(id)) })
}

// Untitled returns the pages that the fields of a task relate to and whose titles are to be read,
// because they are not known, or were read long ago.
func (t *Tasks) Untitled(row task.Task) (due []task.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, ids := range row.Related {
		for _, id := range ids {
			if !t.headings[id].due.After(time.Now()) {
				due = append(due, id)
			}
		}
	}
	return due
}

// PageTitle reads the title of a page, with one request. The error is a *claim.StoreError.
func (t *Tasks) PageTitle(ctx context.Context, id task.ID) (string, error) {
	page, err := t.client.page(ctx, id)
	if err != nil {
		return "", err
	}
	for _, p := range page.Properties {
		if p.Type == typeTitle {
			return shortened(task.Plain(p.text())), nil
		}
	}
	return "", nil
}

// SetTitle tells the title of a page that tasks relate to, or why it could not be read, and reports
// whether tasks show something else now. A page that Notion does not show keeps its last title.
func (t *Tasks) SetTitle(id task.ID, title string, err error) (news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.headings[id]
	next := heading{title, time.Now().Add(titleKept)}
	if err != nil {
		next = heading{before.title, time.Now().Add(titleRefused)}
	}
	t.headings[id] = next
	return next.title != before.title
}

// RecallTitles learns titles from tasks of an earlier run, to show them until they are read again.
func (t *Tasks) RecallTitles(rows []task.Task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, row := range rows {
		for name, ids := range row.Related {
			shown, _ := row.Field(name).([]any)
			for i, id := range ids {
				if i < len(shown) && shown[i] != string(id) {
					title, _ := shown[i].(string)
					t.headings[id] = heading{title: title}
				}
			}
		}
	}
}

// pagesTitled returns the related pages of that title.
func (t *Tasks) pagesTitled(title string) (ids []task.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, known := range t.headings {
		if known.title != "" && task.FieldMatches(known.title, title) {
			ids = append(ids, id)
		}
	}
	return ids
}
