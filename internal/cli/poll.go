package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

func (a *app) pollCommand() *cobra.Command {
	var body api.PollRequest
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "poll",
		Short: "Take what the agent should react to",
		Long: "Take what the agent should react to: triggers, each handed out once, the most urgent first.\n" +
			"What is not acknowledged with dibs ack within inbox.visibility comes back. Exit code 3: none.",
		Example: "  dibs poll --agent Sandman --wait 10m --limit 5",
		RunE: a.asking(func(cmd *cobra.Command, _ []string, daemon *client.Client) error {
			agent, err := a.claimer()
			if err != nil {
				return err
			}
			if wait < 0 || wait > api.MaxWait {
				return usagef("--wait %v: want a time from 0s to %v", wait, api.MaxWait)
			}
			if body.Limit < 0 || body.Limit > api.MaxTriggers {
				return usagef("--limit %d: want a number from 0 to %d", body.Limit, api.MaxTriggers)
			}
			if cmd.Flags().Changed("pid") && body.PID <= 0 {
				return usagef("--pid %d: want the number of a process", body.PID)
			}
			body.WaitSeconds = wait.Seconds()
			stop := a.tellPaused(cmd.Context(), daemon, agent, wait)
			got, err := daemon.Poll(cmd.Context(), agent, body, a.request)
			stop()
			if err != nil {
				return err
			}
			if err := a.print(got, func(w io.Writer) { showTriggers(w, got.Triggers, time.Now()) }); err != nil {
				return err
			}
			if len(got.Triggers) == 0 {
				a.say("nothing for %s", clean(agent))
				return ended{api.ExitNotClaimed}
			}
			return nil
		}),
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long to wait for a trigger, at most 1h")
	cmd.Flags().IntVar(&body.Limit, "limit", 0, "at most that many (0: a hundred)")
	cmd.Flags().BoolVar(&body.Finished, "finished", false, "from now on, tell this agent of every task that is finished")
	cmd.Flags().IntVar(&body.PID, "pid", 0, "a process, by its `number`: what it has not acknowledged when it ends comes back at once")
	a.addRequestID(cmd)
	return cmd
}

// showTriggers prints a line for each trigger.
func showTriggers(w io.Writer, triggers []api.Trigger, now time.Time) {
	for _, t := range triggers {
		about := "-"
		if t.Task != nil {
			about = short(cmp.Or(t.Task.Title, string(t.Task.ID)))
		}
		row(w, clean(t.ID), clock(t.At.Time, now), clean(string(t.Type)), about, aboutTrigger(t))
	}
}

// aboutTrigger returns a trigger's details, cut to fit a cell.
func aboutTrigger(t api.Trigger) string {
	var parts []string
	if t.Count > 0 {
		parts = append(parts, fmt.Sprintf("%d ready", t.Count))
	}
	if t.From != "" {
		parts = append(parts, "from "+t.From)
	}
	if t.Text != "" {
		parts = append(parts, t.Text)
	}
	return beginning(strings.Join(parts, ": "), maxText)
}

func (a *app) ackCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ack ID...",
		Short: "Say that triggers are dealt with",
		Long: "Mark triggers from dibs poll as dealt with, so that they do not come back. Doing it twice is harmless.\n" +
			"With --agent or DIBS_AGENT they must be that agent's. Exit code 1: there is no trigger of such an id.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%s wants ID...", cmd.CommandPath())
			}
			if len(args) > api.MaxAcks {
				return usagef("%s takes at most %d ids, got %d", cmd.CommandPath(), api.MaxAcks, len(args))
			}
			return nil
		},
		RunE: a.asking(func(cmd *cobra.Command, ids []string, daemon *client.Client) error {
			if err := a.checkAgent(); err != nil {
				return err
			}
			done, err := daemon.Ack(cmd.Context(), a.agent, api.AckRequest{IDs: ids}, a.request)
			if err != nil {
				return err
			}
			err = a.print(done, func(w io.Writer) {
				for _, id := range done.Acknowledged {
					row(w, clean(id), "acknowledged")
				}
			})
			if err != nil || len(done.Unknown) == 0 {
				return err
			}
			of := ""
			if a.agent != "" {
				of = " for " + clean(a.agent)
			}
			a.say("dibs: there is no trigger%s with the id %s: see dibs poll", of, clean(strings.Join(done.Unknown, ", ")))
			return ended{api.ExitFailure}
		}),
	}
	a.addRequestID(cmd)
	return cmd
}
