// Package mcp serves agents that use the Model Context Protocol: a server on stdin and stdout whose
// tools call the daemon.
//
// The process that runs the server keeps the agent's claims alive. When it ends, they stay alive
// for a grace period, so that the next server of the same agent can take them over. Every answer
// begins with what the agent must know: the claims that it lost, and those that it holds without
// knowing. Only the end of its input ends it. A claim granted to a cancelled call is given back.
package mcp

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/api/client"
	"dibs/internal/kit/clock"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Options configure a bridge: its agent and its daemon.
type Options struct {
	// Daemon returns the daemon. It is called for every request, from several goroutines. The agent
	// is told its error.
	Daemon func() (*client.Client, error)
	// Agent is the agent's name; empty for one per session of the client.
	Agent string
	// Session returns the id of the client's session, or of a thread in it; thread may be empty. It
	// returns nothing if it does not know.
	Session func(thread string) string
	// Grace is how long claims are kept after the bridge is gone.
	Grace   time.Duration
	Version string
	Log     *slog.Logger
}

const (
	// restart is how long a request waits for a daemon that is away: it may be restarting.
	restart = 5 * time.Second
	// retry is when a model is told to ask a daemon again that stayed away.
	retry = 10 * time.Second
	// refreshInterval is how often a bridge refreshes the claims of its agents.
	refreshInterval = 15 * time.Second
)

// Bridge connects one client to the daemon. It is safe for concurrent use.
type Bridge struct {
	options Options
	server  *sdk.Server
	pid     int
	// remote is set once the daemon was found to be on another machine.
	remote atomic.Bool

	// over ends when the client is gone.
	over context.Context
	end  context.CancelFunc

	minting sync.Mutex // locked while a name is minted

	mu         sync.Mutex        // guards all below
	names      map[string]string // by session
	agents     map[string]*agent // by name
	background sync.WaitGroup    // goroutines beside the calls
}

// New returns a bridge that keeps its agents' claims alive until ctx ends. The caller must Close
// it.
func New(ctx context.Context, o Options) *Bridge {
	b := &Bridge{options: o, pid: os.Getpid(), names: make(map[string]string), agents: make(map[string]*agent)}
	b.over, b.end = context.WithCancel(ctx)
	b.options.Daemon = func() (*client.Client, error) {
		daemon, err := o.Daemon()
		if err == nil {
			daemon.Await(restart)
		}
		return daemon, err
	}
	own := o.Log
	if !own.Enabled(ctx, slog.LevelDebug) {
		own = slog.New(slog.DiscardHandler) // the SDK logs every end as an error
	}
	if b.options.Session == nil {
		b.options.Session = func(string) string { return "" }
	}
	b.server = sdk.NewServer(&sdk.Implementation{Name: "dibs", Title: "dibs task queue", Version: o.Version}, &sdk.ServerOptions{
		Instructions: instructions,
		Logger:       own,
		Capabilities: &sdk.ServerCapabilities{
			//lint:ignore SA1019 clients of before 2026-07-28 are told of lost claims by it
			Logging: &sdk.LoggingCapabilities{}, // nothing else changes while a bridge runs
			Tools:   &sdk.ToolCapabilities{}, Prompts: &sdk.PromptCapabilities{}, Resources: &sdk.ResourceCapabilities{},
		},
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
	})
	b.addTools()
	b.addResources()
	b.addPrompt()
	b.server.AddReceivingMiddleware(b.recovered, inOrder)
	return b
}

// Server returns the MCP server, to be connected to a client.
func (b *Bridge) Server() *sdk.Server { return b.server }

// Close ends the bridge's goroutines.
func (b *Bridge) Close() {
	b.end()
	b.background.Wait()
}

// Serve serves a client that writes requests to in and reads answers from out, until the input or
// ctx ends. It writes nothing else to out.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	b := New(ctx, o)
	defer b.Close()
	if o.Agent != "" || b.options.Session("") != "" {
		b.background.Go(b.greet)
	}
	err := b.server.Run(ctx, transport{in: in, out: out, over: b.end})
	if b.over.Err() != nil { // nobody is left to be told
		return nil
	}
	return err
}

// greet begins to refresh the claims of an agent that is known from the start, so that it takes
// over those of a former bridge in time even if the agent calls no tool yet.
func (b *Bridge) greet() {
	for {
		if _, err := b.agent(b.over, caller{}); err == nil || clock.Pause(b.over, refreshInterval/3) != nil {
			return
		}
	}
}

// recovered turns a panic in a request into its error, so that the bridge survives.
func (b *Bridge) recovered(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (result sdk.Result, err error) {
		defer func() {
			if r := recover(); r != nil {
				b.options.Log.Error("a request could not be worked on: report this line", "method", method, "error", fmt.Sprint(r))
				result, err = nil, fmt.Errorf("%s could not be worked on: %v", method, r)
			}
		}()
		return next(ctx, method, req)
	}
}
