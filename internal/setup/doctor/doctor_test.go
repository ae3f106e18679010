package doctor_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/journal"
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
		sabotage      func(w *world)
		level         doctor.Level
		check         string
		found, remedy string
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
		"a journal of another version": {func(w *world) {
			j := w.journal()
			testkit.Must(w, errors.Join(j.SetMeta(w.Context(), "schema", "of another version"), j.Close()))
		}, doctor.Error, "journal", "journal.db has another schema", "use the version of dibs that made it"},
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
			if f := find(report, "probe"); w.options.Probe && (f.Level != doctor.Warning || !strings.Contains(f.Found, "pause")) {
				w.Errorf("probe: %+v", f)
			}
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
	failing := func(errno syscall.Errno) func(context.Context) (net.Conn, error) {
		return func(context.Context) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", errno)}
		}
	}
	for name, tt := range map[string]struct {
		dial          func(context.Context) (net.Conn, error)
		found, remedy string
	}{
		"sandbox":      {failing(syscall.EPERM), "a sandbox keeps this process from its socket", "use the tools of dibs mcp"},
		"another user": {failing(syscall.EACCES), "the socket belongs to another user", "ask for a place in its socket_group"},
		"elsewhere":    {failing(syscall.ENOENT), "nothing answers on ", "give both the same socket"},
		"silent": {func(context.Context) (net.Conn, error) {
			mine, theirs := net.Pipe()
			go io.Copy(io.Discard, theirs)
			return mine, nil
		}, "does not answer", "see its log"},
		"gone": {func(context.Context) (net.Conn, error) {
			mine, theirs := net.Pipe()
			go func() {
				theirs.Read(make([]byte, 4096))
				theirs.Close()
			}()
			return mine, nil
		}, "does not answer", "see its log"},
		"impostor": {func(context.Context) (net.Conn, error) {
			return nil, &client.ImpostorError{Socket: "/s", UID: 64001}
		}, "user 64001 listens on /s", "set DIBS_SOCKET"},
	} {
		runIn(t, name, func(w *world) {
			w.stateDir(0o700)
			lock := flock.New(filepath.Join(w.options.Config.StateDir, "daemon.lock"))
			if locked, err := lock.TryLock(); !locked || err != nil {
				w.Fatal(err)
			}
			defer lock.Close()
			w.options.Daemon = client.Over("/s", tt.dial)
			f := find(doctor.Run(w.Context(), w.options), "daemon")
			if f.Level != doctor.Error || !strings.Contains(f.Found, tt.found) || !strings.Contains(f.Remedy, tt.remedy) {
				w.Errorf("%+v", f)
			}
			testkit.Check(w, !regexp.MustCompile(`\b(stop|restart|start dibs serve)\b`).MatchString(f.Remedy),
				"it advises: %s", f.Remedy)
		})
	}
}

// The doctor reports the stranger that the daemon has seen, which is amiss only beside one that is to
// be the only claimer.
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
			f := find(doctor.Run(w.Context(), w.options), "webhook")
			if f.Level != tt.level || !strings.Contains(f.Found, tt.found) || (f.Remedy != "") != (tt.level == doctor.Warning) {
				w.Errorf("%+v: %+v, want %s: %s", tt.webhook, f, tt.level, tt.found)
			}
		})
	}
}
