package cli

import (
	"fmt"
	"io"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Let agents on other machines in, each with an access token",
		Long: "Let agents on other machines, in containers and in sandboxes in, each with an access token. The\n" +
			"daemon has to listen for them (remote.listen in the configuration). They set DIBS_URL, and the\n" +
			"token as DIBS_TOKEN. Only the daemon's user, and root, may make tokens, see them and revoke them.",
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.newTokenCommand(), a.tokenListCommand(), a.revokeTokenCommand())
	return cmd
}

func (a *app) newTokenCommand() *cobra.Command {
	var o newTokenOptions
	cmd := &cobra.Command{
		Use:   "new --agent PATTERN",
		Short: "Make an access token, and print it this once",
		Long: "Make an access token for the agent of --agent, or for all whose names match it as a pattern, in\n" +
			"which a * stands for any letters. Print it alone in a line: it is shown this once. It acts under\n" +
			"no other name, and does nothing that is for the daemon's machine, such as to pause.",
		Example: "  dibs token new --agent Sandman --note 'the laptop' > sandman.token\n" +
			"  dibs token new --agent 'ci-*' --for 24h",
		RunE: a.asking(with(&o, a.runNewToken)),
	}
	cmd.Flags().DurationVar(&o.lasts, "for", api.UsualToken, "how long it is valid, at most 8784h, a year")
	cmd.Flags().StringVar(&o.note, "note", "", "what it is for, a `text` for dibs token list")
	return cmd
}

type newTokenOptions struct {
	lasts time.Duration
	note  string
}

func (a *app) runNewToken(cmd *cobra.Command, daemon *client.Client, o newTokenOptions, _ []string) error {
	switch {
	case !cmd.Flags().Changed("agent"):
		return usagef("whose token? name an agent, or a pattern of names, with --agent")
	case o.lasts < api.ShortestToken || o.lasts > api.LongestToken:
		return usagef("--for %v: want a time from %v to %v", o.lasts, api.ShortestToken, api.LongestToken)
	}
	made, err := client.Do(cmd.Context(), daemon, api.OpNewToken, api.Keyed("", api.TokenRequest{Agent: a.agent, ForSeconds: o.lasts.Seconds(), Note: o.note}))
	if err != nil {
		return err
	}
	a.say("Token %s for %s, until %s. It is shown this once; dibs token revoke %[1]s ends it.", made.ID, clean(made.Agent), made.ExpiresAt.Local().Format(time.DateTime))
	return a.print(made, func(w io.Writer) { fmt.Fprintln(w, made.Token) })
}

func (a *app) tokenListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the access tokens, without their secrets",
		RunE: a.asking(func(cmd *cobra.Command, daemon *client.Client, _ []string) error {
			tokens, err := client.Do(cmd.Context(), daemon, api.OpTokens, struct{}{})
			if err != nil {
				return err
			}
			now := time.Now()
			return list[api.Token]{
				document: tokens, items: tokens.Tokens, empty: "There is no access token: dibs token new makes one.",
				columns: []column[api.Token]{
					{name: "id", cell: func(t api.Token) cell { return plain(t.ID) }},
					{name: "agent", cell: func(t api.Token) cell { return plain(clean(t.Agent)) }},
					{name: "note", whole: true, cell: func(t api.Token) cell { return plain(clean(t.Note)) }},
					{name: "used", cell: func(t api.Token) cell {
						if t.UsedAt == nil {
							return plain("never").in(faint)
						}
						return plain(ago(t.UsedAt.Time, now))
					}},
					{name: "until", cell: func(t api.Token) cell { return plain(t.ExpiresAt.Local().Format(time.DateTime)) }},
				},
			}.print(a)
		}),
	}
}

func (a *app) revokeTokenCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "Make an access token invalid, and end what is open under it",
		Long: "Make an access token invalid within a second, on every machine, and end what is open under it.\n" +
			"Claims that were made with it stay until they end, or their leases do.",
		Args: arguments("ID"),
		RunE: a.asking(func(cmd *cobra.Command, daemon *client.Client, args []string) error {
			revoked, err := client.Do(cmd.Context(), daemon, api.OpRevokeToken, api.TokenInput{ID: args[0]})
			if err != nil {
				return err
			}
			return a.print(revoked, func(w io.Writer) { row(w, "revoked "+clean(revoked.ID)+", which was for "+clean(revoked.Agent)) })
		}),
	}
}
