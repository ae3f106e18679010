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
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/door/board"
	"dibs/internal/kit/clock"
	"dibs/internal/notion/emulator"
	"dibs/internal/setup/try"
	"dibs/internal/task"
)

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
	opened chan struct{} // closed once somebody has opened it
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

// bye says what to try next. A board that somebody has opened in the browser stays until ctx ends. On a
// terminal it can be opened until a key is pressed.
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
	select {
	case <-d.opened:
	default:
		if d.Terminal == nil {
			return nil
		}
		fmt.Fprintf(w, "\nThe board is open in the browser until you press a key:\n  %s\n", d.link())
		if pressed, err := d.Terminal.anyKey(ctx.Done(), d.opened); err != nil || pressed {
			return err
		}
	}
	if ctx.Err() == nil {
		fmt.Fprintln(w, "\nThe board stays open in the browser until you press Ctrl-C.")
		<-ctx.Done()
	}
	return nil
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

// workTime is how long the work on a task takes.
const (
	workTime    = 150 * time.Millisecond
	watchedTime = 700 * time.Millisecond // for somebody who watches
)

// idleTime is how long an agent waits for a ready task before it checks whether to stop.
// longestIdle bounds the wait: a task may be held by nobody of the demo.
const (
	idleTime    = 4 * time.Second
	longestIdle = 30 * time.Second
)

// personEdits is the number of grants after which the person edits the board.
const personEdits = 6

// work runs one agent: it claims the next task, does it and completes it, until nothing has been
// ready for a while.
func (d *demo) work(ctx context.Context, agent string) error {
	busy := time.Now() // the time of its last grant
	for {
		cl, err := client.Do(ctx, d.client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: agent, WaitSeconds: idleTime.Seconds()}))
		refused, isRefused := errors.AsType[*api.Problem](err)
		switch {
		case isRefused && refused.Code == api.Code(claim.CodeNothingReady):
			if d.underWay() && time.Since(busy) < longestIdle {
				continue
			}
			d.print.line(agent, "goes home: nothing is ready")
			return nil
		case isRefused && refused.Code.Passes():
			clock.Pause(ctx, workTime)
			d.print.line(agent, "tries again: %s", refused.Detail)
			continue
		case err != nil:
			return fmt.Errorf("%s: next: %w", agent, err)
		}
		first := d.granted(cl)
		d.print.line(agent, "claimed    %s", describe(cl.Task))
		if err := d.interludes(ctx, agent, cl, first); err != nil {
			return err
		}
		clock.Pause(ctx, d.workTime())
		if err := d.finish(ctx, agent, cl); err != nil {
			return err
		}
		busy = time.Now()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// workTime returns how long the work on a task takes: long enough to be seen, if somebody watches.
func (d *demo) workTime() time.Duration {
	if d.Terminal != nil {
		return watchedTime
	}
	return workTime
}

// underWay reports whether a task is IN_PROGRESS, for an agent or for a claim that is being
// withdrawn: when that ends, something may become ready.
func (d *demo) underWay() bool {
	return slices.ContainsFunc(d.notion.Pages(d.notion.Databases().Tasks), func(p emulator.Page) bool {
		return p.Select("status") == string(task.InProgress)
	})
}

// summaries say what was done, by the titles of the demo's tasks.
var summaries = map[string]string{
	"Fix login redirect loop on Safari":                     "The callback works without the cookie now; a test covers it from all four entry pages.",
	"Add retry with backoff to the billing webhook":         "Five tries from one second on, then the dead letter queue. Tested against a service that restarts.",
	"Write the migration for account time zones":            "The column is there, nullable. It ran on staging in 40 seconds.",
	"Backfill account time zones":                           "Filled in from the billing country, 500 accounts at a time; 212 have none and keep UTC.",
	"Show times in the account's own zone":                  "Web and e-mail use the account's zone, UTC where there is none.",
	"Profile the slow project list":                         "Nine tenths of the 2.4 seconds go into one sort without an index.",
	"Add the index that the profile calls for":              "Built concurrently; p95 of the list went from 2.4 s to 180 ms.",
	"Draft the October release notes":                       "From 31 merged pull requests: four features, nine fixes.",
	"Replace the deprecated date picker":                    "All four pages use the new one; the old package is gone.",
	"Add keyboard shortcuts to the board":                   "j, k, enter and escape work, and a list of them opens with ?.",
	"Document the export API":                               "A page with a curl example for each of the six endpoints.",
	"Translate the onboarding e-mails into German":          "Five texts, with Sie throughout.",
	"Send the German onboarding e-mails to new sign-ups":    "Behind onboarding_de, which is on for staff.",
	"Rotate the staging certificates":                       "New ones until November of next year; a reminder is set.",
	"Remove the feature flags that are on for everybody":    "Fourteen flags and 620 lines are gone.",
	"Collect ideas for the autumn hack week":                "Eleven ideas on one page, with a name beside each.",
	"Publish the new privacy page":                          "It is out, with the reviewed agreement.",
	"Get the legal review of the data processing agreement": "Counsel has two changes; both are in.",
}

