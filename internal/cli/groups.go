package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// group is a part of the list of commands.
type group struct {
	title    string
	commands []*cobra.Command
}

// addCommands adds all commands, in groups. The six of an agent's day come first.
func (a *app) addCommands(root *cobra.Command) {
	cobra.EnableCommandSorting = false // the order is that of use
	for _, g := range []group{
		{"Work:", []*cobra.Command{
			a.nextCommand(), a.showCommand(), a.renewCommand(), a.completeCommand(), a.releaseCommand(), a.blockCommand(),
			a.claimCommand(), a.runCommand(), a.reviewCommand(), a.failCommand(), a.reopenCommand(), a.addCommand(),
		}},
		{"Look:", []*cobra.Command{
			a.readyCommand(), a.tasksCommand(), a.claimsCommand(), a.whoamiCommand(), a.agentsCommand(), a.logCommand(),
			a.explainCommand(), a.reportCommand(), a.statusCommand(), a.boardCommand(),
		}},
		{"People, and other agents:", []*cobra.Command{
			a.askCommand(), a.commentCommand(), a.offerCommand(), a.acceptCommand(), a.declineCommand(), a.sendCommand(),
			a.pollCommand(), a.ackCommand(),
		}},
		{"Files:", []*cobra.Command{
			a.reserveCommand(), a.unreserveCommand(), a.reservationsCommand(), a.checkCommand(),
		}},
		{"Set up:", []*cobra.Command{
			a.tryCommand(), a.demoCommand(), a.initCommand(), a.doctorCommand(), a.connectCommand(), a.notifyCommand(), a.webhookCommand(),
		}},
		{"Run the daemon:", []*cobra.Command{
			a.serveCommand(), a.pauseCommand(), a.resumeCommand(), a.clusterCommand(), a.versionCommand(),
		}},
		{"For programs:", []*cobra.Command{
			a.mcpCommand(), a.hookCommand(), a.skillCommand(), a.eventsCommand(), a.waitCommand(),
		}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
		}
		root.AddCommand(g.commands...)
	}
	root.SetHelpCommandGroupID("Look:")
	rare := []*cobra.Command{a.sweepCommand(), a.syncCommand(), a.simulateCommand(), a.emulatorCommand()}
	root.AddCommand(rare...)
	root.AddCommand(a.guardCommand(), a.manCommand())
	listWithout(root, append(rare, completionCommand(root)))
}

// completionCommand returns the command that writes completions.
func completionCommand(root *cobra.Command) *cobra.Command {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			return cmd
		}
	}
	panic("cobra made no completion command") // impossible: dibs has commands
}

// listWithout leaves rare commands out of the list of commands, and names them in a line below it.
// They have help, man pages and completions like all others.
func listWithout(root *cobra.Command, rare []*cobra.Command) {
	var names []string
	for _, cmd := range rare {
		names = append(names, cmd.Name())
	}
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd == root {
			for _, cmd := range rare {
				cmd.Hidden = true
				defer func() { cmd.Hidden = false }()
			}
			cmd.Long += "\n\nRarely needed, and not in the list: " + strings.Join(names, ", ") + "."
		}
		help(cmd, args)
	})
}
