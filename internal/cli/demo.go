package cli

import (
	"os"
	"os/exec"
	"strings"

	"dibs/internal/setup/demo"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func (a *app) demoCommand() *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See two agents and a person share a board, without an account",
		Long: "Run a Notion-compatible server with some twenty tasks, a daemon, and two agents that claim and\n" +
			"finish tasks until nothing is ready, while a person edits the board. Nothing outside this\n" +
			"machine is touched, and no configuration is read. A link shows all of it in the browser, as long\n" +
			"as the demo runs, and on a terminal until a key is pressed. Exit code 1: a task was granted twice,\n" +
			"or a log entry is missing or doubled.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.Run(cmd.Context(), demo.Options{
				JSON: a.json, Keep: keep, Version: thisBuild().Version, Out: a.stdout, Err: a.stderr,
				Terminal: a.screen(), Command: calledAs(),
			})
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "leave daemon and server running, and say how to try claims by hand")
	return cmd
}

// screen returns the terminal for a screen that changes, and for keys; nil if there is none, in CI,
// or if JSON is wanted.
func (a *app) screen() *demo.Terminal {
	in, _ := a.stdin.(*os.File)
	out, _ := a.stdout.(*os.File)
	if !a.person() || !inFront(in) || os.Getenv("CI") != "" || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &demo.Terminal{In: in, Out: out, Colours: coloured(out)}
}

// inFront reports whether this process may read its terminal: a job in the background would be
// stopped.
func inFront(in *os.File) bool {
	if !isTerminal(in) {
		return false
	}
	group, err := unix.IoctlGetInt(int(in.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// calledAs returns how dibs was called, for a person to repeat it.
func calledAs() string {
	self, err := os.Executable()
	switch found, lookErr := exec.LookPath("dibs"); {
	case err != nil, lookErr == nil && found == self:
		return "dibs"
	case strings.Contains(self, "go-build"): // by go run, which removes it
		return "go run ./cmd/dibs"
	}
	return self
}
