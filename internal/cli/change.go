package cli

import (
	"cmp"
	"context"
	"fmt"

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
		RunE: func(cmd *cobra.Command, args []string) error {
			a.changes = true
			id, err := a.own(args)
			if err != nil {
				return err
			}
			if c.check != nil {
				if err := c.check(cmd); err != nil {
					return err
				}
			}
			daemon, err := a.daemon()
			if err != nil {
				return err
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
		},
	}
	c.flags(cmd)
	a.addRequestID(cmd)
	return cmd
}

// sayUnknown says on stderr, with --json too, what is not yet known of a pending change and how to
// find out. The command itself succeeds, which must not be taken for more.
func (a *app) sayUnknown(t api.TaskRef, o api.Owed, learn string) {
	if o.Pending {
		fmt.Fprintf(a.stderr, "dibs: %s: pending: Notion has not been told yet. It is not known %s; if so, this is dropped, and claim_lost says so (dibs poll, %s)\n",
			quoted(t), clean(o.Unknown), clean(learn))
	}
}

// mentioning adds --mention.
func mentioning(cmd *cobra.Command, who *string) {
	cmd.Flags().StringVar(who, "mention", "", "whom the comment mentions, a `person` by name, e-mail address or Notion's id")
}
