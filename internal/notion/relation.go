package notion

import (
	"context"
	"errors"
	"net/url"
	"slices"

	"dibs/internal/notion/transport"
	"dibs/internal/task"
)

// relation is one relation property of one page.
type relation struct{ page, property string }

// whole makes the relations of a task whole that its page shows in part. all
// returns a relation of which that part is shown.
func (c *codec) whole(page *page, row *task.Task, all func(of relation, shown []task.ID) ([]task.ID, error)) error {
	for id, ids := range map[string]*[]task.ID{c.columns.dependsOn.ID: &row.DependsOn, c.columns.subItems.ID: &row.SubItems} {
		if p := page.Properties[id]; p == nil || !p.HasMore {
			continue
		}
		var err error
		if *ids, err = all(relation{page.ID, id}, *ids); err != nil {
			return err
		}
	}
	return nil
}

// related reads and remembers a whole relation. A page's answer shows only 25 of its tasks.
func (t *Tasks) related(ctx context.Context, of relation) ([]task.ID, error) {
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

// errNoCursor says that an answer has more results but no cursor.
var errNoCursor = errors.New("the answer says that there are more results, but has no cursor to them")

// maxAnswers limits the answers of a list: ten times those of the largest practical board.
const maxAnswers = 10_000

// errEndless says that a list does not end.
var errEndless = errors.New("the list of results does not come to an end")

// recall returns a relation from memory, or else what is shown of it.
func (t *Tasks) recall(of relation, shown []task.ID) ([]task.ID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if all, ok := t.long.get(of); ok {
		return slices.Clone(all), nil
	}
	return shown, nil
}
