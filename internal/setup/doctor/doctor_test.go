package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/door/server"
	"dibs/internal/journal"
	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/setup/doctor"
	"dibs/internal/testkit"

	"github.com/gofrs/flock"
	"github.com/google/go-cmp/cmp"
)

func TestAllIsWell(t *testing.T) {
	inWorld(t, func(w *world) {
		testkit.Must(w, w.journal().Close())
		report := doctor.Run(w.Context(), w.options)
		for _, f := range report.Findings {
			// The emulated workspace is a Free one.
			testkit.Check(w, (f.Level == doctor.OK || f.Check == "plan") && f.Found != "", "%+v", f)
		}
		testkit.Check(w, !report.Failed() && !report.Unreachable, "the report failed")
		for _, r := range w.notion.Requests() {
			testkit.Check(w, r.Method == "GET", "it sent %s %s", r.Method, r.Path)
		}
	})
}

func TestWhatIsWrongIsFound(t *testing.T) {
	inject := func(f emulator.Fault) func(*world) { return func(w *world) { w.notion.Inject(f) } }
	mute := func(method, path string) func(*world) {
		return func(w *world) {
			w.options.Config.Notion.Comments = true
			w.notion.Inject(emulator.Fault{Method: method, Match: func(r *http.Request, _ []byte) bool { return r.URL.Path == path }, Kind: emulator.Forbidden403})
		}
	}
	schema := func(name string, is any) func(*world) { return func(w *world) { w.schema(map[string]any{name: is}) } }
	taskLog := func(name string, is any) func(*world) {
		return func(w *world) {
			testkit.Must(w, w.notion.EditSchema(w.notion.Databases().TaskLog, map[string]any{name: is}))
		}
	}
	more := func(w *world, database string) string {
		return testkit.Got(w.notion.AddDataSource(database, "More", map[string]any{"Name": of("title")}))(w)
	}
	file := func(w *world, path, text string, mode os.FileMode) string {
		testkit.Must(w, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), mode)))
		return path
	}
	for name, tt := range map[string]struct {
		sabotage             func(w *world)
		level                doctor.Level
		check, found, remedy string
	}{
		"no token": {func(w *world) { w.options.Config.Notion.Token = "" }, doctor.Error, "token", "no Notion token", "set NOTION_TOKEN"},
		"a token that cannot be one": {func(w *world) { w.options.Config.Notion.Token = "ntn_ä" },
			doctor.Error, "token", "characters that no token has", "copy the token anew"},
		"comments": {func(w *world) { w.options.Config.Notion.Comments = true }, doctor.OK, "notion.comments", "may make them", ""},
		"comments without the capability to make them": {mute("POST", "/v1/comments"),
			doctor.Warning, "notion.comments", `need the capability "insert comments"`, "switch it on"},
		"comments without the capability to read them": {mute("GET", "/v1/comments"),
			doctor.Warning, "notion.comments", `need the capability "read comments"`, "switch it on"},
		"comments without the capability to mention people": {mute("GET", "/v1/users"), doctor.Warning, "notion.comments", "user information", "switch it on"},
		"a wrong token": {func(w *world) { w.options.Config.Notion.Token = "ntn_wrong" }, doctor.Error, "connection", "401", "check notion.token"},
		"a token file that others can read": {func(w *world) {
			w.options.Config.Notion.Token, w.options.Config.Notion.TokenFile = "", file(w, filepath.Join(w.TempDir(), "token"), w.notion.Token(), 0o644)
		}, doctor.Warning, "token", "mode 0644", "chmod 600"},
		"Notion away": {inject(emulator.Fault{Kind: emulator.Error503}), doctor.Error, "connection", "503", "status page"},
		"a clock that is off": {func(w *world) { w.options.Transport = shifted{w.options.Transport, 10 * time.Minute} },
			doctor.Warning, "clock", "10m0s behind Notion's", "NTP"},
		"a database that is not shared": {func(w *world) { w.notion.Unshare(w.notion.Databases().MeshLog) },
			doctor.Error, "databases.mesh_log", "404", "share the database with the connection"},
		"a linked database": {func(w *world) {
			w.options.Config.Databases.Tasks = testkit.Got(w.notion.LinkDatabase(w.notion.Databases().Tasks))(w)
		}, doctor.Error, "databases.tasks", "400", "that is a linked view of another database"},
		"the id of a data source": {func(w *world) { w.options.Config.Databases.Tasks = more(w, w.notion.Databases().MeshLog) },
			doctor.Error, "databases.tasks", `is the id of the data source "More", not of a database`, "use that of its database, "},
		"an id of wrong digits": {func(w *world) { w.options.Config.Databases.MeshLog = "12345678-1234-1234-1234-123456789abc" },
			doctor.Error, "databases.mesh_log", "should be a valid uuid", "copy it anew"},
		"an edge that turns away": {func(w *world) { w.options.Transport = edge{} },
			doctor.Error, "connection", "403: Forbidden, a page of HTML from the edge", "try from another network"},
		"a database with several data sources": {func(w *world) { more(w, w.notion.Databases().Tasks) },
			doctor.Error, "databases.tasks_source", `several data sources, "Tasks" (`, "set databases.tasks_source"},
		"a data source that there is not": {func(w *world) { w.options.Config.Databases.TasksSource = "Sprint" },
			doctor.Error, "databases.tasks_source", `has no data source "Sprint", only "Tasks" (`, "one of them"},
		"a log with several data sources": {func(w *world) { more(w, w.notion.Databases().MeshLog) },
			doctor.Error, "databases.mesh_log_source", `"More" (`, "set databases.mesh_log_source"},
		"a property that is missing": {schema("claimed_at", nil), doctor.Error, "tasks.properties.claimed_at", "is missing", "add it with type date"},
		"a property of another type": {schema("claimed_by", of("checkbox")),
			doctor.Error, "tasks.properties.claimed_by", "is of type checkbox, want rich_text, select or people", "change its type"},
		"no claim token": {schema("claim_token", nil), doctor.Error, "tasks.properties.claim_token", "is missing", "run dibs init, which adds it"},
		"a property that would be good to have": {schema("claim_timeout_minutes", nil),
			doctor.Warning, "tasks.properties.claim_timeout_minutes", "is missing", "all claims last as long as claim.timeout says"},
		"a status that is no option": {func(w *world) { w.options.Config.Tasks.Statuses.Blocked = "STUCK" },
			doctor.Error, "tasks.properties.status", `no option "STUCK"`, "tasks.statuses"},
		"a priority that means nothing": {func(w *world) { w.options.Config.Tasks.Priorities.High = []string{"P1"} },
			doctor.Warning, "tasks.priorities", `"high"`, "say in tasks.priorities"},
		"a log property of another type": {taskLog("started", of("checkbox")),
			doctor.Warning, "databases.task_log", `"started" is of type checkbox`, "change its type"},
		"a log without entry ids":         {taskLog("entry_id", nil), doctor.Warning, "databases.task_log", "no property for entry_id", "dibs init"},
		"a state directory for everybody": {func(w *world) { w.stateDir(0o755) }, doctor.Warning, "state_dir", "mode 0755", "chmod 700"},
		"a state directory with the socket of a group, for everybody": {func(w *world) {
			w.options.Config.SocketGroup = "agents"
			w.stateDir(0o711)
		}, doctor.Warning, "state_dir", "mode 0711", "chgrp agents "},
		"a state directory of the mode that the daemon asks for with the socket of a group": {func(w *world) {
			w.options.Config.SocketGroup = "agents"
			w.stateDir(0o710)
		}, doctor.OK, "state_dir", "", ""},
		"a state directory for a group whose socket is elsewhere": {func(w *world) {
			w.options.Config.SocketGroup, w.options.Config.Socket = "agents", "/run/dibs/dibs.sock"
			w.stateDir(0o710)
		}, doctor.Warning, "state_dir", "mode 0710", "chmod 700"},
		"a state directory that is none": {func(w *world) { file(w, w.options.Config.StateDir, "", 0o600) },
			doctor.Error, "state_dir", "is not a directory", "another state_dir"},
		"a socket that is none": {func(w *world) { w.options.Config.Socket = file(w, filepath.Join(w.TempDir(), "s"), "", 0o600) },
			doctor.Error, "socket", "is not a socket", "another socket"},
		"a journal that is damaged": {func(w *world) {
			file(w, filepath.Join(w.options.Config.StateDir, journal.FileName), strings.Repeat("not a database. ", 500), 0o600)
		}, doctor.Error, "journal", "file is not a database", "backup"},
		"a journal of a newer version": {func(w *world) {
			j := w.journal()
			testkit.Must(w, errors.Join(j.SetMeta(w.Context(), "schema", "7"), j.Close()))
		}, doctor.Error, "journal", "journal.db has schema 7", "use the dibs that made it"},
		"a box for done": {func(w *world) {
			w.schema(map[string]any{"Erledigt": of("checkbox")})
			w.options.Config.Tasks.Properties.Done = "Erledigt"
		}, doctor.OK, "tasks.properties.done", `"Erledigt", checkbox: what is ticked is COMPLETED`, ""},
	} {
		runIn(t, name, func(w *world) {
			tt.sabotage(w)
			report := doctor.Run(w.Context(), w.options)
			testkit.Check(w, report.Failed() == (tt.level == doctor.Error) && report.Unreachable == (name == "Notion away" || name == "an edge that turns away"),
				"failed = %v, unreachable = %v", report.Failed(), report.Unreachable)
			testkit.Check(w, slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool {
				testkit.Check(w, !strings.Contains(f.Found+f.Remedy, w.notion.Token()), "the token is in %+v", f)
				return f.Check == tt.check && f.Level == tt.level && strings.Contains(f.Found, tt.found) && strings.Contains(f.Remedy, tt.remedy)
			}), "no %s of %s that says %q and %q in:\n%+v", tt.level, tt.check, tt.found, tt.remedy, report.Findings)
		})
	}
}

