package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/kit/clock"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Who is part of the arguments of every tool.
type Who struct {
	Agent string `json:"agent,omitempty" jsonschema:"another's"`
}

func (w Who) who() string { return w.Agent }

// News is part of the answer of every tool.
type News struct {
	Notices []string `json:"notices,omitempty"`
}

func (n *News) setNotices(news []string) { n.Notices = news }

// call is one call of a tool.
type call struct {
	context.Context
	*Bridge
	agent  *agent
	daemon *client.Client
	req    *sdk.CallToolRequest
	// about is set if agent is another agent, which the call only asks about.
	about bool
}

// kind says whether a tool changes anything.
type kind int

const (
	reads kind = iota
	adds       // something new
	changes
)

// add adds a tool. do returns the text and the structured answer.
func add[In interface{ who() string }, Out any, Answer interface {
	*Out
	setNotices([]string)
}](b *Bridge, name string, k kind, description string, do func(*call, In) (string, Out, error)) {
	in, all, out := schemaOf[In](false), schemaOf[In](false), schemaOf[Out](true)
	isUnlisted := func(argument string) bool { return slices.Contains(unlisted(name), argument) }
	maps.DeleteFunc(in.Properties, func(argument string, _ *jsonschema.Schema) bool { return isUnlisted(argument) })
	in.PropertyOrder, in.Required = slices.DeleteFunc(in.PropertyOrder, isUnlisted), slices.DeleteFunc(in.Required, isUnlisted)
	t := &sdk.Tool{
		Name: name, Description: description, InputSchema: in, OutputSchema: out,
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: k == reads},
	}
	if k == adds {
		t.Annotations.DestructiveHint = new(bool)
	}
	b.server.AddTool(t, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var err error
		c := &call{Context: ctx, Bridge: b, req: req}
		args, wrong := arguments[In](req.Params.Arguments, in, all)
		if c.daemon, err = b.options.Daemon(); err != nil {
			return failed(ctx, err, nil), nil
		}
		who := caller{name: args.who(), thread: threadOf(req.Params.GetMeta())}
		if c.about = name == "list_tasks" && b.isAnother(who); c.about {
			c.agent, who.name = newAgent(who.name), ""
		}
		asks, err := b.agent(ctx, who)
		if err != nil {
			return failed(ctx, cmp.Or(wrong, err), nil), nil
		}
		if !c.about {
			c.agent = asks
		}
		if wrong != nil {
			return failed(ctx, wrong, b.news(ctx, asks)), nil
		}
		text, out, err := do(c, args)
		if _, unreachable := errors.AsType[*client.UnreachableError](err); unreachable {
			p := problemOf(ctx, err)
			if p.RetryAfter > 0 {
				p.Detail += asks.kept()
			}
			return failed(ctx, p, nil), nil // the daemon has no news either
		}
		news := b.news(ctx, asks)
		if err != nil {
			return failed(ctx, err, news), nil
		}
		Answer(&out).setNotices(news)
		return result(text, out, news, false), nil
	})
}

// news returns the notices for the agent's next answer: claims that it lost, or holds without
// knowing.
func (b *Bridge) news(ctx context.Context, a *agent) []string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	held, _, err := b.refresh(ctx, a, b.options.Hosted == "")
	var news []string
	for _, c := range a.news() {
		news = append(news, goneText(c))
		b.confirmLoss(ctx, a, c)
	}
	if err != nil {
		return news
	}
	for _, c := range held {
		if a.learns(c) {
			news = append(news, alsoText(c))
		}
	}
	return news
}

// confirmLoss makes the daemon record that the agent was told of the end of a claim.
func (b *Bridge) confirmLoss(ctx context.Context, a *agent, c api.Claim) {
	daemon, err := b.options.Daemon()
	if err == nil {
		_, err = client.Do(ctx, daemon, api.OpGetClaim, api.GetClaimInput{ID: string(c.ID), Agent: a.name, After: api.EventsFuture})
	}
	if err != nil {
		b.options.Log.Debug("could not report that an agent was told of a lost claim", "claim", c.ID, "error", err)
	}
}

// waiting returns a context for a wait. It ends with the call, and when the client is gone.
func (c *call) waiting() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(c.Context)
	stop := context.AfterFunc(c.over, func() { cancel(fmt.Errorf("the client is gone")) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// progress reports to the client, if it wants that, that the call still waits.
func (c *call) progress(ctx context.Context, wait time.Duration, what string) {
	token := c.req.Params.GetProgressToken()
	if token == nil {
		return
	}
	began := time.Now()
	for clock.Pause(ctx, 5*time.Second) == nil {
		waited := time.Since(began).Round(time.Second)
		err := c.req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
			ProgressToken: token, Progress: waited.Seconds(), Total: wait.Seconds(),
			Message: fmt.Sprintf("%s: %v of %v", what, waited, wait),
		})
		if err != nil {
			return
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// mine finds the agent's claim on a task, or its only one.
func (c *call) mine(named string) (api.Claim, error) {
	id := api.OnlyClaim
	if parsed, ok := claim.ParseID(named); ok {
		id = string(parsed)
	} else if named != "" {
		t, err := taskID(named)
		if err != nil {
			return api.Claim{}, err
		}
		id = string(t)
	}
	return client.Do(c, c.daemon, api.OpGetClaim, api.GetClaimInput{ID: id, Agent: c.agent.name, After: api.EventsFuture})
}
