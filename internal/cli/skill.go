package cli

import (
	"dibs/packaging"

	"github.com/spf13/cobra"
)

func (a *app) skillCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "skill",
		Short: "Print the skill: how an agent works with dibs",
		Long: "Print the SKILL.md that tells an agent how to work with dibs: the loop, the exit codes, and what\n" +
			"never to do. dibs connect puts it where a client looks for it.",
		Example: "  dibs skill > .claude/skills/dibs/SKILL.md",
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return writeJSON(a.stdout, map[string]string{"skill": string(packaging.Skill)})
			}
			_, err := a.stdout.Write(packaging.Skill)
			return err
		},
	}
}
