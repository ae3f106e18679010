package notion

import (
	"context"
	"errors"
	"net/url"
	"slices"

	"dibs/internal/notion/transport"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// dependencies returns a page's relation for its dependencies.
func (c *codec) dependencies(page *notionapi.Page) relation {
	return relation{page.ID.String(), c.columns.dependsOn.ID}
}

// related reads and remembers all dependencies of a task. A page's answer shows only 25 of them.
func (t *Tasks) related(ctx context.Context, c *codec, id task.ID) ([]task.ID, error) {
	plain, err := url.PathUnescape(c.columns.dependsOn.ID)
	if err != nil {
		plain = c.columns.dependsOn.ID
	}
	path := "/v1/pages/" + string(id) + "/properties/" + url.PathEscape(plain)
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
	t.long.put(id, all)
	return slices.Clone(all), nil
}

// errNoCursor says that an answer has more results but no cursor.
var errNoCursor = errors.New("the answer says that there are more results, but has no cursor to them")

// maxAnswers limits the answers of a list: ten times those of the largest practical board.
const maxAnswers = 10_000

// errEndless says that a list does not end.
var errEndless = errors.New("the list of results does not come to an end")

// recall returns the dependencies of a task whose answer was incomplete: from memory, or else those
// shown.
func (t *Tasks) recall(id task.ID, shown []task.ID) []task.ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	if all, ok := t.long.get(id); ok {
		return slices.Clone(all)
	}
	return shown
}
