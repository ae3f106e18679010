package chaos_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"

	"dibs/config"
	"dibs/internal/api/client"
	"dibs/internal/daemon"
	"dibs/internal/door/server"
	"dibs/internal/notion/emulator"
)

// node is a daemon in this process, and a client of its socket.
type node struct {
	*client.Client
	stop func()
}

// nowhere is the network of a member without peers.
type nowhere struct{}

func (nowhere) Listen(context.Context, string) (net.Listener, error) {
	return server.NewPipe(), nil
}

func (nowhere) Dial(context.Context, string) (net.Conn, error) {
	return nil, errors.New("there is nobody else")
}

// again starts a daemon in this process, in virtual time, on p's state.
func (c *chaos) again(t *testing.T, notion *emulator.Emulator, p *process) *node {
	t.Helper()
	dbs := notion.Databases()
	cfg := config.Default()
	cfg.Notion.Token = config.Secret(notion.Token())
	cfg.Databases = config.Databases{Tasks: dbs.Tasks, TaskLog: dbs.TaskLog, MeshLog: dbs.MeshLog}
	cfg.StateDir = p.state
	if p.shares() {
		cfg.Journal.Postgres, cfg.Cluster.Name, cfg.Cluster.Listen = config.Secret(p.setting("DIBS_JOURNAL_POSTGRES")), "afterwards", "afterwards:1"
		cfg.Notion.Rate, cfg.Notion.Burst = 20, 40 // it does the work of four
	}
	cfg.Notion.Timeout, cfg.Sync.Interval = c.timeout, c.interval
	cfg.Claim.Timeout, cfg.Claim.WriteWindow, cfg.Claim.Settle = chaosLease, c.window, c.settle
	cfg.Claim.Breaker.Failures = 0
	pipe := server.NewPipe()
	var log io.Writer = io.Discard // the complaints are not to be looked for in it
	if testing.Verbose() {
		log = t.Output()
	}
	d, err := daemon.Start(t.Context(), daemon.Options{
		Config: cfg, Version: "test", Transport: notion.Client().Transport, Listener: pipe, Network: nowhere{},
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return &node{Client: client.Over("pipe", pipe.Dial), stop: func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}}
}