// A long pause that Notion asks for is reported instead of waited for.
func TestPauses(t *testing.T) {
	const busy = "what else uses this connection's token; the other questions to Notion were left out"
	tests := map[string]struct {
		fault  emulator.Fault
		check  string // the last check that needs Notion
		remedy string
	}{
		"at once":           {emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: 20 * time.Second}, "connection", busy},
		"after a database":  {emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: 20 * time.Second, Skip: 4}, "databases.task_log", busy},
		"blocked":           {emulator.Fault{Kind: emulator.Blocked429, Skip: 1}, "databases.tasks", "has blocked this connection: see the connection's page in Notion, or ask Notion's support; the other questions"},
		"for very long":     {emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: time.Hour, Skip: 1}, "databases.tasks", busy},
		"for a few seconds": {emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: 3 * time.Second, Times: 1}, "databases.mesh_log", ""},
	}
	for name, tt := range tests {
		runIn(t, name, func(w *world) {
			w.notion.Inject(tt.fault)
			start := time.Now()
			w.options.Probe = tt.remedy != "" // probing takes time, too
			report := doctor.Run(w.Context(), w.options)
			took := time.Since(start)
			testkit.Check(w, took <= 5*time.Second, "it took %v", took)
			if f := find(report, tt.check); f.Remedy == "" != (tt.remedy == "") || !strings.Contains(f.Remedy, tt.remedy) {
				w.Errorf("%+v, want the remedy %q", f, tt.remedy)
			}
			reached := false
			for _, f := range report.Findings {
				if f.Check == tt.check {
					reached = true
				} else if reached && strings.HasPrefix(f.Check, "databases.") {
					w.Errorf("%s was looked at, too", f.Check)
				}
			}
			f := find(report, "journal")
			testkit.Check(w, f.Level == doctor.OK, "journal: %+v", f)
			f = find(report, "probe")
			testkit.Check(w, !w.options.Probe || f.Level == doctor.Warning && strings.Contains(f.Found, "pause"), "probe: %+v", f)
		})
	}
}

