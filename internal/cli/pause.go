package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

func (a *app) pauseCommand() *cobra.Command {
	var body api.PauseRequest
	var length time.Duration
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Grant nothing for a while; what is held goes on",
		Long: "Grant nothing for a while, to anybody or, with --agent, to one agent or all that a pattern covers, such\n" +
			"as agent-*. DIBS_AGENT does not count here. What is held goes on: it can be renewed, finished and given\n" +
			"back. Who asks for a task is refused with the code paused; who waits for one with --wait goes on waiting.\n" +
			"Without --for it lasts until dibs resume; a restart does not end it.",
		Example: "  dibs pause --reason 'the build is broken'\n  dibs pause --agent Sandman --for 2h",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("for") && length < time.Second {
				return usagef("--for %v: want a time from 1s", length)
			}
			body.ForSeconds = length.Seconds()
			return a.brake(cmd, "nothing was paused", func(ctx context.Context, daemon *client.Client, agent string) (api.Paused, error) {
				body.Agent = agent
				return daemon.Pause(ctx, body, a.request)
			})
		},
	}
	cmd.Flags().DurationVar(&length, "for", 0, "how long (default: until dibs resume)")
	cmd.Flags().StringVar(&body.Reason, "reason", "", "why, a `text` for those who are refused")
	a.addRequestID(cmd)
	return cmd
}

func (a *app) resumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "End a pause",
		Long: "End the pause of everybody, that of claim.breaker included, or with --agent that of one agent or\n" +
			"pattern, as it was given. Other pauses go on, and are named.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.brake(cmd, "nothing was paused", func(ctx context.Context, daemon *client.Client, agent string) (api.Paused, error) {
				return daemon.Resume(ctx, api.ResumeRequest{Agent: agent}, a.request)
			})
		},
	}
	a.addRequestID(cmd)
	return cmd
}

// brake pauses or resumes the agent of --agent, or else everybody, and prints what is paused then.
// none is the line if nothing changed.
func (a *app) brake(cmd *cobra.Command, none string, do func(ctx context.Context, daemon *client.Client, agent string) (api.Paused, error)) error {
	agent := ""
	if cmd.Flags().Changed("agent") {
		var err error
		if agent, err = a.claimer(); err != nil {
			return err
		}
	}
	daemon, err := a.daemon()
	if err != nil {
		return err
	}
	done, err := do(cmd.Context(), daemon, agent)
	if err != nil {
		return err
	}
	return a.print(done, func(w io.Writer) {
		switch {
		case !done.Changed:
			row(w, none)
		case len(done.Pauses) == 0:
			row(w, "nothing is paused")
		}
		for _, p := range done.Pauses {
			row(w, pausedLine(p, time.Now()))
		}
	})
}

// pausedLine says who is paused, by whom, until when and why.
func pausedLine(p api.Pause, now time.Time) string {
	whom := "everybody is paused"
	if p.Agent != "" {
		whom = clean(p.Agent) + " is paused"
	}
	line := whom + lasting(p.ExpiresAt, now) + ", by " + clean(p.By)
	if p.Reason != "" {
		line += ": " + clean(p.Reason)
	}
	return line
}

// firstPaused is after what time a command that still waits asks whether its agent is paused, and
// askPaused how often from then on.
const (
	firstPaused = time.Second
	askPaused   = 5 * time.Second
)

// tellPaused says once on stderr, while a command waits, that the agent is paused.
func (a *app) tellPaused(ctx context.Context, daemon *client.Client, agent string, wait time.Duration) (stop func()) {
	if wait <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for pause := firstPaused; ; pause = askPaused {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
			if who, err := daemon.Agent(ctx, agent); err == nil && who.Paused != nil {
				fmt.Fprintf(a.stderr, "dibs: %s; waiting\n", pausedLine(*who.Paused, time.Now()))
				return
			}
		}
	}()
	return func() { cancel(); <-gone }
}
