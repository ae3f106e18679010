package mcp

import (
	"fmt"
	"strings"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/journal/inbox"
)

// InboxArgs are the arguments of inbox.
type InboxArgs struct {
	Who
	Done  []string `json:"done,omitempty" jsonschema:"ids you have dealt with"`
	Wait  float64  `json:"wait_seconds,omitempty"`
	Limit int      `json:"limit,omitempty" jsonschema:"default 10"`
}

// Trigger is something that an agent should react to.
type Trigger struct {
	ID    string     `json:"id"`
	Type  inbox.Type `json:"type"`
	Task  *Task      `json:"task,omitempty"`
	From  string     `json:"from,omitempty"`
	Text  string     `json:"text,omitempty"`
	Count int        `json:"count,omitempty"`
}

// Taken is the answer of inbox.
type Taken struct {
	Triggers []Trigger `json:"triggers"`
	Unknown  []string  `json:"unknown,omitempty"`
	News
}

const defaultTriggers = 10

func readInbox(c *call, in InboxArgs) (string, Taken, error) {
	out := Taken{Triggers: []Trigger{}}
	switch {
	case in.Wait < 0 || in.Wait > api.MaxWait.Seconds():
		return "", out, usagef("wait_seconds: want 0 to %.0f", api.MaxWait.Seconds())
	case in.Limit < 0 || in.Limit > api.MaxTriggers:
		return "", out, usagef("limit: want 1 to %d", api.MaxTriggers)
	case len(in.Done) > api.MaxAcks:
		return "", out, usagef("done: want at most %d ids", api.MaxAcks)
	case in.Limit == 0:
		in.Limit = defaultTriggers
	}
	var lines []string
	if len(in.Done) > 0 {
		acked, err := c.daemon.Ack(c, c.agent.name, api.AckRequest{IDs: in.Done}, "")
		if err != nil {
			return "", out, err
		}
		for _, id := range acked.Unknown {
			out.Unknown = append(out.Unknown, line(id))
		}
		if len(out.Unknown) > 0 {
			lines = append(lines, "Unknown ids in done: "+strings.Join(out.Unknown, ", ")+".")
		}
	}
	ctx, done := c.waiting()
	defer done()
	if in.Wait > 0 {
		c.background.Go(func() { c.progress(ctx, seconds(in.Wait), "nothing yet") })
	}
	// A poll repeated under its key gets the same triggers.
	poll := func() (api.Triggers, error) {
		key := newKey()
		return insist(ctx, func() (api.Triggers, error) {
			return client.Do(ctx, c.daemon, api.OpPoll, api.PollInput{Name: c.agent.name, Key: key, Body: &api.PollRequest{WaitSeconds: in.Wait, Limit: in.Limit, PID: c.process(), Repository: c.options.Repository}})
		})
	}
	got, err := poll()
	if c.isRemote(err) {
		got, err = poll()
	}
	if err != nil {
		return "", out, err
	}
	for _, t := range got.Triggers {
		trigger := triggerOf(t)
		out.Triggers = append(out.Triggers, trigger)
		lines = append(lines, "- "+triggerText(trigger))
	}
	if len(out.Triggers) == 0 {
		lines = append(lines, "Nothing in the inbox of "+line(c.agent.name)+".")
	}
	return strings.Join(lines, "\n"), out, nil
}

func triggerOf(t api.Trigger) Trigger {
	out := Trigger{ID: t.ID, Type: t.Type, From: line(t.From), Text: line(t.Text), Count: t.Count}
	if t.Task != nil {
		about := taskOf(*t.Task)
		out.Task = &about
	}
	return out
}

func triggerText(t Trigger) string {
	text := string(t.Type)
	if t.Task != nil {
		text += " " + called(*t.Task)
	}
	if t.From != "" {
		text += " from " + t.From
	}
	if t.Text != "" {
		text += ": " + t.Text
	}
	if t.Count > 0 {
		text += fmt.Sprintf(": %d", t.Count)
	}
	return text + " [id " + t.ID + "]"
}

// SendArgs are the arguments of send.
type SendArgs struct {
	Who
	To   string `json:"to" jsonschema:"an agent, or all"`
	Text string `json:"text" fit:"exact"`
}

// Sent is the answer of send.
type Sent struct {
	ID     string   `json:"id"`
	Agents []string `json:"agents"`
	News
}

func send(c *call, in SendArgs) (string, Sent, error) {
	key := newKey()
	sent, err := insist(c, func() (api.Message, error) {
		return client.Do(c, c.daemon, api.OpSend, api.Keyed(key, api.MessageRequest{From: c.agent.name, To: in.To, Text: in.Text}))
	})
	if err != nil {
		return "", Sent{}, err
	}
	out := Sent{ID: sent.ID, Agents: sent.Agents}
	if len(out.Agents) == 0 {
		out.Agents = []string{}
		return "Sent; no agent of that name is known here yet.", out, nil
	}
	return "Sent to " + line(strings.Join(out.Agents, ", ")) + ".", out, nil
}
