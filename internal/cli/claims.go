package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"

	"github.com/spf13/cobra"
)

// change describes a command that changes one of the agent's claims.
type change struct {
	// op is the operation that it requests, with the command's name and summary.
	op   *api.Operation
	long string
	// flags adds the command's own flags.
	flags func(*cobra.Command)
	// check, if set, validates them.
	check func(*cobra.Command) error
	// do sends the request.
	do func(ctx context.Context, daemon *client.Client, id string) (api.Claim, error)
	// done describes the result in a line.
	done func(api.Claim) string
}

func (a *app) changeCommand(c change) *cobra.Command {
	cmd := &cobra.Command{
		Use:   c.op.Name + " [CLAIM_OR_TASK]",
		Short: c.op.Summary,
		Long: c.long + "\n\nThe claim is named by its task (T-3, id or URL) or by its own id. Without a name it is the agent's\n" +
			"only claim. If the agent lost a claim and does not know yet, the command only says so; repeat it to act\n" +
			"on the claim that is left. Scripts had better give the name.\n" +
			"Exit code 4: the claim is no longer the agent's." +
			"\nExit code 0 with a line on stderr that says pending: Notion has yet to be told.",
		Args:              arguments("[CLAIM_OR_TASK]"),
		ValidArgsFunction: suggestions(a.ownTasks).first,
		PreRun:            func(*cobra.Command, []string) { a.changes = true },
		RunE:              a.asking(with(&c, a.runChange)),
	}
	c.flags(cmd)
	a.addRequestID(cmd)
	return cmd
}

func (a *app) runChange(cmd *cobra.Command, daemon *client.Client, c change, args []string) error {
	id, err := a.own(args)
	if err != nil {
		return err
	}
	if c.check != nil {
		if err := c.check(cmd); err != nil {
			return err
		}
	}
	changed, err := c.do(cmd.Context(), daemon, id)
	if err != nil {
		return err
	}
	a.sayUnknown(changed.Task, changed.Owed, "dibs wait "+string(changed.ID))
	lines := []string{c.done(changed)}
	if changed.State == claim.Finishing {
		lines[0] += cmp.Or(accepted(changed.Detail), "; accepted, and written to Notion as soon as it can be reached")
	}
	if a.person() && changed.State != claim.Held && a.agent != "" {
		if next := a.further(cmd.Context(), daemon, a.agent); next != "" {
			lines = append(lines, next)
		}
	}
	return a.answer(changed, lines...)
}

// sayUnknown says on stderr, with --json too, which question a pending change leaves open and how to
// find out. The command itself succeeds, which must not be taken for more.
func (a *app) sayUnknown(t api.TaskRef, o api.Owed, learn string) {
	if o.Pending {
		fmt.Fprintf(a.stderr, "dibs: %s: pending: Notion has not been told yet. It is not known %s; if so, this is dropped, and claim_lost says so (dibs poll, %s)\n",
			quoted(t), clean(o.Unknown), clean(learn))
	}
}

// further returns a line about what the agent could do next, for a person who has just finished a
// task. It is empty if the daemon cannot say.
func (a *app) further(ctx context.Context, daemon *client.Client, agent string) string {
	list, err := client.Do(ctx, daemon, api.OpListTasks, api.ListTasksInput{Ready: true, Agent: agent, Limit: 1})
	switch {
	case err != nil || list.LimitReached:
		return ""
	case list.Total == 0 && len(list.Tasks) == 0:
		return "Nothing else is ready. What the others wait for: " + a.program() + " ready --why"
	case max(list.Total, len(list.Tasks)) == 1:
		return "1 more is ready: " + a.command("next", api.TaskRef{})
	}
	return fmt.Sprintf("%d more are ready: %s", list.Total, a.command("next", api.TaskRef{}))
}