// Findings are reported as they come; errors from being stopped are not.
func TestStopped(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, stop := context.WithCancelCause(w.Context())
		var told []doctor.Finding
		w.options.OnFinding = func(f doctor.Finding) {
			if told = append(told, f); f.Check == "connection" {
				w.notion.SetLatency(func(*http.Request) (before, after time.Duration) {
					time.AfterFunc(time.Second, func() { stop(errors.New("terminated")) })
					return 2 * time.Second, 0
				})
			}
		}
		report := doctor.Run(ctx, w.options)
		var checks []string
		for _, f := range report.Findings {
			checks = append(checks, f.Check)
		}
		testkit.Same(w, []string{"token", "connection", "plan", "clock"}, checks, "checks")
		diff := cmp.Diff(report.Findings, told)
		testkit.Check(w, diff == "", "told (-found +told):\n%s", diff)
	})
}

// Inspecting the journal changes nothing, and finds the backlog.
func TestBacklogOfAStoppedDaemon(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.journal()
		testkit.Must(w, j.Record(w.Context(), finished(time.Now())))
		now := time.Now()
		for _, cl := range []claim.Hold{
			{State: claim.Finishing, Finish: &claim.Finish{As: claim.EndCompleted, At: now.Add(-time.Minute)}, Detail: "503"},
			{State: claim.Held, Lease: claim.Lease{StaleAt: now.Add(2 * time.Hour)}},
			{State: claim.Held, Lease: claim.Lease{StaleAt: now}},
			{State: claim.Writing},
		} {
			cl.ID, cl.Agent, cl.Task.ID, cl.Reserved = claim.NewID(now), "Sandman", "11111111-2222-3333-4444-555555555555", now
			testkit.Must(w, j.Save(w.Context(), claim.Change{Holds: []claim.Hold{cl}}))
		}
		testkit.Must(w, j.Close())
		time.Sleep(time.Hour)
		for range 2 {
			w.finds("outbox", doctor.Warning, "2 owed to Notion, 1 of them finished claims, the oldest from 1h1m0s ago, last error: 503 start dibs serve: it delivers them")
			w.finds("claims", doctor.Warning, "1 held, and no daemon looks after them start dibs serve before their leases end")
		}
	})
}

