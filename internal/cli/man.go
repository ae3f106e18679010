package cli

import (
	"cmp"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write the man pages of all commands into a directory",
		Long: "Write the man pages of all commands into a directory, which is made if it is missing. Their\n" +
			"date is today's, or SOURCE_DATE_EPOCH.",
		Hidden:            true, // for those who make packages
		Args:              arguments("DIRECTORY"),
		ValidArgsFunction: filesToo,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			root.InitDefaultCompletionCmd()
			header := &doc.GenManHeader{
				Section: "1", Source: "dibs " + cmp.Or(thisBuild().Version, "(unknown)"), Manual: "dibs",
			}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("the man pages could not be written: %w", err)
			}
			return nil
		},
	}
}