// finish completes a task.
func (d *demo) finish(ctx context.Context, agent string, cl api.Claim) error {
	_, err := client.Do(ctx, d.client, api.OpComplete, api.On(string(cl.ID), "", api.CompleteRequest{Agent: agent, Summary: cmp.Or(summaries[cl.Task.Title], "Done in the demo.")}))
	refused, isRefused := errors.AsType[*api.Problem](err)
	switch {
	case isRefused && refused.Code == api.CodeClaimLost:
		d.mu.Lock()
		d.summary.Lost++
		d.mu.Unlock()
		d.print.line(agent, "lost       %s (%s)", describe(cl.Task), refused.Detail)
		return nil
	case err != nil:
		return fmt.Errorf("%s: complete %s: %w", agent, cl.Task.Title, err)
	}
	d.print.line(agent, "completed  %s", describe(cl.Task))
	return nil
}

// granted counts a grant, and reports whether it is the first. No task of the demo may be granted twice, even one after the other: a
// granted task is completed, or cancelled by the person.
func (d *demo) granted(cl api.Claim) (first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	earlier := d.grantees[cl.Task.ID]
	if len(earlier) > 0 {
		d.print.line(cl.Agent, "WAS GRANTED WHAT %s HAD: %s", strings.Join(earlier, " AND "), describe(cl.Task))
	}
	if len(earlier) == 1 {
		d.summary.GrantedTwice++
	}
	d.grantees[cl.Task.ID] = append(earlier, cl.Agent)
	d.grants++
	return d.grants == 1
}

// interludes runs what happens once: the other agent asks for a task that this one holds, and a
// person edits the board.
func (d *demo) interludes(ctx context.Context, agent string, cl api.Claim, first bool) error {
	d.mu.Lock()
	edit := d.grants >= personEdits && !d.edited && !d.isAwaited(cl.Task.ID)
	d.edited = d.edited || edit
	d.mu.Unlock()
	if first {
		return d.askForHeld(ctx, agent, cl)
	}
	if edit {
		return d.person(cl)
	}
	return nil
}

// isAwaited reports whether other tasks depend on one. If the person cancelled it, these would stay
// undone, and the result would depend on timing.
func (d *demo) isAwaited(id task.ID) bool {
	return slices.ContainsFunc(d.notion.Pages(d.notion.Databases().Tasks), func(p emulator.Page) bool {
		return slices.Contains(p.Relation("depends_on"), string(id))
	})
}

// askForHeld lets the other agent ask for a held task, and be refused.
func (d *demo) askForHeld(ctx context.Context, holder string, cl api.Claim) error {
	rival := crew[0]
	if rival == holder {
		rival = crew[1]
	}
	got, err := client.Do(ctx, d.client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: rival, Task: string(cl.Task.ID)}))
	if err == nil {
		d.granted(got)
		return nil
	}
	refused, ok := errors.AsType[*api.Problem](err)
	if !ok {
		return fmt.Errorf("%s: claim %s: %w", rival, cl.Task.Title, err)
	}
	d.mu.Lock()
	d.summary.Refused++
	d.mu.Unlock()
	d.print.line(rival, "refused    %s (%s)", describe(cl.Task), refused.Detail)
	return nil
}

// visitor is the person who edits the board.
const visitor = "Maria"

// person cancels the task that an agent works on, and makes another one urgent. People win: the
// agent learns of it when it reports its work.
func (d *demo) person(cl api.Claim) error {
	if err := d.notion.EditPage(string(cl.Task.ID), map[string]any{"status": option("status", "CANCELLED")}); err != nil {
		return err
	}
	d.print.line(visitor, "cancelled  %s in Notion, while %s works on it", describe(cl.Task), cl.Agent)
	for _, p := range d.notion.Pages(d.notion.Databases().Tasks) {
		if p.Select("status") == "OPEN" && p.Text("claimed_by") == "" && p.Select("priority") == "low" && len(p.Relation("depends_on")) == 0 {
			d.print.line(visitor, "made       “%s” critical", p.Title())
			return d.notion.EditPage(p.ID, map[string]any{"priority": option("select", "critical")})
		}
	}
	return nil
}

