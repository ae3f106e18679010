package cli

import (
	"log/slog"
	"os"
	"time"

	"dibs/internal/door/mcp"
	"dibs/internal/run/sessionid"
	"dibs/internal/task"

	"github.com/spf13/cobra"
)

func (a *app) mcpCommand() *cobra.Command {
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve an agent that speaks the Model Context Protocol",
		Long: "Serve an agent that speaks the Model Context Protocol (MCP), on stdin and stdout: to be started by\n" +
			"its client. What the agent claims is renewed while dibs mcp runs, and given back a minute after it\n" +
			"has ended, unless one of the same name has started by then.\n\n" +
			"The agent's name is --agent or DIBS_AGENT, else one that belongs to the client's session.",
		Example: "  claude mcp add dibs -- dibs mcp\n  codex mcp add dibs -- dibs mcp",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.agent == task.AutoAgent {
				a.agent = "" // each session of the client gets its own name
			} else if err := a.checkAgent(); err != nil {
				return err
			}
			if grace < time.Second || grace > time.Hour {
				return usagef("--grace %v: want a time from 1s to 1h", grace)
			}
			level := slog.LevelWarn
			if os.Getenv("DIBS_LOG_LEVEL") == "debug" {
				level = slog.LevelDebug
			}
			return mcp.Serve(cmd.Context(), mcp.Options{
				Daemon: a.direct, Agent: a.agent, Session: clientSession,
				Grace: grace, Version: thisBuild().Version, Log: slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level})),
			}, cmd.InOrStdin(), a.stdout)
		},
	}
	cmd.Flags().DurationVar(&grace, "grace", time.Minute, "how long what was claimed is kept once this has ended")
	return cmd
}

// clientSession returns the id of the client's session that started this process. A client may send
// its thread with each request: Codex does, and its commands have the same thread in
// CODEX_THREAD_ID, so they share one name with the agent.
func clientSession(thread string) string {
	here, _ := sessionid.OfClient(func(name string) string {
		if name == "CODEX_THREAD_ID" && thread != "" {
			return thread
		}
		return os.Getenv(name)
	})
	return here.ID
}