// If there are several data sources, the configured one is examined and measured.
func TestANamedDataSource(t *testing.T) {
	inWorld(t, func(w *world) {
		ideas := testkit.Got(w.notion.AddDataSource(w.notion.Databases().Tasks, "Ideas", map[string]any{"Name": of("title")}))(w)
		w.options.Config.Databases.TasksSource, w.options.Probe = "Tasks", true
		w.finds("databases.tasks_source", doctor.OK, `"Tasks" (`)
		w.finds("latency", doctor.OK)
		w.options.Config.Databases.TasksSource = ideas
		w.finds("tasks.properties.status", doctor.Error, "missing")
	})
}

// edge is a proxy in front of Notion that lets nobody through.
type edge struct{}

func (edge) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"text/html"}, "Cf-Ray": {"a125f6839ba26576-AMS"}},
		Body: io.NopCloser(strings.NewReader("<html>Sorry, you have been blocked</html>")), Request: req,
	}, nil
}

// find returns the finding of a check, zero if there is none.
func find(r *doctor.Report, check string) doctor.Finding {
	for _, f := range r.Findings {
		if f.Check == check {
			return f
		}
	}
	return doctor.Finding{}
}

// shifted is a server whose clock is ahead.
type shifted struct {
	next  http.RoundTripper
	ahead time.Duration
}

func (s shifted) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(req)
	if err == nil {
		resp.Header.Set("Date", time.Now().Add(s.ahead).UTC().Format(http.TimeFormat))
	}
	return resp, err
}

func of(kind string) any { return map[string]any{kind: map[string]any{}} }

// finished is a fact for the task log.
func finished(at time.Time) claim.Fact {
	return claim.Fact{
		ID: "01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", At: at, Kind: claim.KindCompleted, Agent: "Sandman",
		Task: "11111111-2222-3333-4444-555555555555", Title: "A task",
	}
}

// A daemon that runs and could not be asked may be well: nobody is told to stop it.
func TestUnaskedDaemon(t *testing.T) {
	failing := func(errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", errno)}
	}
	for name, tt := range map[string]struct {
		err           error
		heard         int64 // bytes that are read before the connection ends, if there is one
		found, remedy string
	}{
		"sandbox":      {failing(syscall.EPERM), 0, "a sandbox keeps this process from its socket", "use the tools of dibs mcp"},
		"another user": {failing(syscall.EACCES), 0, "the socket belongs to another user", "ask for a place in its socket_group"},
		"elsewhere":    {failing(syscall.ENOENT), 0, "nothing answers on ", "give both the same socket"},
		"silent":       {nil, 1 << 30, "does not answer", "see its log"},
		"gone":         {nil, 1, "does not answer", "see its log"},
		"impostor":     {&client.ImpostorError{Socket: "/s", UID: 64001}, 0, "user 64001 listens on /s", "set DIBS_SOCKET"},
	} {
		runIn(t, name, func(w *world) {
			w.stateDir(0o700)
			lock := flock.New(filepath.Join(w.options.Config.StateDir, "daemon.lock"))
			locked, err := lock.TryLock()
			testkit.Require(w, locked && err == nil, "not locked: %v", err)
			defer lock.Close()
			w.options.Daemon = client.Over("/s", func(context.Context) (net.Conn, error) {
				mine, theirs := net.Pipe()
				go func() {
					io.CopyN(io.Discard, theirs, tt.heard)
					theirs.Close()
				}()
				return mine, tt.err
			})
			w.finds("daemon", doctor.Error, tt.found, tt.remedy)
			f := find(doctor.Run(w.Context(), w.options), "daemon")
			testkit.Check(w, !regexp.MustCompile(`\b(stop|restart|start dibs serve)\b`).MatchString(f.Remedy), "it advises: %s", f.Remedy)
		})
	}
}

// The doctor reports the stranger that the daemon has seen, which is amiss only beside one that is to be the only claimer.
func TestStranger(t *testing.T) {
	inWorld(t, func(w *world) {
		status := api.Status{Version: "test", PID: 7, Warnings: []string{}}
		status.Policy.WriteWindowSeconds = w.options.Config.Claim.WriteWindow.Seconds()
		status.Policy.SettleSeconds = w.options.Config.Claim.Settle.Seconds()
		defer w.serve(&status)()
		w.finds("settings", "")
		status.Policy.Stranger = "a daemon with a journal of its own"
		status.ReadToWrite = &api.ReadToWrite{Writes: 7, MedianSeconds: 0.3, SlowestSeconds: 1.2}
		w.finds("stranger", doctor.OK, status.Policy.Stranger)
		w.finds("overwrite", doctor.OK, "300ms as a rule, 1.2s at most, in the last 7 claims")
		status.Policy.Exclusive = true
		w.finds("stranger", doctor.Warning, api.OneJournal)
	})
}

