package cli_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/daemon"
	"dibs/internal/door/server"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// crash is a moment at which a daemon is killed: while one of its requests to Notion waits, before
// it takes effect or after. The next daemon has what was written to the journal until then.
type crash struct {
	name   string
	method string
	entry  func(emulator.Databases) string // the database of the entry created; nil for the task's page
	skip   int
	kind   emulator.FaultKind
	// answered kills the daemon after the request was answered instead.
	answered bool
	// replied says that the agent has its answer by then.
	replied bool
}

var (
	meshLog = func(dbs emulator.Databases) string { return dbs.MeshLog }
	taskLog = func(dbs emulator.Databases) string { return dbs.TaskLog }

	// An attempt is reserved in the journal, then stored as being written, then sent, then on the
	// page, then verified and held, then logged.
	duringClaim = []crash{
		{name: "before the page is read", method: "GET", kind: emulator.Stop},
		{name: "before the claim is written", method: "PATCH", kind: emulator.Stop},
		{name: "once the claim is written", method: "PATCH", kind: emulator.StopAfter},
		{name: "while the claim settles", method: "PATCH", answered: true},
		{name: "before the claim is verified", method: "GET", skip: 1, kind: emulator.Stop},
		{name: "before the entry is created", method: "POST", entry: meshLog, kind: emulator.Stop, replied: true},
		{name: "once the entry is created", method: "POST", entry: meshLog, kind: emulator.StopAfter, replied: true},
	}
	duringComplete = duringFinish(taskLog)
	duringRelease  = duringFinish(meshLog)
)

// duringFinish returns the crashes of a finish: its intent is in the journal, then on the page,
// then it ends the claim, then it is logged.
func duringFinish(log func(emulator.Databases) string) []crash {
	return []crash{
		{name: "before the page is read", method: "GET", kind: emulator.Stop},
		{name: "before it is written", method: "PATCH", kind: emulator.Stop},
		{name: "once it is written", method: "PATCH", kind: emulator.StopAfter},
		{name: "before the entry is created", method: "POST", entry: log, kind: emulator.Stop, replied: true},
		{name: "once the entry is created", method: "POST", entry: log, kind: emulator.StopAfter, replied: true},
	}
}

