// Package demo shows dibs at work without an account: a Notion-compatible server, a daemon on its
// socket, two agents that claim and finish tasks, and a person who edits the board meanwhile.
// Afterwards it checks that nothing was done twice and that the logs are complete.
package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"dibs/config"
	"dibs/internal/api/client"
	"dibs/internal/notion/emulator"
	"dibs/internal/setup/try"
	"dibs/internal/task"
)

// Options configures the demo.
type Options struct {
	// JSON prints the summary as one JSON document on Out, and the events on Err.
	JSON bool
	// Keep leaves daemon and server running until the context ends.
	Keep bool
	// Terminal, if set, shows a screen that changes, and keeps the board in the browser open until
	// a key is pressed.
	Terminal *Terminal
	// Command is how dibs is called, for the commands to try next.
	Command string
	// Version is shown by the daemon.
	Version  string
	Out, Err io.Writer
}

// Summary is the demo's result.
type Summary struct {
	Tasks        int     `json:"tasks"`
	Completed    int     `json:"completed"`
	GrantedTwice int     `json:"granted_twice"` // tasks granted more than once, even one after the other
	Lost         int     `json:"lost"`          // claims that the person took back
	Refused      int     `json:"refused"`       // claims that were denied
	Swept        int     `json:"swept"`         // stale claims reopened
	Requests     int     `json:"requests"`
	MeshLog      int     `json:"mesh_log_entries"`
	TaskLog      int     `json:"task_log_entries"`
	Seconds      float64 `json:"seconds"`
	TooMany      int     `json:"too_many_requests"` // refused with 429
}

// limit is the demo's rate limit in requests per minute, that of a Business workspace. With the
// standard limit two agents would take a minute.
const limit = 600

// timing keeps the demo short; the server is on this machine and answers fast.
func timing() *config.Config {
	c := config.Default()
	c.Notion.Rate, c.Notion.Burst = limit/60, 120
	c.Claim.WriteWindow, c.Claim.Settle = 800*time.Millisecond, 1100*time.Millisecond
	c.Sync.Interval = time.Second
	c.Schedule.Sweep = "@every 1s"
	return &c
}

// demo is one run.
type demo struct {
	Options
	notion *emulator.Emulator
	url    string
	config config.Config
	client *client.Client
	print  *printer
	link   func() string // the link that opens the board in the browser
	began  time.Time

	mu       sync.Mutex
	summary  Summary
	grantees map[task.ID][]string // the agents to which each task was granted, in order
	grants   int
	edited   bool
}

// Run runs the demo. The error says what went wrong.
func Run(ctx context.Context, o Options) (err error) {
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		closing, ignore := signal.NotifyContext(ctx, syscall.SIGHUP) // the terminal is closed
		defer ignore()
		ctx = closing
	}
	dir, err := os.MkdirTemp(config.ShortDir(os.TempDir(), len("/dibs-demo-1234567890/dibs.sock")), "dibs-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d := &demo{Options: o, began: time.Now(), grantees: make(map[task.ID][]string)}
	d.print = newPrinter(o)
	d.print.line("demo", "starts a server with Notion's API, a daemon and two agents, on this machine only: about fifteen seconds")

	running, err := try.Start(ctx, try.Options{Dir: dir, Limit: limit, Config: timing(), Version: o.Version})
	if err != nil {
		return err
	}
	d.notion, d.url, d.config = running.Notion, running.URL, running.Config
	d.client = client.New(d.config.Socket)
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- running.Run(serving) }()
	defer func() {
		stopServing()
		err = errors.Join(err, <-done)
	}()

	link, closed, err := d.show(ctx)
	if err != nil {
		return err
	}
	defer closed()
	if o.Terminal != nil {
		d.print.open(newScreen(*o.Terminal, "two agents and a person share a board", link, append(slices.Clone(crew), visitor), d.counts))
		defer d.print.close()
	} else if o.Keep {
		d.print.line("demo", "watch it in the browser: %s", link)
	} else {
		d.print.line("demo", "watch it in the browser while the demo runs: %s", link)
	}
	if err := d.play(ctx); err != nil {
		return err
	}
	problems := d.check(ctx)
	d.print.close()
	d.report()
	if len(problems) > 0 {
		return fmt.Errorf("the demo found something wrong: %w", errors.Join(problems...))
	}
	if o.Keep {
		return d.keep(ctx)
	}
	return d.bye(ctx)
}

