package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"dibs/internal/notion/emulator"

	"github.com/spf13/cobra"
)

// emulating is the output of `emulator --json`.
type emulating struct {
	URL       string             `json:"url"`
	Token     string             `json:"token"`
	Databases emulator.Databases `json:"databases"`
}

func (a *app) emulatorCommand() *cobra.Command {
	var listen, state, seed, token, webhook string
	var hosts, versions []string
	var limit, tasks int
	cmd := &cobra.Command{
		Use:   "emulator",
		Short: "Run a Notion-compatible server",
		Long: "Run a server that speaks Notion's API, with the three databases that dibs works with, for trying\n" +
			"things and for tests. Any Notion client can use it. It serves until it is stopped.",
		Example: "  dibs emulator --listen 127.0.0.1:8787 --seed demo",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usagef("--limit %d: want a number of requests a minute, or 0 for no limit", limit)
			}
			if seed != "demo" && seed != "empty" {
				return usagef("--seed %q: want demo or empty", seed)
			}
			if tasks < 0 || tasks > maxAdded {
				return usagef("--tasks %d: want a number of tasks to add, 0 to %d", tasks, maxAdded)
			}
			log := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
			e, err := emulator.New(emulator.Options{Token: token, Limit: limit, StateFile: state, Versions: versions, Log: log})
			if err != nil {
				return err
			}
			err = furnish(e, seed, tasks)
			if err == nil && webhook != "" {
				if err = e.Subscribe(emulator.Webhook{URL: webhook}); err != nil {
					err = usagef("--webhook: %w", err)
				}
			}
			if err == nil {
				err = a.emulate(cmd.Context(), e, listen, hosts)
			}
			return errors.Join(err, e.Close())
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "the `address` to serve on; port 0 is any free one")
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "a `name` that requests may be for, beside localhost and addresses")
	cmd.Flags().StringSliceVar(&versions, "api-version", nil, "a `version` of the API to speak, such as 2025-09-03 (default: all)")
	cmd.Flags().StringVar(&state, "state", "", "a `file` to keep the state in (default: keep nothing)")
	cmd.Flags().StringVar(&seed, "seed", "demo", "what a new state holds: `demo` tasks, or empty databases")
	cmd.Flags().IntVar(&tasks, "tasks", 0, "how many more open tasks a new state holds, for trying a large board")
	cmd.Flags().StringVar(&token, "token", "", "the `token` to accept (default: that of the state file, or a random one)")
	cmd.Flags().IntVar(&limit, "limit", 180, "requests allowed in each minute, 0 for any number")
	cmd.Flags().StringVar(&webhook, "webhook", "", "the `URL` of a webhook to send events to, as Notion does (default: none)")
	return cmd
}

// maxAdded is the largest board that fits in an ordinary machine's memory, in tasks.
const maxAdded = 1_000_000

// furnish fills a new emulator. One that has loaded a state is left as it is.
func furnish(e *emulator.Emulator, seed string, tasks int) error {
	if e.Databases() != (emulator.Databases{}) {
		return nil
	}
	if _, err := e.Seed(seed); err != nil || tasks == 0 {
		return err
	}
	return e.AddTasks(tasks)
}

// emulate serves until ctx ends.
func (a *app) emulate(ctx context.Context, e *emulator.Emulator, listen string, hosts []string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", listen, err)
	}
	if at, ok := l.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() {
		a.say("other machines can reach this server on %s: its token is all that keeps them out, and goes over the network unencrypted", l.Addr())
	}
	server := &http.Server{Handler: emulator.Addressed(hosts, e), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()

	where := emulating{URL: "http://" + l.Addr().String(), Token: e.Token(), Databases: e.Databases()}
	err = a.print(where, func(w io.Writer) {
		fmt.Fprintf(w, "A Notion-compatible server on %s. To let a daemon work on it:\n\n", where.URL)
		fmt.Fprintf(w, "  export NOTION_TOKEN=%s DIBS_NOTION_BASE_URL=%s\n", where.Token, where.URL)
		dbs := where.Databases
		fmt.Fprintf(w, "  export DIBS_DATABASES_TASKS=%s DIBS_DATABASES_TASK_LOG=%s DIBS_DATABASES_MESH_LOG=%s\n", dbs.Tasks, dbs.TaskLog, dbs.MeshLog)
		fmt.Fprintf(w, "  dibs serve\n")
	})
	if err != nil {
		server.Close()
		return err
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		server.Close() // clients see broken connections, as from a server that dies
		return nil
	}
}
