package cli

import "github.com/spf13/cobra"

func (a *app) nextCommand() *cobra.Command {
	var flags claimFlags
	cmd := &cobra.Command{
		Use:   "next",
		Short: "Claim the next ready task",
		Long: "Claim the most urgent task that is ready, see dibs ready. Prints the claim, or the denial, as\n" +
			"JSON on stdout. Exit code 3: not claimed.",
		Example:           "  dibs next --agent Sandman --wait 10m",
		Args:              arguments(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.document = true
			return a.claim(cmd, "", flags)
		},
	}
	flags.add(cmd)
	return cmd
}
