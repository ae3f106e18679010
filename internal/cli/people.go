package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/task"

	"github.com/spf13/cobra"
)

func (a *app) commentCommand() *cobra.Command {
	var body api.CommentRequest
	cmd := &cobra.Command{
		Use:   "comment TASK TEXT",
		Short: "Comment on a task",
		Long: "Put a comment on a task's page, signed with the agent's name. If Notion cannot be reached, the comment is\n" +
			"made as soon as it can be. The connection needs the capability to insert comments.\n" +
			"Exit code 3: there is no such task.",
		Example:           "  dibs comment T-3 \"half of it is done\" --agent Sandman --mention ada@example.com",
		Args:              arguments("TASK", "TEXT"),
		ValidArgsFunction: a.someTasks(api.TaskFilter{}).first,
		RunE:              a.asking(with(&body, a.runComment)),
	}
	mentioning(cmd, &body.Mention)
	a.addRequestID(cmd)
	return cmd
}

func (a *app) runComment(cmd *cobra.Command, daemon *client.Client, body api.CommentRequest, args []string) error {
	agent, err := a.claimer()
	if err != nil {
		return err
	}
	id, err := taskID(args[0])
	if err != nil {
		return err
	}
	if strings.TrimSpace(args[1]) == "" {
		return usagef("the comment is empty: say something")
	}
	body.Agent, body.Text = agent, args[1]
	made, err := client.Do(cmd.Context(), daemon, api.OpComment, api.OnTask(id, a.request, body))
	if err != nil {
		return err
	}
	return a.answer(made, "commented on "+quoted(made.Task)+accepted(made.Detail))
}

func (a *app) askCommand() *cobra.Command {
	var to, text string
	c := change{
		op: api.OpAsk.Operation,
		long: "Ask people something: the question is put on the task's page as a comment, the task becomes BLOCKED, and\n" +
			"the claim is given up. dibs poll tells the agent when a person answers with a comment, or opens the task\n" +
			"again. The connection needs the capabilities to insert and to read comments.",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&to, "to", "", "whom the question mentions, a `person` by name, e-mail address or Notion's id")
		},
		check: func(*cobra.Command) error {
			if strings.TrimSpace(text) == "" {
				return usagef("the question is empty: say what you want to know")
			}
			return nil
		},
		do: func(ctx context.Context, daemon *client.Client, id string) (api.Claim, error) {
			return client.Do(ctx, daemon, api.OpAsk, api.On(id, a.request, api.AskRequest{Agent: a.agent, Text: text, To: to}))
		},
		done: func(c api.Claim) string {
			return "asked about " + quoted(c.Task) + ", which is blocked until a person opens it"
		},
	}
	// The question is the first argument, before the claim.
	cmd := a.changeCommand(c)
	cmd.Use, cmd.Args = "ask TEXT [CLAIM_OR_TASK]", arguments("TEXT", "[CLAIM_OR_TASK]")
	cmd.Example = "  dibs ask \"which of the two?\" --to ada@example.com --agent Sandman"
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return suggestions(a.ownTasks).complete(cmd, nil, begun)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	cmd.RunE = a.asking(func(cmd *cobra.Command, daemon *client.Client, args []string) error {
		text = args[0]
		return a.runChange(cmd, daemon, c, args[1:])
	})
	return cmd
}

func (a *app) offerCommand() *cobra.Command {
	var body api.OfferRequest
	return a.handCommand("offer", "Hand a task to another agent",
		"Hand a task to another agent, one that the agent holds or that is open. The claim is given up, and\n"+
			"nobody but the other agent gets the task, until that one accepts or declines, or inbox.offer is over.",
		func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&body.To, "to", "", "to whom, an `agent`")
			cmd.Flags().StringVar(&body.Text, "text", "", "what to tell that agent with it, a `text`")
		},
		func(cmd *cobra.Command, h hand) error {
			if body.To == "" {
				return usagef("to whom? give --to AGENT")
			}
			body.Agent = h.agent
			offered, err := client.Do(cmd.Context(), h.daemon, api.OpOffer, api.OnTask(h.task, a.request, body))
			if err != nil {
				return err
			}
			a.sayUnknown(offered.Task, offered.Owed, "dibs show "+string(offered.Task.ID))
			line := quoted(offered.Task) + " is offered to " + clean(body.To)
			if offered.Offer != nil {
				line += lasting(offered.Offer.ExpiresAt, time.Now())
			}
			return a.answer(offered, line+accepted(offered.Detail))
		})
}

func (a *app) acceptCommand() *cobra.Command {
	var note string
	return a.handCommand("accept", "Claim a task that is offered",
		"Claim a task that is offered to the agent, or assigned to it. Exit code 3: not claimed.",
		func(cmd *cobra.Command) { cmd.Flags().StringVar(&note, "note", "", "a `text` for the record") },
		func(cmd *cobra.Command, h hand) error {
			a.document = true
			c, err := client.Do(cmd.Context(), h.daemon, api.OpAccept, api.OnTask(h.task, a.request, api.AcceptRequest{Agent: h.agent, Note: note}))
			if err != nil {
				return err
			}
			return a.grant(cmd.Context(), h.daemon, c, c)
		})
}

