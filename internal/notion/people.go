package notion

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Person is somebody in the workspace.
type Person struct {
	ID   string
	Name string
	// Email is empty if the connection may not read it.
	Email string
}

// peopleKept is how long the list of people is valid, and peopleAnew its minimum age before it is
// read again for somebody who is not on it.
const (
	peopleKept = 10 * time.Minute
	peopleAnew = 10 * time.Second
)

// People lists the people of the workspace. It is safe for concurrent use.
type People struct {
	client *Client

	mu   sync.Mutex
	list []Person
	at   time.Time // when it was read; zero for never
	// failed is when that failed last, and why; nil if it did not since at.
	failed time.Time
	why    error
}

// People returns the list of the workspace's people. It sends nothing.
func (c *Client) People() *People { return &People{client: c} }

// List returns the people of the workspace. It takes a request for each hundred users, unless they
// were read within ten minutes; anew asks to read them again, because somebody is missing.
func (p *People) List(ctx context.Context, anew bool) ([]Person, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	good := peopleKept
	if anew {
		good = peopleAnew
	}
	if !p.at.IsZero() && time.Since(p.at) < good {
		return p.list, nil
	}
	if !anew && p.why != nil && time.Since(p.failed) < peopleKept {
		return nil, p.why
	}
	list, err := p.client.people(ctx)
	if err != nil {
		if ctx.Err() == nil {
			p.failed, p.why = time.Now(), err
		}
		return nil, err
	}
	p.list, p.at, p.why = list, time.Now(), nil
	return list, nil
}

// people reads the people of the workspace, without the connections.
func (c *Client) people(ctx context.Context) ([]Person, error) {
	query := url.Values{"page_size": {fmt.Sprint(pageSize)}}
	var people []Person
	for answers := 1; ; answers++ {
		var listed struct {
			Results []struct {
				ID     string `json:"id"`
				Name   string `json:"name"`
				Type   string `json:"type"`
				Person struct {
					Email string `json:"email"`
				} `json:"person"`
			} `json:"results"`
			HasMore    bool   `json:"has_more"`
			NextCursor string `json:"next_cursor"`
		}
		if err := c.get(ctx, "/v1/users", query, &listed); err != nil {
			if answered, ok := errors.AsType[*APIError](err); ok && forbidden(answered) {
				err = fmt.Errorf("to mention somebody needs the capability to read user information: switch it on at the connection's page in Notion: %w", answered)
				return nil, &claim.StoreError{Kind: claim.Refused, Landed: claim.LandedNo, Err: err}
			}
			return nil, storeError(err)
		}
		for _, u := range listed.Results {
			if u.Type == "person" {
				people = append(people, Person{u.ID, task.Name(u.Name), u.Person.Email})
			}
		}
		switch {
		case !listed.HasMore:
			return people, nil
		case listed.NextCursor == "" || listed.NextCursor == query.Get("start_cursor"):
			return nil, storeError(errNoCursor)
		case answers == maxAnswers:
			return nil, storeError(errEndless)
		}
		query.Set("start_cursor", listed.NextCursor)
	}
}
