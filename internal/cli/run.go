package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/runner"

	"github.com/spf13/cobra"
)

func (a *app) runCommand() *cobra.Command {
	var flags claimFlags
	var filter filterFlags
	var taskArg string
	var loop bool
	var patience time.Duration
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND…",
		Short: "Claim a task and run a command for it",
		Long: "Claim the next ready task, or the one that --task names, and run a command for it; --priority, --where\n" +
			"and --text say which of the ready tasks will do, as with dibs next. The command finds the task in\n" +
			"DIBS_TASK_ID, DIBS_TASK_TITLE and DIBS_TASK_URL, what its page says and the comments on it in the\n" +
			"file DIBS_TASK_FILE, and the claim in DIBS_CLAIM_ID and DIBS_AGENT, in a cluster with its fence in\n" +
			"DIBS_FENCE. While it runs the claim is renewed. When it ends with 0 the task is completed; with 75, given back, for --loop to try it again\n" +
			"later; with anything else it failed, for the reason that it printed last on stderr. If the claim is\n" +
			"lost, the command is stopped; if dibs run is stopped or killed, the command is too, and the task is\n" +
			"given back. A command that is stopped has --patience to end; a second signal kills it at once. What\n" +
			"it started ends with it, on Linux also in sessions of its own; only what a command that ended with 0\n" +
			"left running goes on. It does not get the Notion token.\n\n" +
			"Exit code: the command's, 128 and the signal's number if it died of one; 3: nothing was claimed;\n" +
			"4: the claim was lost. With --loop, 0 when all that was ready is done.",
		Example: "  dibs run --agent Sandman -- make deploy\n" +
			"  dibs run --agent Sandman --loop --wait 1h --where Area=Web -- ./work.sh",
		ValidArgsFunction: filesToo,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("dibs run wants a command, behind --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			id := ""
			if taskArg != "" {
				parsed, err := taskID(taskArg)
				if err != nil {
					return usagef("--task: %w", err)
				}
				id = string(parsed)
			}
			if loop && id != "" {
				return usagef("--loop goes on with whatever is ready: leave out --task")
			}
			if patience < 0 {
				return usagef("--patience %v: want a time from 0s", patience)
			}
			only, err := filter.filter()
			if err != nil {
				return err
			}
			if id != "" && !only.Empty() {
				return usagef("--priority, --where and --text choose among the tasks that are ready: leave them out, or --task")
			}
			request, err := a.claimRequest(cmd, api.ClaimRequest{Task: id, Filter: only}, flags)
			if err != nil {
				return err
			}
			daemon, err := a.direct()
			if err != nil {
				return err
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			code, err := runner.Run(cmd.Context(), runner.Options{
				Daemon: daemon, Claim: request, Loop: loop, Command: args, Patience: patience,
				Stdin: cmd.InOrStdin(), Stdout: a.stdout, Stderr: a.stderr,
				Env:        config.Environment(),
				Supervisor: []string{self, guardCommand}, Brief: func(ctx context.Context, w io.Writer, c api.Claim) error { return brief(ctx, w, daemon, c) },
				Say: func(format string, args ...any) { a.say("dibs: "+format, args...) },
			})
			switch p, refused := errors.AsType[*api.Problem](err); {
			case errors.Is(err, runner.ErrLost):
				a.say("dibs: %s", clean(err.Error()))
				return ended{api.ExitLost}
			case refused:
				return notClaimed{p}
			case err != nil:
				return err
			case code != 0:
				return ended{code}
			}
			return nil
		},
	}
	flags.addWait(cmd)
	filter.add(a, cmd)
	cmd.Flags().StringVar(&taskArg, "task", "", "the task, an `id` or URL, instead of the next one")
	cmd.Flags().BoolVar(&loop, "loop", false, "go on with the next task until none is ready; with --wait, for ever")
	cmd.Flags().DurationVar(&patience, "patience", 10*time.Second, "how long the command has to end by itself once it is stopped, by a signal or because its claim is lost")
	return cmd
}

// guardCommand is a hidden command: the supervisor, which kills the command of dibs run if that is
// killed.
const guardCommand = "run-guard"

func (a *app) guardCommand() *cobra.Command {
	return &cobra.Command{
		Use: guardCommand, Short: "Part of dibs run", Hidden: true,
		RunE: func(*cobra.Command, []string) error { return runner.Supervise() },
	}
}