// The doctor tells a webhook that works from one of which nothing comes.
func TestWebhook(t *testing.T) {
	for _, tt := range []struct {
		webhook *api.WebhookStatus
		level   doctor.Level
		found   string
	}{
		{nil, "", ""},
		{&api.WebhookStatus{Address: "http://h:1/notion"}, doctor.Warning, "Notion has sent nothing yet"},
		{&api.WebhookStatus{Verified: true, Polled: 19, Missed: 9}, doctor.OK, "no event yet"},
		{&api.WebhookStatus{Verified: true, Received: 3, Edits: 1, Polled: 19, Missed: 10, LastAt: api.Time{Time: time.Now()}}, doctor.Warning, "syncs found 10 edits since the last event came"},
		{&api.WebhookStatus{Verified: true, Received: 7, Edits: 3, Polled: 1, LastAt: api.Time{Time: time.Now()}}, doctor.OK, "they told of 3 of 4 edits first"},
	} {
		inWorld(t, func(w *world) {
			defer w.serve(&api.Status{Webhook: tt.webhook})()
			w.finds("webhook", tt.level, tt.found)
		})
	}
}

// world is a workspace without faults, in a bubble of virtual time.
type world struct {
	*testing.T
	notion  *emulator.Emulator
	options doctor.Options
}

func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, end := newWorld(t)
		defer end()
		test(w)
	})
}

// newWorld makes a world, in the caller's bubble if there is one.
func newWorld(t *testing.T) (w *world, end func()) {
	t.Helper()
	em := testkit.Got(emulator.New(emulator.Options{}))(t)
	dbs := testkit.Got(em.Seed("empty"))(t)
	transport := em.Client().Transport
	c := config.Default()
	c.Notion.Token = config.Secret(em.Token())
	c.Databases = config.Databases{Tasks: dbs.Tasks, TaskLog: dbs.TaskLog, MeshLog: dbs.MeshLog}
	c.StateDir = filepath.Join(t.TempDir(), "state")
	c.Socket = filepath.Join(c.StateDir, "dibs.sock")
	w = &world{t, em, doctor.Options{
		Config: c, Transport: transport,
		Daemon: client.Over(c.Socket, func(context.Context) (net.Conn, error) { return nil, errors.New("no such file") }),
	}}
	return w, func() {
		transport.(*http.Transport).CloseIdleConnections()
		em.Close()
	}
}

func (w *world) schema(change map[string]any) {
	w.Helper()
	testkit.Must(w, w.notion.EditSchema(w.notion.Databases().Tasks, change))
}

// stateDir makes the state directory with that mode, whatever the umask.
func (w *world) stateDir(mode os.FileMode) {
	w.Helper()
	dir := w.options.Config.StateDir
	testkit.Must(w, errors.Join(os.Mkdir(dir, mode), os.Chmod(dir, mode)))
}

func (w *world) journal() *journal.Journal {
	w.Helper()
	j := testkit.Got(journal.Open(w.Context(), filepath.Join(w.options.Config.StateDir, journal.FileName)))(w)
	return j
}

// finds runs the doctor, which has to find that of a check, and to say all parts of it. The level is
// empty if it is to find nothing.
func (w *world) finds(check string, level doctor.Level, parts ...string) {
	w.Helper()
	f := find(doctor.Run(w.Context(), w.options), check)
	testkit.Check(w, f.Level == level && (f.Remedy != "" || level != doctor.Warning && level != doctor.Error), "%s: %+v, want %q", check, f, level)
	testkit.Says(w, check, f.Found+" "+f.Remedy, parts...)
}

// runIn runs a test of that name in a world.
func runIn(t *testing.T, name string, test func(w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inWorld(t, test) })
}

// serve answers the doctor as a daemon with that status and those tasks, until stop is called.
func (w *world) serve(status *api.Status, tasks ...api.Task) (stop func()) {
	pipe := server.NewPipe()
	serving := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		var answer any = status
		switch r.URL.Path {
		case "/v1/tasks":
			answer = api.Tasks{Tasks: tasks}
		case "/v1/cluster":
			answer = api.Cluster{ClusterStatus: api.ClusterStatus{LastError: "the journal was restored"}, Members: []api.Member{}}
		}
		testkit.OK(w, json.NewEncoder(rw).Encode(answer))
	})}
	go serving.Serve(pipe)
	w.options.Daemon = client.Over("pipe", pipe.Dial)
	return func() { serving.Close() }
}