func (a *app) renewCommand() *cobra.Command {
	var keeper keeperFlags
	var used usedFlag
	var progress string
	return a.changeCommand(change{
		op: api.OpRenew.Operation,
		flags: func(cmd *cobra.Command) {
			keeper.add(cmd)
			used.add(cmd)
			cmd.Flags().StringVar(&progress, "progress", "", "how far the work is, a `text` of one line")
		},
		check: keeper.check,
		long: "Say that you are still at work: the claim lasts a whole lease from now on. While Notion cannot be\n" +
			"reached it ends when it would have, as the answer says, unless Notion is back before that. --progress is\n" +
			"shown with the claim, on the board and in dibs claims, show and whoami; Notion is not told.",
		do: func(ctx context.Context, daemon *client.Client, id string) (api.Claim, error) {
			return client.Do(ctx, daemon, api.OpRenew, api.On(id, a.request, api.RenewRequest{Agent: a.agent, Progress: progress, Keeper: keeper.asked, Used: used.Used}))
		},
		done: func(c api.Claim) string {
			if c.Detail != "" {
				return fmt.Sprintf("%s is still yours%s; the renewal is noted, and written to Notion as soon as that works: %s",
					quoted(c.Task), lasting(c.ExpiresAt, time.Now()), clean(c.Detail))
			}
			return quoted(c.Task) + " is yours" + lasting(c.ExpiresAt, time.Now())
		},
	})
}

func (a *app) completeCommand() *cobra.Command {
	var summary string
	var used usedFlag
	var evidence []string
	return a.changeCommand(change{
		op:   api.OpComplete.Operation,
		long: "Say that the work is done: the task becomes COMPLETED, and the task log gets an entry.",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&summary, "summary", "", "what was done, a `text`")
			cmd.Flags().StringArrayVar(&evidence, "evidence", nil, "what shows it, a `text`: a commit, a pull request, a command and its exit code; may be repeated")
			used.add(cmd)
		},
		do: func(ctx context.Context, daemon *client.Client, id string) (api.Claim, error) {
			return client.Do(ctx, daemon, api.OpComplete, api.On(id, a.request, api.CompleteRequest{Agent: a.agent, Summary: summary, Evidence: evidence, Used: used.Used}))
		},
		done: func(c api.Claim) string {
			if c.Outcome == claim.EndReview { // claim.review
				return reviewed(c)
			}
			return "completed " + quoted(c.Task)
		},
	})
}

func (a *app) releaseCommand() *cobra.Command {
	var reason, by string
	var used usedFlag
	return a.changeCommand(change{
		op: api.OpRelease.Operation,
		long: "Give a task back: it becomes OPEN, for somebody else to claim.\n\n" +
			"With --by, a person takes it back from its agent, whoever that is. The agent is told that it lost the\n" +
			"claim, by whom and why, and is not offered the task for an hour; it may claim it by name. The name\n" +
			"signs the note on the card, beside the user of the machine if that is another one.",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&by, "by", "", "who takes the task back from its agent, a `name`")
			cmd.Flags().StringVar(&reason, "reason", "", "why, a `text`")
			used.add(cmd)
		},
		check: func(cmd *cobra.Command) error {
			if cmd.Flags().Changed("by") && by == "" {
				return usagef("--by is empty: name who takes the task back")
			}
			return nil
		},
		do: func(ctx context.Context, daemon *client.Client, id string) (api.Claim, error) {
			agent := a.agent
			if by != "" && id != api.OnlyClaim { // DIBS_AGENT says nothing about whose task it is
				agent = ""
			}
			return client.Do(ctx, daemon, api.OpRelease, api.On(id, a.request, api.StopRequest{Agent: agent, By: by, Reason: reason, Used: used.Used}))
		},
		done: func(c api.Claim) string {
			if c.Outcome == claim.EndLost {
				return fmt.Sprintf("took %s back from %s", quoted(c.Task), clean(c.Agent))
			}
			return "released " + quoted(c.Task)
		},
	})
}

func (a *app) blockCommand() *cobra.Command {
	var reason, mention string
	var used usedFlag
	return a.changeCommand(change{
		op: api.OpBlock.Operation,
		long: "Say that the work cannot go on: the task becomes BLOCKED, until a person opens it again. With\n" +
			"notion.comments, the reason is put on the task's page as a comment, too.",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&reason, "reason", "", "what is in the way, a `text`")
			mentioning(cmd, &mention)
			used.add(cmd)
		},
		do: func(ctx context.Context, daemon *client.Client, id string) (api.Claim, error) {
			return client.Do(ctx, daemon, api.OpBlock, api.On(id, a.request, api.BlockRequest{Agent: a.agent, Reason: reason, Mention: mention, Used: used.Used}))
		},
		done: func(c api.Claim) string { return "blocked " + quoted(c.Task) },
	})
}