// bye says what to try next. On a terminal it keeps the board in the browser open until a key is
// pressed.
func (d *demo) bye(ctx context.Context) error {
	w := d.Out
	if d.JSON {
		w = d.Err
	}
	dibs := cmp.Or(d.Command, "dibs")
	fmt.Fprintf(w, `
Try next:
  %[1]s try &                        a board and a daemon of your own, without an account
  %[1]s try next --agent Sandman     claim a task there
  %[1]s init --parent URL            begin on a page in Notion
`, dibs)
	if d.Terminal == nil {
		return nil
	}
	fmt.Fprintf(w, "\nThe board is open in the browser until you press a key:\n  %s\n", d.link())
	return d.Terminal.anyKey(ctx.Done())
}

// crew has the names of the agents.
var crew = []string{"Sandman", "Oracle"}

// counts returns how many tasks have which status.
func (d *demo) counts() []counted {
	all := []counted{{name: "COMPLETED"}, {name: "IN_PROGRESS"}, {name: "OPEN"}, {name: "BLOCKED"}, {name: "CANCELLED"}}
	for _, p := range d.notion.Pages(d.notion.Databases().Tasks) {
		if i := slices.IndexFunc(all, func(c counted) bool { return c.name == p.Select("status") }); i >= 0 {
			all[i].n++
		}
	}
	return all
}

// play runs the agents until nothing is ready.
func (d *demo) play(ctx context.Context) error {
	d.summary.Tasks = len(d.notion.Pages(d.notion.Databases().Tasks))
	d.print.line("demo", "a board of %d tasks at %s, a daemon on %s", d.summary.Tasks, d.url, d.config.Socket)
	var agents sync.WaitGroup
	errs := make([]error, len(crew))
	for i, name := range crew {
		agents.Go(func() { errs[i] = d.work(ctx, name) })
	}
	agents.Wait()
	return errors.Join(errs...)
}

// report prints the summary.
func (d *demo) report() {
	s := &d.summary
	s.Seconds = time.Since(d.began).Round(100 * time.Millisecond).Seconds()
	if d.JSON {
		enc := json.NewEncoder(d.Out)
		enc.SetIndent("", "  ")
		enc.Encode(s)
		return
	}
	fmt.Fprintf(d.Out, `
%d tasks, %d completed by %d agents, %d granted twice
%d refused, %d taken back by a person, %d stale claim(s) swept
%d requests to Notion, %d mesh-log entries, %d task-log entries, %.1f seconds
`, s.Tasks, s.Completed, len(crew), s.GrantedTwice, s.Refused, s.Lost, s.Swept, s.Requests, s.MeshLog, s.TaskLog, s.Seconds)
}

// keep adds new tasks to the board and waits for people to try things.
func (d *demo) keep(ctx context.Context) error {
	for _, title := range []string{"Try dibs by hand", "Claim this from two terminals", "Release this one"} {
		if _, err := d.notion.CreatePage(d.notion.Databases().Tasks, map[string]any{"Name": text("title", title)}); err != nil {
			return err
		}
	}
	w := d.Out
	if d.JSON {
		w = d.Err
	}
	fmt.Fprintf(w, `
The daemon and the board go on until you press Ctrl-C. In another terminal:

  export DIBS_SOCKET=%s
  dibs ready
  dibs next --agent Sandman
  dibs next --agent Oracle
  dibs complete --agent Sandman --summary "done by hand"
  dibs log
  curl --unix-socket %[1]s http://dibs/v1/status

The board speaks Notion's API at %s (token %s).
In the browser it is at %s
`, d.config.Socket, d.url, d.notion.Token(), d.link())
	<-ctx.Done()
	return nil
}
