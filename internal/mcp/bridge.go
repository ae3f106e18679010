// Package mcp is dibs for agents that speak the Model Context Protocol: a server on stdin
// and stdout whose tools ask the daemon.
//
// What an agent claims through it is kept alive by the process that runs it, and for a
// while after that, for the next one of the same name to take over. Every answer says
// first what the agent has to know whatever it asked: which claims it has lost, and which
// it holds that it was not told of.
package mcp

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/api/client"
	"dibs/internal/clock"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Options say for whom a bridge works, and with which daemon.
type Options struct {
	// Daemon is the daemon that is asked. It is called whenever something is asked, from
	// several goroutines: what keeps it from succeeding is told to the agent.
	Daemon func() (*client.Client, error)
	// Agent is the agent's name; empty for one per session of the client.
	Agent string
	// Session tells the client's session from all others, and the thread of it that a
	// request names, which may be empty; it returns nothing if nothing is known of it.
	Session func(thread string) string
	// Grace is how long what the bridge claimed is kept once it is gone; 0 for a minute.
	Grace   time.Duration
	Version string
	Log     *slog.Logger
}

const (
	defaultGrace = time.Minute
	// look is how often a bridge looks after the claims of its agents.
	look = 15 * time.Second
)

// Bridge is between one client and the daemon. It is safe for concurrent use.
type Bridge struct {
	options Options
	server  *sdk.Server
	pid     int
	// elsewhere is set once the daemon was found to be on another machine.
	elsewhere atomic.Bool

	// over ends once there is nobody left to wait for.
	over context.Context
	end  context.CancelFunc

	minting sync.Mutex // held while a name is asked for

	mu     sync.Mutex        // guards all below
	names  map[string]string // by session
	agents map[string]*agent // by name
	tasks  sync.WaitGroup    // what goes on behind the answers
}

// New returns a bridge that looks after the claims of its agents until ctx ends. Whoever
// made one must Close it.
func New(ctx context.Context, o Options) *Bridge {
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	b := &Bridge{options: o, pid: os.Getpid(), names: make(map[string]string), agents: make(map[string]*agent)}
	b.over, b.end = context.WithCancel(ctx)
	own := o.Log
	if !own.Enabled(ctx, slog.LevelDebug) {
		own = slog.New(slog.DiscardHandler) // to the SDK, every end is an error
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

// Server is the MCP server, to be connected to a client.
func (b *Bridge) Server() *sdk.Server { return b.server }

// Close ends what goes on behind the answers.
func (b *Bridge) Close() {
	b.end()
	b.tasks.Wait()
}

// Serve serves a client that writes its requests to in, and reads the answers from out,
// until there is no more input or ctx ends. Nothing else is written to out.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	b := New(ctx, o)
	defer b.Close()
	if o.Agent != "" || b.options.Session("") != "" {
		b.tasks.Go(b.greet)
	}
	err := b.server.Run(ctx, transport{in: in, out: out, over: b.end})
	if b.over.Err() != nil { // there is nobody to be told more
		return nil
	}
	return err
}

// greet begins to look after the claims of an agent that is known before it asks anything.
// What a former bridge held for it is taken over in time even if it is in no hurry.
func (b *Bridge) greet() {
	for {
		if _, err := b.agent(b.over, caller{}); err == nil || clock.Pause(b.over, look/3) != nil {
			return
		}
	}
}

// recovered answers a request that could not be worked on because of a defect, so that it
// takes nothing else along.
func (b *Bridge) recovered(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (result sdk.Result, err error) {
		defer func() {
			if r := recover(); r != nil {
				b.options.Log.Error("a request could not be worked on", "method", method, "error", fmt.Sprint(r))
				result, err = nil, fmt.Errorf("%s could not be worked on: %v", method, r)
			}
		}()
		return next(ctx, method, req)
	}
}