func (a *app) failCommand() *cobra.Command {
	var reason, mention string
	var used usedFlag
	var reopen bool
	return a.changeCommand(change{
		op: api.OpFail.Operation,
		long: "Say that the work was tried and failed: the task becomes BLOCKED, or what tasks.statuses.failed names,\n" +
			"or OPEN with --reopen, unless it was tried as often as claim.max_attempts allows; and the task log gets\n" +
			"an entry. With notion.comments, the reason is put on the task's page as a comment, too.",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&reason, "reason", "", "what went wrong, a `text`")
			cmd.Flags().BoolVar(&reopen, "reopen", false, "let somebody else try")
			mentioning(cmd, &mention)
			used.add(cmd)
		},
		do: func(ctx context.Context, daemon *client.Client, id string) (api.Claim, error) {
			return client.Do(ctx, daemon, api.OpFail, api.On(id, a.request, api.FailRequest{Agent: a.agent, Reason: reason, Reopen: reopen, Mention: mention, Used: used.Used}))
		},
		done: func(c api.Claim) string {
			line := "failed " + quoted(c.Task)
			switch {
			case !reopen || c.State == claim.Finishing:
				return line
			case c.Detail == "":
				return line + ", open for others"
			}
			return line + ", " + clean(c.Detail)
		},
	})
}

func (a *app) reviewCommand() *cobra.Command {
	var note, mention string
	var used usedFlag
	return a.changeCommand(change{
		op: api.OpReview.Operation,
		long: "Say that the work is done, for a person to decide: the task gets the status that tasks.statuses.review\n" +
			"names, the claim is over, and the task log gets an entry. A person sets it to COMPLETED, or opens it\n" +
			"again; until then nobody can claim it, and what depends on it waits. With notion.comments, the note\n" +
			"is put on the task's page as a comment, too.",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&note, "note", "", "what was done and what is to be decided, a `text`")
			mentioning(cmd, &mention)
			used.add(cmd)
		},
		do: func(ctx context.Context, daemon *client.Client, id string) (api.Claim, error) {
			return client.Do(ctx, daemon, api.OpReview, api.On(id, a.request, api.ReviewRequest{Agent: a.agent, Note: note, Mention: mention, Used: used.Used}))
		},
		done: reviewed,
	})
}

func reviewed(c api.Claim) string { return quoted(c.Task) + " waits for review" }

func (a *app) claimsCommand() *cobra.Command {
	var limit limitFlag
	cmd := &cobra.Command{
		Use:   "claims",
		Short: "List the claims that are held",
		Long: "List the claims that are held: on which tasks, by whom, and until when; in a cluster, through whichever\n" +
			"member. --agent limits the list to one agent.",
		Example: "  dibs claims --agent Sandman",
		RunE:    a.asking(with(&limit, a.runClaims)),
	}
	limit.add(cmd)
	return cmd
}

func (a *app) runClaims(cmd *cobra.Command, daemon *client.Client, limit limitFlag, _ []string) error {
	if err := limit.check(); err != nil {
		return err
	}
	agent, err := a.only(cmd)
	if err != nil {
		return err
	}
	held, err := client.Do(cmd.Context(), daemon, api.OpListClaims, api.AgentFilter{Agent: agent})
	if err != nil {
		return err
	}
	shown, left := limited(a, cmd, limit, held.Claims)
	empty := "Nobody holds a claim through this daemon."
	if agent != "" {
		empty = clean(agent) + " holds no claim through this daemon."
	}
	now := time.Now()
	return list[api.Claim]{document: api.Claims{Claims: shown}, items: shown, empty: empty, left: left, columns: []column[api.Claim]{
		{name: "TASK", cell: func(c api.Claim) cell { return plain(handle(c.Task)) }},
		{name: "AGENT", cell: func(c api.Claim) cell { return plain(clean(c.Agent)) }},
		{name: "UNTIL", cell: func(c api.Claim) cell { return lasts(c, now) }},
		{name: "CLAIM", cell: func(c api.Claim) cell { return plain(clean(string(c.ID))).in(faint) }},
		{name: "TITLE", whole: true, cell: func(c api.Claim) cell { return plain(short(c.Task.Title)) }},
		{name: "PROGRESS", cell: func(c api.Claim) cell { return plain(beginning(c.Progress, maxText)) }},
		{name: "USED", cell: func(c api.Claim) cell { return plain(spent(c.Usage)) },
			hide: !slices.ContainsFunc(shown, func(c api.Claim) bool { return c.Usage != nil })},
	}}.print(a)
}