// TestKilled kills daemons with SIGKILL, at every request of a claim, a completion and a release.
// After each, the next daemon on the same state gives the same request the same answer. In the end
// no granted claim is lost, no claim is left over, and each log entry exists once.
func TestKilled(t *testing.T) {
	takesSeconds(t)
	t.Run("claim", func(t *testing.T) {
		t.Parallel()
		v := newVictim(t)
		granted := make(map[string]api.Claim) // by task
		for _, c := range duringClaim {
			id := v.add(c.name)
			ask := func() (api.Claim, error) {
				return client.Do(t.Context(), v.Client, api.OpClaim, api.Keyed("claim "+c.name, api.ClaimRequest{Agent: "Sandman", Task: id}))
			}
			first, replied := v.killDuring(c, id, ask)
			if replied {
				granted[id] = first
			}
			again, err := ask()
			switch code := codeOf(err); {
			case replied && (err != nil || !cmp.Equal(first, again)):
				t.Errorf("killed %s: the same request gets %+v, %v; want %+v", c.name, again, err, first)
			case err == nil:
				granted[id] = again
			case code != api.Code(claim.CodeNotionUnavailable):
				t.Errorf("killed %s: the same request gets %v", c.name, err)
			}
			// Claims that were not verified belong to nobody.
			held := testkit.Got(client.Do(t.Context(), v.Client, api.OpListClaims, api.AgentFilter{}))(t)
			for _, cl := range held.Claims {
				if g, ok := granted[string(cl.Task.ID)]; !ok || g.ID != cl.ID {
					t.Errorf("killed %s: claim %s on %q is held, and was granted to nobody", c.name, cl.ID, cl.Task.Title)
				}
			}
		}
		v.afterwards(func(d *afterlife) {
			for _, id := range v.tasks {
				if cl, ok := granted[id]; ok {
					if _, err := client.Do(d.ctx, d.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Oracle", Task: id})); codeOf(err) != api.Code(claim.CodeHeld) {
						t.Errorf("Oracle wants a task that is held: %v", err)
					}
					if _, err := client.Do(d.ctx, d.Client, api.OpComplete, api.On(string(cl.ID), "", api.CompleteRequest{})); err != nil {
						t.Errorf("the claim that was granted: %v", err)
					}
				} else if _, err := client.Do(d.ctx, d.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Oracle", Task: id})); err != nil {
					t.Errorf("the task is stuck: %v", err)
				}
			}
		})
	})

	finish := func(crashes []crash, end func(v *victim, id claim.ID, key string) (api.Claim, error), status, name string, logged []string) func(*testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			v := newVictim(t)
			for _, c := range crashes {
				id := v.add(c.name)
				cl := testkit.Got(client.Do(t.Context(), v.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", Task: id})))(t)
				v.until("the claim is logged", func() bool { return len(v.logged(id)) == 1 })
				ask := func() (api.Claim, error) { return end(v, cl.ID, "end "+c.name) }
				first, replied := v.killDuring(c, id, ask)
				again, err := ask()
				if err != nil || replied && !cmp.Equal(first, again) {
					t.Errorf("killed %s: the same request gets %+v, %v; want %+v", c.name, again, err, first)
				}
			}
			v.afterwards(func(d *afterlife) {
				for _, id := range v.tasks {
					p, _ := d.notion.Page(id)
					if got := p.Select("status") + " " + p.Text("claimed_by"); strings.TrimSpace(got) != strings.TrimSpace(status+" "+name) {
						t.Errorf("killed %s: the task shows %q", p.Title(), got)
					}
					testkit.Same(t, logged, v.loggedIn(d.notion, id), "killed %s: logs", p.Title())
				}
			})
		}
	}
	t.Run("complete", finish(duringComplete, func(v *victim, id claim.ID, key string) (api.Claim, error) {
		return client.Do(v.Context(), v.Client, api.OpComplete, api.On(string(id), key, api.CompleteRequest{Summary: "done"}))
	}, "COMPLETED", "Sandman", []string{"completed", "granted"}))
	t.Run("release", finish(duringRelease, func(v *victim, id claim.ID, key string) (api.Claim, error) {
		return client.Do(v.Context(), v.Client, api.OpRelease, api.On(string(id), key, api.StopRequest{}))
	}, "OPEN", "", []string{"granted", "released"}))
}

// victim is a daemon that is killed again and again, on its own board.
type victim struct {
	*testing.T
	*client.Client
	notion *emulator.Emulator
	dir    string
	env    []string
	tasks  []string

	process *exec.Cmd
	log     *os.File
}

func newVictim(t *testing.T) *victim {
	dir := t.TempDir()
	notion := testkit.Got(emulator.New(emulator.Options{StateFile: filepath.Join(dir, "notion.json")}))(t)
	testkit.Got(notion.Seed("empty"))(t)
	server := httptest.NewServer(notion)
	t.Cleanup(func() {
		server.CloseClientConnections()
		notion.Close()
		server.Close()
	})
	sockets := testkit.ShortDir(t)
	log := testkit.Got(os.Create(filepath.Join(dir, "log")))(t)
	socket := filepath.Join(sockets, "s")
	v := &victim{T: t, Client: client.New(socket), notion: notion, dir: dir, log: log, env: append([]string{
		"HOME=" + dir, "DIBS_STATE_DIR=" + filepath.Join(dir, "state"), "DIBS_SOCKET=" + socket,
	}, slices.Concat(workspaceOf(server.URL, notion), realTime)...)}
	v.start()
	t.Cleanup(func() {
		v.kill()
		if data, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("the daemon's log:\n%s", data)
		}
		log.Close()
	})
	return v
}

// start starts the daemon, and waits until it serves.
func (v *victim) start() {
	v.Helper()
	dibs := testkit.Got(exec.LookPath("dibs"))(v)
	v.process = exec.Command(dibs, "serve", "--json")
	v.process.Env, v.process.Stderr = v.env, v.log
	out := testkit.Got(v.process.StdoutPipe())(v)
	testkit.Must(v, v.process.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, `"socket":`) {
		v.Fatalf("the daemon did not come up: it said %q, %v", line, err)
	}
}

func (v *victim) kill() {
	v.process.Process.Kill()
	v.process.Wait() // the error says that it was killed
}

