package cli_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

// victim is a daemon that is killed again and again, on its own board.
type victim struct {
	*testing.T
	*client.Client
	notion *emulator.Emulator
	dir    string
	env    []string

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

// until waits for a condition that must soon be true.
func (v *victim) until(what string, ok func() bool) {
	v.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(20 * time.Second); !ok(); <-look.C {
		testkit.Require(v, !time.Now().After(deadline), "waited too long until %s", what)
	}
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