// The daemon runs with other settings than the file's, each in turn.
func TestSettingsOfTheRunningDaemon(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*config.Claim)
		want   string
	}{
		{"the same", func(*config.Claim) {}, ""},
		{"timeout", func(c *config.Claim) { c.Timeout = 10 * time.Minute }, "claim.timeout 30m0s, and 10m0s is configured"},
		{"write window", func(c *config.Claim) { c.WriteWindow = time.Second }, "claim.write_window 2s, and 1s is configured"},
		{"settle", func(c *config.Claim) { c.Settle = 5 * time.Second }, "claim.settle 3s, and 5s is configured"},
		{"override", func(c *config.Claim) { c.Override = config.OverrideOpenOnly }, "claim.override any, and open_only is configured"},
		{"exclusive", func(c *config.Claim) { c.Exclusive = true }, "claim.exclusive false, and true is configured"},
		{"per agent", func(c *config.Claim) { c.MaxPerAgent = 2 }, "claim.max_per_agent 0, and 2 is configured"},
		{"lifetime", func(c *config.Claim) { c.MaxLifetime = time.Hour }, "claim.max_lifetime 24h0m0s, and 1h0m0s is configured"},
	} {
		runIn(t, tt.name, func(w *world) {
			defer w.serve(&api.Status{Version: "test", PID: 7, Warnings: []string{}, Policy: api.PolicyStatus{
				TimeoutSeconds: 1800, WriteWindowSeconds: 2, SettleSeconds: 3, Override: "any",
				MaxPerAgent: new(int), MaxLifetimeSeconds: new(86400.0),
			}})()
			w.options.Config.Claim = config.Claim{
				Timeout: 30 * time.Minute, WriteWindow: 2 * time.Second, Settle: 3 * time.Second, Override: config.OverrideAny, MaxLifetime: 24 * time.Hour,
			}
			tt.change(&w.options.Config.Claim)
			w.finds("settings", warning(tt.want), tt.want)
		})
	}
}

func TestRateAboveNotions(t *testing.T) {
	for rate, want := range map[float64]string{
		3: "", 1: "", 5: "in Business and Enterprise only, and 3 elsewhere", 10: "in Business and Enterprise only", 11: "allows 3, or 10 in Business and Enterprise",
	} {
		inWorld(t, func(w *world) {
			w.options.Config.Notion.Rate = rate
			w.finds("rate", warning(want), want)
		})
	}
}

// Names that differ only in case are two agents, and nearly always a mistake.
func TestAgentsThatDifferInCaseOnly(t *testing.T) {
	for _, tt := range []struct{ agents, board, want string }{
		{"", "", ""},
		{"Sandman Oracle", "Sandman Maria", ""},
		{"Sandman Oracle SANDMAN", "", `"SANDMAN" and "Sandman" differ`},
		{"Sandman", "sandman", `"Sandman" and "sandman" differ`},
		{"", "Zoë ZOË", `"ZOË" and "Zoë" differ`},
	} {
		inWorld(t, func(w *world) {
			for name := range strings.FieldsSeq(tt.agents) {
				w.options.Config.Agents = append(w.options.Config.Agents, config.Agent{Name: name})
			}
			tasks := []api.Task{{}} // of nobody
			for name := range strings.FieldsSeq(tt.board) {
				tasks = append(tasks, api.Task{Agent: name})
			}
			defer w.serve(&api.Status{Version: "test", PID: 7, Warnings: []string{}}, tasks...)()
			w.finds("agents", warning(tt.want), tt.want)
		})
	}
}

// warning is the level of a finding that says something.
func warning(found string) doctor.Level {
	if found == "" {
		return ""
	}
	return doctor.Warning
}

// The column of people keeps tasks back, which is counted.
func TestAssigneesAreCounted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.schema(map[string]any{"Who": of("people")})
		maria := testkit.Got(w.notion.AddPerson("Maria", ""))(w)
		sandman := testkit.Got(w.notion.AddPerson("Sandman's bot", ""))(w)
		for _, who := range []string{maria, sandman, ""} {
			people := []any{}
			if who != "" {
				people = append(people, map[string]any{"id": who})
			}
			testkit.Got(w.notion.CreatePage(w.notion.Databases().Tasks, map[string]any{"Who": map[string]any{"people": people}}))(w)
		}
		w.options.Config.Tasks.Properties.Assignee = "Who"
		w.options.Config.Agents = []config.Agent{{Name: "Sandman", NotionUser: sandman}}
		if f := find(doctor.Run(w.Context(), w.options), "tasks.properties.assignee"); f.Found != `"Who", people, which keeps 1 of 3 open tasks back from agents` {
			w.Errorf("found %+v", f)
		}
		w.options.Config.Tasks.Properties.Assignee = "Owner"
		f := find(doctor.Run(w.Context(), w.options), "tasks.properties.assignee")
		testkit.Check(w, f.Level == doctor.Error && strings.Contains(f.Found, `"Owner" is missing`),
			"found %+v, want that nothing can be claimed without it", f)
	})
}