// add adds a task to the board.
func (v *victim) add(title string) string {
	v.Helper()
	id, err := v.notion.CreatePage(v.notion.Databases().Tasks, map[string]any{
		"Name": map[string]any{"title": []any{map[string]any{"text": map[string]any{"content": title}}}},
	})
	testkit.Must(v, err)
	v.tasks = append(v.tasks, id)
	return id
}

// killDuring sends a request to the daemon, kills the daemon at the crash's moment, and restarts
// it. replied is false if the request was not answered before.
func (v *victim) killDuring(c crash, id string, ask func() (api.Claim, error)) (answer api.Claim, replied bool) {
	v.Helper()
	var arrived atomic.Int32
	log := ""
	if c.entry != nil {
		log = v.notion.DataSource(c.entry(v.notion.Databases()))
	}
	target := func(r *http.Request, body []byte) bool {
		if c.entry == nil {
			return r.Method == c.method && strings.HasSuffix(r.URL.Path, id)
		}
		return r.Method == c.method && r.URL.Path == "/v1/pages" && strings.Contains(string(body), log) && strings.Contains(string(body), id)
	}
	entries := len(v.logged(id))
	before, _ := v.notion.Page(id)
	if !c.answered {
		// The fault stays in force: the request that it stalls ends with its connection.
		v.notion.Inject(emulator.Fault{Kind: c.kind, Skip: c.skip, Times: 1, Match: func(r *http.Request, body []byte) bool {
			hit := target(r, body)
			if hit {
				arrived.Add(1)
			}
			return hit
		}})
	}
	type result struct {
		cl  api.Claim
		err error
	}
	asked := make(chan result, 1)
	go func() {
		cl, err := ask()
		asked <- result{cl, err}
	}()
	if c.replied {
		if r := <-asked; r.err != nil {
			v.Fatalf("%s: %v", c.name, r.err)
		} else {
			answer, replied = r.cl, true
		}
	}
	v.until("the daemon comes to "+c.name, func() bool {
		switch {
		case c.answered:
			return slices.ContainsFunc(v.notion.Requests(), func(r emulator.Request) bool {
				return r.Method == c.method && strings.HasSuffix(r.Path, id) && r.Status == http.StatusOK
			})
		case int(arrived.Load()) <= c.skip:
			return false
		case c.kind == emulator.Stop:
			return true
		case c.entry != nil:
			return len(v.logged(id)) > entries
		}
		now, _ := v.notion.Page(id)
		return now.Text("claim_token") != before.Text("claim_token")
	})
	v.kill()
	if !c.replied {
		if r := <-asked; r.err == nil {
			v.Errorf("%s: the agent was told %+v", c.name, r.cl)
		}
	}
	v.start()
	return answer, replied
}

// until waits for a condition that must soon be true.
func (v *victim) until(what string, ok func() bool) {
	v.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(20 * time.Second); !ok(); <-look.C {
		testkit.Require(v, !time.Now().After(deadline), "waited too long until %s", what)
	}
}

// logged returns the logs' entries of a task.
func (v *victim) logged(id string) []string { return v.loggedIn(v.notion, id) }

func (v *victim) loggedIn(notion *emulator.Emulator, id string) []string {
	var out []string
	for _, p := range notion.Pages(notion.Databases().MeshLog) {
		if p.Text("task_id") == id {
			out = append(out, p.Select("event"))
		}
	}
	for _, p := range notion.Pages(notion.Databases().TaskLog) {
		if p.Text("task_id") == id {
			out = append(out, p.Select("outcome"))
		}
	}
	slices.Sort(out)
	return out
}

// afterlife is a daemon on a victim's state, in virtual time.
type afterlife struct {
	*client.Client
	ctx    context.Context // the bubble's
	notion *emulator.Emulator
}

