package notion

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Bot is the user that the token belongs to.
type Bot struct {
	ID        string
	Name      string
	Workspace string
	// OwnedBy is "workspace" for a connection of the workspace, and "user" for one that
	// acts for a person.
	OwnedBy string
	// MaxUpload is the size limit of a file in bytes; zero if Notion does not say. Notion tells
	// nothing else of the workspace's plan.
	MaxUpload int64
}

// FreeUpload is the size limit of a file on the Free plan, in bytes.
const FreeUpload = 5 << 20

// Me asks Notion which user the token belongs to.
func (c *Client) Me(ctx context.Context) (Bot, error) {
	var user struct {
		ID   string `json:"id"`
		Name string `json:"name"`
		Bot  struct {
			Owner struct {
				Type string `json:"type"`
			} `json:"owner"`
			Workspace string `json:"workspace_name"`
			Limits    struct {
				MaxUpload int64 `json:"max_file_upload_size_in_bytes"`
			} `json:"workspace_limits"`
		} `json:"bot"`
	}
	if err := c.get(ctx, "/v1/users/me", nil, &user); err != nil {
		return Bot{}, storeError(err)
	}
	c.bot.Store(&user.ID)
	return Bot{user.ID, user.Name, user.Bot.Workspace, user.Bot.Owner.Type, user.Bot.Limits.MaxUpload}, nil
}

// Bot returns the id of the user that the token belongs to. It asks Notion once.
func (c *Client) Bot(ctx context.Context) (string, error) {
	if known := c.KnownBot(); known != "" {
		return known, nil
	}
	me, err := c.Me(ctx)
	return me.ID, err
}

// KnownBot is Bot without a request; empty if Notion was not asked yet.
func (c *Client) KnownBot() string {
	if id := c.bot.Load(); id != nil {
		return *id
	}
	return ""
}

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

// Learn asks Notion for the name of a user, in one request, unless it did so within ten minutes. A
// name that cannot be read is left as it is known.
func (u *Users) Learn(ctx context.Context, id string) {
	u.mu.Lock()
	is := u.known[id]
	fresh := !is.at.IsZero() && time.Since(is.at) < peopleKept
	if !fresh {
		u.known[id] = learned{is.name, time.Now()}
	}
	u.mu.Unlock()
	if fresh {
		return
	}
	var user struct {
		Name string `json:"name"`
	}
	if err := u.client.get(ctx, "/v1/users/"+url.PathEscape(id), nil, &user); err != nil {
		return // without the capability to read users, for example
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.known[id] = learned{shortened(task.Name(strings.TrimSpace(task.OneLine(user.Name, unicode.ReplacementChar)))), time.Now()}
}
