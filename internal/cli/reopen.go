package cli

import (
	"cmp"
	"context"
	"io"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/task"

	"github.com/spf13/cobra"
)

func (a *app) reopenCommand() *cobra.Command {
	var o reopenOptions
	cmd := &cobra.Command{
		Use:   "reopen [TASK]",
		Short: "Open a task again that is blocked, failed, in review or finished",
		Long: "Open a task again that is BLOCKED, FAILED or in REVIEW: it becomes OPEN, with name, date and token\n" +
			"taken off, and how often it was tried (claim.max_attempts) is forgotten. A task in another status, such\n" +
			"as COMPLETED or CANCELLED, is opened only with --was, which says in which status you saw it: if the\n" +
			"task has another one by now, it stays as somebody has decided since. A person's name on the task stays\n" +
			"too, unless --holder says that you saw it; that of the last claim goes. A task that somebody holds is\n" +
			"left alone. In all these cases the exit code is 3.\n\n" +
			"--failed-by opens all that an agent failed, or those that a pattern such as agent-* covers, but for what\n" +
			"somebody edited or commented on since, which is named; exit code 3: nothing. It is repeatable.\n\n" +
			"The name in --agent or DIBS_AGENT signs the note;\n" +
			"without one, the name of your account does.",
		Example: "  dibs reopen T-3 --note \"the ladder came\"\n  dibs reopen T-3 --was completed --note \"the ridge leaks\"\n" +
			"  dibs reopen --failed-by Sandman --since 2h --dry-run",
		Args:              arguments("[TASK]"),
		ValidArgsFunction: a.someTasks(api.TaskFilter{}).first,
		RunE:              a.asking(with(&o, a.runReopen)),
	}
	o.add(a, cmd)
	return cmd
}

// reopenOptions are those for one task, and those for all that an agent failed.
type reopenOptions struct {
	body   api.ReopenRequest
	failed api.ReopenFailedRequest
	since  string
}

func (o *reopenOptions) add(a *app, cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.body.Note, "note", "", "why, a `text`")
	cmd.Flags().StringVar(&o.body.Was, "was", "", "the `status` that it was seen in, as the board calls it, or blocked, completed, cancelled, review, failed or in_progress")
	cmd.Flags().StringVar(&o.body.Holder, "holder", "", "the `name` that was seen on the task, if it is not that of its last claim")
	cmd.Flags().StringArrayVar(&o.failed.FailedBy, "failed-by", nil, "instead of a task, all that this `agent` failed and nobody touched since; repeatable")
	cmd.Flags().StringVar(&o.since, "since", "", "only what it failed since then, a `time` as for dibs log")
	cmd.Flags().BoolVar(&o.failed.DryRun, "dry-run", false, "only say which tasks these are")
	completeFlag(cmd, "was", a.statuses)
	completeFlag(cmd, "failed-by", a.agents)
	a.addRequestID(cmd)
}

func (a *app) runReopen(cmd *cobra.Command, daemon *client.Client, o reopenOptions, args []string) error {
	if err := a.checkAgent(); err != nil {
		return err
	}
	switch all := len(o.failed.FailedBy) > 0; {
	case all == (len(args) > 0):
		return usagef("name the task, or --failed-by and no task")
	case all && (o.body.Was != "" || o.body.Holder != ""):
		return usagef("--was and --holder go with a task")
	case !all && (o.since != "" || o.failed.DryRun):
		return usagef("--since and --dry-run go with --failed-by")
	case all:
		o.failed.Agent, o.failed.Note = a.agent, o.body.Note
		return a.reopenFailed(cmd.Context(), daemon, o.failed, o.since)
	}
	id, err := taskID(args[0])
	if err != nil {
		return err
	}
	o.body.Agent = a.agent
	done, err := client.Do(cmd.Context(), daemon, api.OpReopen, api.ReopenInput{ID: string(id), Key: a.request, Body: new(o.body)})
	if err != nil {
		return err
	}
	if done.Was == task.Open {
		return a.answer(done, quoted(done.Task)+" is open already")
	}
	return a.answer(done, "reopened "+quoted(done.Task)+", which was "+clean(cmp.Or(done.WasName, string(done.Was))))
}

// reopenFailed opens what an agent failed.
func (a *app) reopenFailed(ctx context.Context, daemon *client.Client, body api.ReopenFailedRequest, since string) (err error) {
	if since != "" {
		if body.Since.Time, err = moment(since, time.Now()); err != nil {
			return usagef("--since: %w", err)
		}
	}
	done, err := client.Do(ctx, daemon, api.OpReopenFailed, api.Keyed(a.request, body))
	if err != nil {
		return err
	}
	did := "reopened "
	if body.DryRun {
		did = "would reopen "
	}
	err = a.print(done, func(w io.Writer) {
		for _, t := range done.Reopened {
			row(w, did+quoted(t))
		}
		for _, t := range done.Left {
			row(w, "left "+quoted(t)+", touched since")
		}
	})
	if err == nil && len(done.Reopened) == 0 {
		a.say("dibs: no task that %s failed is untouched since", clean(strings.Join(body.FailedBy, " or ")))
		return ended{api.ExitNotClaimed}
	}
	return err
}