func describe(t api.TaskRef) string { return fmt.Sprintf("“%s” (%s)", t.Title, t.Priority) }

// option and text return property values in the form of Notion's API.
func option(kind, name string) any { return map[string]any{kind: map[string]any{"name": name}} }

func text(kind, content string) any {
	return map[string]any{kind: []any{map[string]any{"text": map[string]any{"content": content}}}}
}

// show serves the demo's board in the browser; link opens it, and closed stops it.
func (d *demo) show(ctx context.Context) (link string, closed func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("a board in the browser: %w", err)
	}
	base := "http://" + l.Addr().String()
	b := board.New(board.Options{Daemon: d.client, User: "a visitor of the demo"})
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var serving sync.WaitGroup
	d.opened = make(chan struct{})
	var first sync.Once
	serving.Go(func() { b.Serve(ctx, l) })
	serving.Go(func() {
		for {
			select {
			case <-b.Entered():
				first.Do(func() { close(d.opened) })
				d.print.line("board", "the link was used; for another browser: %s", b.Link(base))
			case <-ctx.Done():
				return
			}
		}
	})
	d.link = func() string { return b.Link(base) }
	return b.Link(base), func() {
		cancel()
		serving.Wait()
	}, nil
}

// deliveryTime is how long the log entries may take to arrive.
const deliveryTime = 8 * time.Second

// check compares the local record with the board, and fills in the summary. It returns what is
// wrong.
func (d *demo) check(ctx context.Context) (problems []error) {
	var entries []api.LogEntry
	if err := d.delivered(ctx); err != nil {
		problems = append(problems, err)
	}
	record, err := client.Do(ctx, d.client, api.OpLog, api.LogInput{Limit: 1000})
	if err != nil {
		problems = append(problems, err)
	}
	entries = append(entries, record.Entries...)
	return append(problems, d.audit(entries)...)
}

// audit checks the board after delivery.
func (d *demo) audit(record []api.LogEntry) (problems []error) {
	dbs, s := d.notion.Databases(), &d.summary
	mesh, tasks := d.notion.Pages(dbs.MeshLog), d.notion.Pages(dbs.TaskLog)
	s.MeshLog, s.TaskLog, s.Requests = len(mesh), len(tasks), len(d.notion.Requests())
	for _, p := range d.notion.Pages(dbs.Tasks) {
		if p.Select("status") == "COMPLETED" && p.Text("claimed_by") != "" {
			s.Completed++
		}
	}
	for _, r := range d.notion.Requests() {
		if r.Status == http.StatusTooManyRequests {
			s.TooMany++
		}
	}
	if s.GrantedTwice > 0 {
		problems = append(problems, fmt.Errorf("%d task(s) were granted twice", s.GrantedTwice))
	}
	logged := make(map[claim.Log]map[string]bool)
	for _, e := range record {
		if e.Kind == claim.KindSwept {
			s.Swept++
		}
		for _, log := range (claim.Fact{Kind: e.Kind, Remote: e.Remote}).Logs() {
			if logged[log] == nil {
				logged[log] = make(map[string]bool)
			}
			logged[log][e.ID] = true
		}
	}
	problems = append(problems, compare("mesh log", logged[claim.MeshLog], mesh)...)
	return append(problems, compare("task log", logged[claim.TaskLog], tasks)...)
}

// delivered waits until the daemon owes Notion nothing.
func (d *demo) delivered(ctx context.Context) error {
	for deadline := time.Now().Add(deliveryTime); ; clock.Pause(ctx, 100*time.Millisecond) {
		status, err := client.Do(ctx, d.client, api.OpStatus, struct{}{})
		if err != nil {
			return err
		}
		if status.Outbox.Depth == 0 && !status.Outbox.Unknown() {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d log entries did not arrive: %s", status.Outbox.Depth, status.Outbox.LastError)
		}
	}
}

// compare checks that a log has each entry once, and nothing else.
func compare(log string, logged map[string]bool, rows []emulator.Page) (problems []error) {
	granted := make(map[string]int)
	for _, row := range rows {
		granted[row.Text("entry_id")]++
	}
	for id := range logged {
		if n := granted[id]; n != 1 {
			problems = append(problems, fmt.Errorf("the %s has entry %s %d times, want once", log, id, n))
		}
	}
	for id := range granted {
		if !logged[id] {
			problems = append(problems, fmt.Errorf("the %s has an entry %q that nothing accounts for", log, id))
		}
	}
	return problems
}
