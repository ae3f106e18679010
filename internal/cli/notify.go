package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/outbox/notify"

	"github.com/spf13/cobra"
)

func (a *app) notifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "notify test",
		Short: "Send a test notice to each receiver, and say what happened",
		Long: "Send a test notice to each receiver that the configuration lists under notify, now and from here,\n" +
			"and say what happened. It needs no daemon. Exit code 0: each took it; 1: not each did.",
		Args:      arguments("test"),
		ValidArgs: []string{"test"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] != "test" {
				return usagef("dibs notify wants test, got %q", args[0])
			}
			return a.testReceivers(cmd.Context())
		},
	}
}

// tested is the result of a test, for JSON.
type tested struct {
	Receiver string `json:"receiver"`
	Took     bool   `json:"took"`
	Error    string `json:"error,omitempty"`
}

func (a *app) testReceivers(ctx context.Context) error {
	c, err := config.Load(config.Options{File: a.config})
	if err != nil {
		return err
	}
	receivers, err := notify.Open(c.Notify, notify.Options{Output: a.stderr, Environment: config.Environment(c.Journal.Shared()), Log: slog.New(slog.NewTextHandler(a.stderr, nil))})
	if err != nil {
		return err
	}
	if len(receivers) == 0 {
		return errors.New("the configuration has no receivers: list some under notify, see config.example.yaml")
	}
	results, failed := []tested{}, false
	for _, r := range receivers {
		t := tested{Receiver: r.String(), Took: true}
		if err := r.Test(ctx); err != nil {
			t.Took, t.Error, failed = false, err.Error(), true
		}
		results = append(results, t)
	}
	err = a.print(map[string]any{"receivers": results}, func(w io.Writer) {
		for _, t := range results {
			said := "took it"
			if !t.Took {
				said = "did not take it: " + clean(t.Error)
			}
			row(w, clean(t.Receiver), said)
		}
	})
	if err == nil && failed {
		return ended{api.ExitFailure}
	}
	return err
}