// lasts returns the cell that says until when a claim lasts.
func lasts(c api.Claim, now time.Time) cell {
	switch {
	case c.State == "finishing":
		return plain(clean(string(c.Outcome)) + ", not yet in Notion").in(yellow)
	case !c.ExpiresAt.After(now):
		return plain(clock(c.ExpiresAt.Time, now) + ", over").in(red)
	}
	return plain(clock(c.ExpiresAt.Time, now) + ", in " + length(c.ExpiresAt.Sub(now)))
}

func (a *app) waitCommand() *cobra.Command {
	var o waitOptions
	cmd := &cobra.Command{
		Use:   "wait [CLAIM_OR_TASK]",
		Short: "Wait until something happens to a claim",
		Long: "Wait until something happens to a claim or its task: somebody edited its title, priority, timeout or\n" +
			"dependencies, the lease is about to end, the claim is over. The claim is named by its id or its task's id or URL; without one, it is the\n" +
			"agent's only claim. Exit code 3: nothing happened in that time; 4: the claim is over, and no longer\n" +
			"the agent's.",
		Example: "  dibs wait --agent Sandman --wait 10m",
		Args:    arguments("[CLAIM_OR_TASK]"),
		RunE:    a.asking(with(&o, a.runWait)),
	}
	o.add(cmd)
	return cmd
}

type waitOptions struct{ wait time.Duration }

func (o *waitOptions) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&o.wait, "wait", 0, "how long at the most (default: as long as it takes)")
}

func (a *app) runWait(cmd *cobra.Command, daemon *client.Client, o waitOptions, args []string) error {
	id, err := a.own(args)
	if err != nil {
		return err
	}
	if o.wait < 0 {
		return usagef("--wait %v: want a time from 0s", o.wait)
	}
	found, err := client.Do(cmd.Context(), daemon, api.OpGetClaim, api.GetClaimInput{ID: id, Agent: a.agent, After: api.EventsFuture})
	if err != nil {
		return err
	}
	over := time.Now().Add(cmp.Or(o.wait, 1<<62)) // without --wait, for ever
	for found.Event == nil && found.State != claim.Ended && time.Now().Before(over) {
		found, err = client.Do(cmd.Context(), daemon, api.OpGetClaim, api.GetClaimInput{ID: string(found.ID), Agent: found.Agent, After: api.EventsFuture, Wait: min(api.MaxWait, time.Until(over)).String()})
		if err != nil {
			return err
		}
	}
	return a.waited(found)
}

// waited says what happened to a claim.
func (a *app) waited(c api.Claim) error {
	err := a.print(c, func(w io.Writer) {
		switch {
		case c.State == claim.Ended:
			row(w, fmt.Sprintf("the claim on %s is over: %s", quoted(c.Task), clean(cmp.Or(c.Detail, string(c.Outcome)))))
		case c.Event != nil:
			row(w, fmt.Sprintf("%s: %s, %s", quoted(c.Task), clean(string(c.Event.Kind)), aboutEvent(*c.Event)))
		default:
			row(w, fmt.Sprintf("nothing happened to %s", quoted(c.Task)))
		}
	})
	switch {
	case err != nil:
		return err
	case c.State == claim.Ended && !slices.Contains(ownEndings, c.Outcome):
		return ended{api.ExitLost}
	case c.State != claim.Ended && c.Event == nil:
		return ended{api.ExitNotClaimed}
	}
	return nil
}

// ownEndings are the endings that the agent itself causes.
var ownEndings = []claim.Ending{claim.EndCompleted, claim.EndReview, claim.EndReleased, claim.EndBlocked, claim.EndFailed}