// If claimed_by takes people, an agent without a Notion user cannot claim.
func TestPeopleWithoutUsers(t *testing.T) {
	user := "3e5b7a90-1c2d-4f3e-8a4b-5c6d7e8f9a02"
	for _, tt := range []struct {
		name   string
		agents []config.Agent
		level  doctor.Level
		want   string
	}{
		{"no agents", nil, doctor.Error, "nobody can claim"},
		{"none has one", []config.Agent{{Name: "Sandman"}}, doctor.Error, "nobody can claim"},
		{"one has one", []config.Agent{{Name: "Sandman", NotionUser: user}, {Name: "Oracle"}}, doctor.Warning, `"Oracle" cannot claim`},
		{"all have one", []config.Agent{{Name: "Sandman", NotionUser: user}}, "", ""},
	} {
		runIn(t, tt.name, func(w *world) {
			w.schema(map[string]any{"claimed_by": of("people")})
			w.options.Config.Agents = tt.agents
			w.finds("agents", tt.level, tt.want)
		})
	}
}

func TestProbeIsJudgedAndLeavesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.notion.SetLatency(func(*http.Request) (before, after time.Duration) { return time.Second, 250 * time.Millisecond })
		w.options.Probe = true
		report := doctor.Run(w.Context(), w.options)
		f := find(report, "write_window")
		testkit.Check(w, f.Level == doctor.Error && strings.Contains(f.Found, "took 2.5s"), "finding = %+v, want that 2.5s do not fit", f)
		if f := find(report, "overwrite"); f.Level != doctor.OK || !strings.Contains(f.Found, "2.5s at most") {
			w.Errorf("finding = %+v, want to be told for how long an edit is not safe", f)
		}
		rows := w.notion.Pages(w.notion.Databases().Tasks)
		testkit.Check(w, len(rows) == 2 && rows[0].Trashed && rows[1].Trashed, "the rows are %+v, want two in the trash", rows)
		want := (&doctor.Proposal{WriteWindowSeconds: 5, SettleSeconds: 5.1})
		testkit.Check(w, cmp.Equal(report.Proposal, want), "proposal = %+v, want %+v", report.Proposal, want)
	})
}

// Each fact that fails is a finding with what dibs does then. Only late writes, and dates that are not
// cut, break a guarantee.
func TestFactsAreJudged(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Probe = true
		report := doctor.Run(w.Context(), w.options)
		testkit.Require(w, report.Measured != nil && len(report.Measured.Facts) == 8, "measured: %+v", report.Measured)
		probe := report.Measured.Probe
		for i, f := range probe.Facts {
			got := find(report, f.Name)
			testkit.Check(w, f.Holds && got.Level == doctor.OK && strings.Contains(got.Found, f.Measured), "%+v: %+v", f, got)
			probe.Facts[i].Holds = false
		}
		probe.Late = 4 * time.Second
		report = doctor.Judge(probe, config.Default())
		for _, f := range probe.Facts {
			want := doctor.Warning
			if f.Name == notion.WriteLateness || f.Name == notion.DateMinutes {
				want = doctor.Error
			}
			got := find(report, f.Name)
			testkit.Check(w, got.Level == want && got.Remedy != "" && !strings.Contains(got.Remedy, "{"), "%+v, want %s", got, want)
		}
		if f := find(report, notion.WriteLateness); !strings.HasPrefix(f.Remedy, "set claim.write_window to 1s and claim.settle to 6.5s, for every daemon") {
			w.Errorf("%q does not give the settle time for writes that are 4s late", f.Remedy)
		}
	})
}

// What is to be posted has the facts and the numbers, and nothing of the workspace.
func TestPost(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Probe = true
		report := doctor.Run(w.Context(), w.options)
		post := report.Measured.Post("1.2.3")
		for _, line := range []string{
			`dibs 1\.2\.3 measured Notion \(API 2025-09-03\) on 2000-01-01, with 64 requests`,
			`holds  write_lateness +15 writes, \d of them given up: .*`, `holds  trash_once +4 of 4 .*`,
			`10 writes took 0s at least, 0s in the median, 0s at most`, `claim\.write_window was 1\.5s, claim\.settle 1\.6s`,
		} {
			testkit.Check(w, regexp.MustCompile("(?m)^"+line+"$").MatchString(post), "no line %s in\n%s", line, post)
		}
		ids := regexp.MustCompile(`[0-9a-f]{8}-?[0-9a-f]{4}|[0-9A-Z]{26}|dibs probe|Workspace|Tasks|Home|example`)
		testkit.Check(w, !ids.MatchString(post), "it names something of the workspace:\n%s", post)
		w.options.Config.Notion.BaseURL = "https://notion.example"
		post = doctor.Run(w.Context(), w.options).Measured.Post("1.2.3")
		testkit.Check(w, strings.Contains(post, "measured a server that is not Notion's (") && !ids.MatchString(post), "it does not say what was measured:\n%s", post)
	})
}

