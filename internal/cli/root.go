package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"dibs/internal/api"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Main runs the command that args name and returns the exit code.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return api.ExitOK
	}
	// a.json may not be set if parsing failed before --json.
	a.json = a.json || slices.Contains(args, "--json")
	code := a.fail(ctx, cmd, err)
	if code == api.ExitUsage && !cmd.HasParent() && slices.Contains(args, "hook") {
		return api.ExitFailure // exit code 2 of a hook would mean a refusal
	}
	return code
}

// root makes the command tree.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "dibs",
		Short: "Share one task queue in Notion without doing the same work twice",
		Long: "dibs lets named agents and people share one task queue kept in Notion without doing\n" +
			"the same work twice. The daemon does the claiming; every other command asks it.\n\n" +
			"An agent's name is in DIBS_AGENT; auto mints one for the session. A task is named by its key (T-3), its\n" +
			"id or its URL.\n\n" +
			"A daemon on another machine: its address is in DIBS_URL, and the access token in DIBS_TOKEN, in the file\n" +
			"DIBS_TOKEN_FILE, or printed by the command DIBS_TOKEN_COMMAND. DIBS_FINGERPRINT is the SHA-256 of its\n" +
			"certificate, where neither the token nor an authority vouches for it. DIBS_URL wins over DIBS_SOCKET.\n\n" +
			"Exit codes: 0 done · 1 failure · 2 the command was not used right · 3 not claimed: held, not open,\n" +
			"nothing ready · 4 the claim is no longer yours: stop working on the task · 5 the daemon cannot be\n" +
			"reached · 6 Notion, or the journal's database, cannot be reached, or refuses",
		Version:            thisBuild().String(),
		SilenceErrors:      true,
		SilenceUsage:       true,
		DisableSuggestions: true, // usage makes its own, in one line
	}
	flags := root.PersistentFlags()
	flags.BoolVar(&a.json, "json", false, "print one JSON document on stdout, and nothing else there")
	flags.StringVar(&a.agent, "agent", os.Getenv("DIBS_AGENT"), "the agent's `name` (or DIBS_AGENT); auto: one minted for this session")
	flags.StringVar(&a.socket, "socket", "", "the daemon's socket, a `path` (or DIBS_SOCKET)")
	flags.StringVar(&a.config, "config", "", "the configuration `file` (or DIBS_CONFIG)")
	a.addRemote(root)
	flags.Lookup("agent").DefValue = "" // not part of the help
	root.SetFlagErrorFunc(flagError)
	root.Flags().Bool("version", false, "show which dibs this is")
	root.SetVersionTemplate("{{.Version}}\n")
	completeFlag(root, "agent", a.agents)

	a.addCommands(root)
	refuseGone(root)
	defaults(root)
	return root
}

func (a *app) addRemote(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&a.remote.url, "url", "", "the `address` of a daemon on another machine (or DIBS_URL)")
	flags.StringVar(&a.remote.tokenFile, "token-file", "", "the `file` with the access token for --url (or DIBS_TOKEN_FILE, DIBS_TOKEN, DIBS_TOKEN_COMMAND)")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.checkRemote(cmd) }
	completeFlag(root, "url", func(context.Context) []string { return nil })
}

// atHome are the commands that work on the daemon's machine alone.
var atHome = []string{"serve", "init", "notify", "backup", "try", "demo", "simulate", "emulator"}

// checkRemote refuses flags that contradict each other, or the command.
func (a *app) checkRemote(cmd *cobra.Command) error {
	name := cmd
	for name.HasParent() && name.Parent().HasParent() {
		name = name.Parent()
	}
	var err error
	switch given := a.remote.url != "" || a.remote.tokenFile != ""; {
	case a.remote.url != "" && a.socket != "":
		err = usagef("--url and --socket name two daemons: keep one of them")
	case given && slices.Contains(atHome, name.Name()):
		err = usagef("dibs %s works on the daemon's machine: leave out --url and --token-file", name.Name())
	case a.remote.tokenFile != "" && a.address() == "":
		err = usagef("--token-file is for a daemon on another machine: give --url or DIBS_URL, too")
	}
	if err != nil && name.Name() == "hook" {
		return harmless(err.Error())
	}
	return err
}

// defaults sets what most commands have: no arguments, and no completions for them.
func defaults(above *cobra.Command) {
	for _, cmd := range above.Commands() {
		if cmd.Args == nil {
			cmd.Args = arguments()
		}
		if cmd.ValidArgsFunction == nil && cmd.ValidArgs == nil {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		defaults(cmd)
	}
}

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
			a.reserveCommand(), a.unreserveCommand(), a.reservationsCommand(), a.checkCommand(), a.worktreesCommand(),
		}},
		{"Set up:", []*cobra.Command{
			a.tryCommand(), a.demoCommand(), a.initCommand(), a.doctorCommand(), a.connectCommand(), a.notifyCommand(), a.webhookCommand(), a.tokenCommand(),
		}},
		{"Run the daemon:", []*cobra.Command{
			a.serveCommand(), a.pauseCommand(), a.resumeCommand(), a.backupCommand(), a.adoptCommand(), a.clusterCommand(), a.versionCommand(),
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