func (a *app) declineCommand() *cobra.Command {
	var reason string
	return a.handCommand("decline", "Give back a task that is offered",
		"Give back a task that is offered to the agent, or assigned to it: it is open to all again, and who\n"+
			"offered it is told why.",
		func(cmd *cobra.Command) { cmd.Flags().StringVar(&reason, "reason", "", "why, a `text`") },
		func(cmd *cobra.Command, h hand) error {
			done, err := client.Do(cmd.Context(), h.daemon, api.OpDecline, api.OnTask(h.task, a.request, api.DeclineRequest{Agent: h.agent, Reason: reason}))
			if err != nil {
				return err
			}
			a.sayUnknown(done.Task, done.Owed, "dibs show "+string(done.Task.ID))
			return a.answer(done, "declined "+quoted(done.Task)+accepted(done.Detail))
		})
}

// hand is the input of a command that hands a task over.
type hand struct {
	agent  string
	task   task.ID
	daemon *client.Client
}

// handCommand makes a command that hands one task over.
func (a *app) handCommand(verb, short, long string, flags func(*cobra.Command), run func(*cobra.Command, hand) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:               verb + " TASK",
		Short:             short,
		Long:              long,
		Args:              arguments("TASK"),
		ValidArgsFunction: a.someTasks(api.TaskFilter{}).first,
		RunE: a.asking(func(cmd *cobra.Command, daemon *client.Client, args []string) error {
			agent, err := a.claimer()
			if err != nil {
				return err
			}
			id, err := taskID(args[0])
			if err != nil {
				return err
			}
			return run(cmd, hand{agent, id, daemon})
		}),
	}
	flags(cmd)
	a.addRequestID(cmd)
	return cmd
}

func (a *app) sendCommand() *cobra.Command {
	var body api.MessageRequest
	cmd := &cobra.Command{
		Use:   "send TEXT",
		Short: "Say something to an agent",
		Long: "Say something to an agent, or to all: it is told at its next dibs poll, and the message becomes a\n" +
			"row of the Mesh Communication Log.",
		Example: "  dibs send --agent Sandman --to Oracle \"the API has changed\"\n" +
			"  dibs send --agent Sandman --to all \"deploying at 5\"",
		Args: arguments("TEXT"),
		RunE: a.asking(with(&body, a.runSend)),
	}
	cmd.Flags().StringVar(&body.To, "to", "", "whom to tell, an `agent`, or all")
	a.addRequestID(cmd)
	return cmd
}

func (a *app) runSend(cmd *cobra.Command, daemon *client.Client, body api.MessageRequest, args []string) error {
	if err := a.checkAgent(); err != nil {
		return err
	}
	if body.To == "" {
		return usagef("to whom? give --to AGENT, or --to all")
	}
	if strings.TrimSpace(args[0]) == "" {
		return usagef("the message is empty: say something")
	}
	body.From, body.Text = a.agent, args[0]
	sent, err := client.Do(cmd.Context(), daemon, api.OpSend, api.Keyed(a.request, body))
	if err != nil {
		return err
	}
	return a.print(sent, func(w io.Writer) {
		to := clean(strings.Join(sent.Agents, ", "))
		if to == "" {
			to = "nobody here, as no agent is known yet; it is in the Mesh Communication Log"
		}
		row(w, "sent to "+to)
	})
}

func (a *app) pollCommand() *cobra.Command {
	var o pollOptions
	cmd := &cobra.Command{
		Use:   "poll",
		Short: "Take what the agent should react to",
		Long: "Take what the agent should react to: triggers, each handed out once, the most urgent first.\n" +
			"What is not acknowledged with dibs ack within inbox.visibility comes back. Exit code 3: none.",
		Example: "  dibs poll --agent Sandman --wait 10m --limit 5",
		RunE:    a.asking(with(&o, a.runPoll)),
	}
	o.add(a, cmd)
	return cmd
}

type pollOptions struct {
	body api.PollRequest
	wait time.Duration
}

func (o *pollOptions) add(a *app, cmd *cobra.Command) {
	cmd.Flags().DurationVar(&o.wait, "wait", 0, "how long to wait for a trigger, at most 1h")
	cmd.Flags().IntVar(&o.body.Limit, "limit", 0, "at most that many (0: a hundred)")
	cmd.Flags().BoolVar(&o.body.Finished, "finished", false, "from now on, tell this agent of every task that is finished")
	cmd.Flags().IntVar(&o.body.PID, "pid", 0, "a process, by its `number`: what it has not acknowledged when it ends comes back at once")
	a.addRequestID(cmd)
}

func (a *app) runPoll(cmd *cobra.Command, daemon *client.Client, o pollOptions, _ []string) error {
	agent, err := a.claimer()
	if err != nil {
		return err
	}
	if o.wait < 0 || o.wait > api.MaxWait {
		return usagef("--wait %v: want a time from 0s to %v", o.wait, api.MaxWait)
	}
	if o.body.Limit < 0 || o.body.Limit > api.MaxTriggers {
		return usagef("--limit %d: want a number from 0 to %d", o.body.Limit, api.MaxTriggers)
	}
	if cmd.Flags().Changed("pid") && o.body.PID <= 0 {
		return usagef("--pid %d: want the number of a process", o.body.PID)
	}
	o.body.WaitSeconds, o.body.Repository = o.wait.Seconds(), repository()
	stop := a.tellPaused(cmd.Context(), daemon, agent, o.wait)
	got, err := client.Do(cmd.Context(), daemon, api.OpPoll, api.PollInput{Name: agent, Key: a.request, Body: new(o.body)})
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
		RunE: a.asking(a.runAck),
	}
	a.addRequestID(cmd)
	return cmd
}

func (a *app) runAck(cmd *cobra.Command, daemon *client.Client, ids []string) error {
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
}