// afterwards kills the daemon once more, runs the next one for a quarter of an hour of virtual
// time, and calls look. At the end, the logs must have the journal's entries, each once.
func (v *victim) afterwards(look func(d *afterlife)) {
	v.kill()
	left := time.Now()
	synctest.Test(v.T, func(t *testing.T) {
		time.Sleep(time.Until(left)) // the bubble begins in the past
		notion := testkit.Got(emulator.New(emulator.Options{StateFile: filepath.Join(v.dir, "notion.json")}))(t)
		defer notion.Close()
		c := config.Default()
		c.Notion.Token = config.Secret(notion.Token())
		dbs := notion.Databases()
		c.Databases = config.Databases{Tasks: dbs.Tasks, TaskLog: dbs.TaskLog, MeshLog: dbs.MeshLog}
		c.StateDir = filepath.Join(v.dir, "state")
		pipe := server.NewPipe()
		d, err := daemon.Start(t.Context(), daemon.Options{
			Config: c, Version: "test", Transport: notion.Client().Transport, Listener: pipe,
			Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		})
		testkit.Must(t, err)
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		defer func() {
			stop()
			testkit.OK(t, <-done)
		}()
		time.Sleep(15 * time.Minute)
		a := &afterlife{client.Over("pipe", pipe.Dial), t.Context(), notion}
		look(a)
		time.Sleep(time.Minute)

		events := testkit.Got(client.Do(t.Context(), a.Client, api.OpLog, api.LogInput{Limit: 1000}))(t)
		var want, got []string
		for _, e := range events.Entries {
			for range (claim.Fact{Kind: e.Kind, Remote: e.Remote}).Logs() {
				want = append(want, e.ID)
			}
		}
		for _, p := range slices.Concat(notion.Pages(dbs.MeshLog), notion.Pages(dbs.TaskLog)) {
			got = append(got, p.Text("entry_id"))
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("log entries (-on record +in Notion):\n%s", diff)
		}
	})
}

// codeOf returns the code of a problem, empty for any other error.
func codeOf(err error) api.Code {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return p.Code
	}
	if err != nil {
		return api.Code(fmt.Sprint(err))
	}
	return ""
}

// TestKilledWhileAdding kills daemons with SIGKILL at the request that makes a task. The next
// daemon answers the same request with the outcome, and there is never a second task.
func TestKilledWhileAdding(t *testing.T) {
	takesSeconds(t)
	v := newVictim(t)
	titled := func(title string) (ids []string) {
		for _, p := range v.notion.Pages(v.notion.Databases().Tasks) {
			if p.Title() == title {
				ids = append(ids, p.ID)
			}
		}
		return ids
	}
	for _, c := range []struct {
		name string
		kind emulator.FaultKind
		body string
	}{
		{"before the task is made", emulator.Stop, ""},
		{"once the task is made", emulator.StopAfter, ""},
		{"once the task with content is made", emulator.StopAfter, "# Plan\n"},
	} {
		var arrived atomic.Bool
		v.notion.Inject(emulator.Fault{Method: http.MethodPost, Path: "/v1/pages", Kind: c.kind, Times: 1, Match: func(_ *http.Request, body []byte) bool {
			hit := strings.Contains(string(body), c.name)
			if hit {
				arrived.Store(true)
			}
			return hit
		}})
		add := func() (api.Added, error) {
			return client.Do(t.Context(), v.Client, api.OpAddTask, api.AddInput{Key: "add " + c.name, Body: api.AddRequest{Title: c.name, Body: c.body}})
		}
		asked := make(chan error, 1)
		go func() {
			_, err := add()
			asked <- err
		}()
		v.until("the request arrives", func() bool {
			return arrived.Load() && (c.kind == emulator.Stop || len(titled(c.name)) == 1)
		})
		v.kill()
		if err := <-asked; err == nil {
			t.Errorf("killed %s: the request was answered", c.name)
		}
		v.start()
		made, err := add()
		there := titled(c.name)
		switch {
		case c.kind == emulator.Stop && (codeOf(err) != api.Code(claim.CodeNotionUnavailable) || len(there) > 0):
			t.Errorf("killed %s: the same request gets %+v, %v, and there are %d tasks", c.name, made, err, len(there))
		case c.kind == emulator.StopAfter && (err != nil || len(there) != 1 || string(made.Task.ID) != there[0]):
			t.Errorf("killed %s: the same request gets %+v, %v, and there are the tasks %q", c.name, made, err, there)
		}
	}
	// A repeated request gets the same answer.
	first := testkit.Got(client.Do(t.Context(), v.Client, api.OpAddTask, api.AddInput{Key: "answered", Body: api.AddRequest{Title: "answered"}}))(t)
	v.kill()
	v.start()
	if again, err := client.Do(t.Context(), v.Client, api.OpAddTask, api.AddInput{Key: "answered", Body: api.AddRequest{Title: "answered"}}); err != nil || again.Task.ID != first.Task.ID || len(titled("answered")) != 1 {
		t.Errorf("the same request gets %+v, %v; want %+v", again, err, first)
	}
}
