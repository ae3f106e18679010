package notion

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"dibs/internal/task"
)

// last notes the data source that stands for a database, should it get others.
func (s *sources) last(database, source task.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lasting == nil {
		s.lasting = make(map[task.ID]task.ID)
	}
	s.lasting[database] = source
}

// lasted is the data source that last noted; empty for none.
func (s *sources) lasted(database task.ID) task.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lasting[database]
}

// RecallSources has the client know what Sources returned in an earlier run. It sends nothing.
func (c *Client) RecallSources(known map[task.ID]task.ID) {
	for database, source := range known {
		c.sources.last(database, source)
	}
}

// Sources returns the data sources that stand for databases, as far as that is known. It asks
// Notion, with one request each, for those of which it is not. Should a database get further
// data sources, the one that is known goes on standing for it. The error says which could not
// be asked for.
func (c *Client) Sources(ctx context.Context, databases ...task.ID) (map[task.ID]task.ID, error) {
	known := make(map[task.ID]task.ID)
	var errs []error
	for _, id := range databases {
		if chosen := c.sources.of(id); chosen != "" {
			c.sources.last(id, chosen)
		} else if c.sources.lasted(id) == "" {
			if listed, err := c.listSources(ctx, id); err != nil {
				errs = append(errs, err)
			} else if len(listed.Sources) == 1 {
				c.sources.last(id, listed.Sources[0].ID)
			}
		}
		if source := c.sources.lasted(id); source != "" {
			known[id] = source
		}
	}
	return known, errors.Join(errs...)
}

// SourceAdded says in a line that a database has got further data sources of which none was
// named, and which one goes on being used; empty if that is not so. name is what the database
// is called.
func (c *Client) SourceAdded(database task.ID, name string) string {
	said := c.sources.choice(database)
	if said.source == "" || said.wanted != "" || said.alone {
		return ""
	}
	return fmt.Sprintf("%s has several data sources now, and the one it had (%s) goes on being used: set %s to it, or its name",
		name, said.source, cmp.Or(said.key, "its key in the configuration"))
}
