package notion

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode"

	"dibs/internal/task"
)

// Users knows the names of users of the workspace by their ids: people, connections, and Notion's
// own agents, as far as the connection may read them. It is safe for concurrent use.
type Users struct {
	client *Client

	mu    sync.Mutex
	known map[string]learned
}

// learned is a user's name, empty if it could not be read, and when it was asked for.
type learned struct {
	name string
	at   time.Time
}

// Users returns the names of users, as far as they are known. It sends nothing.
func (c *Client) Users() *Users { return &c.users }

// Name returns the name of a user; empty if it is not known. It sends nothing.
func (u *Users) Name(id string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.known[id].name
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
