package notion

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"dibs/internal/task"
)

// last records a database's data source, in case the database gets others.
func (s *sources) last(database, source task.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lasting == nil {
		s.lasting = make(map[task.ID]task.ID)
	}
	s.lasting[database] = source
}

// lasted returns the data source that last recorded; empty for none.
func (s *sources) lasted(database task.ID) task.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lasting[database]
}

// RecallSources gives the client the result of Sources from an earlier run. It sends nothing.
func (c *Client) RecallSources(known map[task.ID]task.ID) {
	for database, source := range known {
		c.sources.last(database, source)
	}
}

// Sources returns the databases' data sources. It asks Notion for unknown ones, with one request
// each. A known data source stays in use if the database gets others. The error says which could
// not be asked for; known ones are returned all the same.
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

// SourceAdded returns one line if a database got further data sources and none was named: it says
// which one stays in use. Otherwise it is empty. name is the database's name.
func (c *Client) SourceAdded(database task.ID, name string) string {
	said := c.sources.choice(database)
	if said.source == "" || said.wanted != "" || said.alone {
		return ""
	}
	return fmt.Sprintf("%s has several data sources now, and the one it had (%s) goes on being used: set %s to it, or its name",
		name, said.source, cmp.Or(said.key, "its key in the configuration"))
}
