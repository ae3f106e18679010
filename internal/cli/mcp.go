package cli

import (
	"log/slog"
	"os"
	"time"

	"dibs/internal/mcp"

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
		Example:           "  claude mcp add dibs -- dibs mcp\n  codex mcp add dibs -- dibs mcp",
		Args:              arguments(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkAgent(); err != nil {
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
				Daemon: a.daemon, Agent: a.agent, Session: os.Getenv("CLAUDE_CODE_SESSION_ID"),
				Grace: grace, Version: thisBuild().Version, Log: slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level})),
			}, cmd.InOrStdin(), a.stdout)
		},
	}
	cmd.Flags().DurationVar(&grace, "grace", time.Minute, "how long what was claimed is kept once this has ended")
	return cmd
}