func TestJudge(t *testing.T) {
	round := func(read, write, stale time.Duration) notion.Round {
		return notion.Round{Read: read, Write: write, Stale: stale}
	}
	ms := time.Millisecond
	exclusive := func(c *config.Config) { c.Claim.Exclusive, c.Claim.Settle = true, 0 }
	tests := map[string]struct {
		change         func(*config.Config)
		rounds         []notion.Round
		window, settle doctor.Level
		pair           [2]time.Duration
	}{
		"very fast":             {nil, []notion.Round{round(20*ms, 30*ms, 0)}, doctor.OK, doctor.OK, [2]time.Duration{1000 * ms, 1100 * ms}},
		"fast":                  {nil, []notion.Round{round(100*ms, 200*ms, 0), round(300*ms, 450*ms, 0)}, doctor.OK, doctor.OK, [2]time.Duration{1500 * ms, 1600 * ms}},
		"now and then too slow": {nil, []notion.Round{round(100*ms, 200*ms, 0), round(300*ms, 451*ms, 0)}, doctor.Warning, doctor.OK, [2]time.Duration{1600 * ms, 1700 * ms}},
		"too slow":              {nil, []notion.Round{round(1000*ms, 2000*ms, 0)}, doctor.Error, doctor.OK, [2]time.Duration{6000 * ms, 6100 * ms}},
		"stale for a moment":    {nil, []notion.Round{round(10*ms, 10*ms, 49*ms), round(10*ms, 10*ms, 0)}, doctor.OK, doctor.Warning, [2]time.Duration{1000 * ms, 2100 * ms}},
		"stale for too long":    {nil, []notion.Round{round(10*ms, 10*ms, 50*ms)}, doctor.OK, doctor.Error, [2]time.Duration{1000 * ms, 2100 * ms}},
		"stale for very long":   {nil, []notion.Round{round(10*ms, 10*ms, 5*time.Second)}, doctor.OK, doctor.Error, [2]time.Duration{1000 * ms, 12000 * ms}},
		"the only claimer":      {exclusive, []notion.Round{round(500*ms, 500*ms, 0)}, doctor.Warning, doctor.OK, [2]time.Duration{2000 * ms, 0}},
		"a long notion.timeout": {
			func(c *config.Config) { c.Notion.Timeout = 13 * time.Second },
			[]notion.Round{round(100*ms, 100*ms, 0)}, doctor.OK, doctor.OK, [2]time.Duration{1500 * ms, 1600 * ms},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := config.Default()
			if tt.change != nil {
				tt.change(&c)
			}
			report := doctor.Judge(notion.Probe{Rounds: tt.rounds}, c)
			window, settle := find(report, "write_window"), find(report, "settle")
			testkit.Check(t, window.Level == tt.window && settle.Level == tt.settle,
				"write_window: %s, settle: %s, want %s and %s", window.Level, settle.Level, tt.window, tt.settle)
			got, want := *report.Proposal, (doctor.Proposal{WriteWindowSeconds: tt.pair[0].Seconds(), SettleSeconds: tt.pair[1].Seconds()})
			testkit.Check(t, got == want, "proposal %+v, want %+v", got, want)
			pair := fmt.Sprintf("claim.write_window to %v and claim.settle to %v, for every daemon", tt.pair[0], tt.pair[1])
			for _, f := range []doctor.Finding{window, settle} {
				testkit.Check(t, f.Level == doctor.OK || strings.Contains(f.Remedy, pair), "%s: remedy %q, want %q", f.Check, f.Remedy, pair)
			}
			said := find(report, "proposal").Found
			if pair = fmt.Sprintf("claim.write_window %v and claim.settle %v fit what was measured", tt.pair[0], tt.pair[1]); !strings.HasPrefix(said, pair) {
				t.Errorf("%q does not say %q", said, pair)
			}
			set := tt.pair == [2]time.Duration{c.Claim.WriteWindow, c.Claim.Settle}
			testkit.Check(t, set == strings.HasSuffix(said, ", and are set"), "%q, want it to say whether they are set", said)
		})
	}
}

// The proposed times are valid.
func TestProposalIsValid(t *testing.T) {
	for range 1000 {
		c := config.Default()
		c.Notion.Timeout = time.Duration(1+rand.IntN(13_100)) * time.Millisecond
		r := notion.Round{Read: rand.N(10 * time.Second), Write: rand.N(10 * time.Second)}
		if rand.IntN(2) == 0 {
			r.Stale = rand.N(5 * time.Second)
		}
		p := doctor.Judge(notion.Probe{Rounds: []notion.Round{r}}, c).Proposal
		w, s := time.Duration(p.WriteWindowSeconds*1e9).Round(time.Millisecond), time.Duration(p.SettleSeconds*1e9).Round(time.Millisecond)
		testkit.Require(t, s > w+2*r.Stale && w >= 2*(r.Read+r.Write) && c.Notion.Timeout <= w+s+10*time.Second,
			"%v and %v are proposed for %+v and a notion.timeout of %v", w, s, r, c.Notion.Timeout)
	}
}
