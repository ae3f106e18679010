package mcp

import (
	"fmt"

	"dibs/internal/api"
)

// AddArgs are the arguments of add_task.
type AddArgs struct{ api.AddRequest }

func (in AddArgs) who() string { return in.Agent }

// Added is the answer of add_task.
type Added struct {
	Task Task   `json:"task"`
	URL  string `json:"url,omitempty"`
	News
}

func addTask(c *call, in AddArgs) (string, Added, error) {
	in.Agent = c.agent.name
	key := newKey()
	added, err := insist(c, func() (api.Added, error) { return c.daemon.Add(c, in.AddRequest, key) })
	if err != nil {
		return "", Added{}, err
	}
	out := Added{Task: listedTask(added.Task), URL: added.Task.URL}
	return fmt.Sprintf("Added %s.", taskLine(out.Task)), out, nil
}

// CommentArgs are the arguments of comment.
type CommentArgs struct {
	Task string `json:"task,omitempty" jsonschema:"default: the one you hold"`
	api.CommentRequest
	Ask bool `json:"ask,omitempty"`
}

func (in CommentArgs) who() string { return in.Agent }

// Commented is the answer of comment.
type Commented struct {
	Task Task `json:"task"`
	api.Owed
	News
}

func comment(c *call, in CommentArgs) (string, Commented, error) {
	if in.Ask {
		return ask(c, in)
	}
	id, err := taskID(in.Task)
	if err == nil && id == "" {
		var cl api.Claim
		cl, err = c.mine("")
		id = cl.Task.ID
	}
	if err != nil {
		return "", Commented{}, err
	}
	in.Agent = c.agent.name
	key := newKey()
	said, err := insist(c, func() (api.Commented, error) { return c.daemon.Comment(c, id, in.CommentRequest, key) })
	if err != nil {
		return "", Commented{}, err
	}
	out := Commented{Task: taskOf(said.Task), Owed: api.Owed{Pending: said.Detail != ""}}
	text := fmt.Sprintf("Commented on %s.", called(out.Task))
	if out.Pending {
		text += " Not on the page yet: " + line(said.Detail)
	}
	return text, out, nil
}

// ask asks people a question, and ends the claim until they answer.
func ask(c *call, in CommentArgs) (string, Commented, error) {
	cl, err := c.mine(in.Task)
	if err != nil {
		return "", Commented{}, err
	}
	key := newKey()
	ended, err := c.ending(cl, func() (api.Claim, error) {
		return c.daemon.Ask(c, string(cl.ID), api.AskRequest{Agent: c.agent.name, Text: in.Text, To: in.Mention}, key)
	})
	if err != nil {
		return "", Commented{}, err
	}
	out := Commented{Task: taskOf(ended.Task), Owed: ended.Owed}
	return fmt.Sprintf("Asked on %s, which is blocked and yours no longer; the answer comes to your inbox.", called(out.Task)) + owedText(out.Owed), out, nil
}
