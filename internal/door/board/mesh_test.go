package board_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/cli"
	"dibs/internal/door/board"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

// asDibs in its environment makes the test binary dibs, so that no program has to be built.
const asDibs = "TEST_AS_DIBS=1"

// dibs is a command of dibs, as a process of its own.
func dibs(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self := testkit.Got(os.Executable())(t)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asDibs)
	return cmd
}

func TestMain(m *testing.M) {
	// The tests and dibs have small heaps. To collect them as often as usual takes a fifth of the processor.
	debug.SetGCPercent(400)
	if name, _, _ := strings.Cut(asDibs, "="); os.Getenv(name) != "" {
		// Like cmd/dibs.
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	// Tests wait for pages and daemons more than they take the processor: more run side by side.
	flag.Lookup("test.parallel").Value.Set(strconv.Itoa(2 * runtime.GOMAXPROCS(0)))
	code := m.Run()
	closeBrowser()
	os.Exit(code)
}

// mesh is a board in Notion, a daemon that is a process of its own, and the board in the
// browser that shows them.
type mesh struct {
	t      *testing.T
	dir    string // a short path, for the socket
	notion *emulator.Emulator
	url    string
	daemon *exec.Cmd
	env    []string // of programs, besides the usual
	client *client.Client
	board  *board.Board
	link   string // opens the board, once
	log    *lines // what the board logs
}

// newMesh starts all of it.
func newMesh(t *testing.T, seed string, tasks int) *mesh {
	t.Helper()
	dir, err := os.MkdirTemp("", "dibs-b-")
	testkit.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	m := &mesh{t: t, dir: dir, log: new(lines)}
	if m.notion, err = emulator.New(emulator.Options{}); err != nil {
		t.Fatal(err)
	}
	testkit.Got(m.notion.Seed(seed))(t)
	if tasks > 0 {
		testkit.Must(t, m.notion.AddTasks(tasks))
	}
	server := httptest.NewServer(m.notion)
	t.Cleanup(func() {
		server.Close()
		m.notion.Close()
	})
	m.url = server.URL
	m.client = client.New(filepath.Join(dir, "dibs.sock"))
	m.serve()
	m.show()
	return m
}

// show serves the board.
func (m *mesh) show() {
	m.t.Helper()
	l := testkit.Got(net.Listen("tcp", "127.0.0.1:0"))(m.t)
	m.board = board.New(board.Options{Daemon: m.client, User: "maria", Log: slog.New(slog.NewTextHandler(m.log, nil))})
	m.link = m.board.Link("http://" + l.Addr().String())
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- m.board.Serve(ctx, l) }()
	m.t.Cleanup(func() {
		stop()
		err := <-served
		testkit.Check(m.t, err == nil, "the board ended with %v", err)
	})
}

// start starts dibs and reads the line that it prints once it serves.
func (m *mesh) start(log io.Writer, where any, args ...string) *exec.Cmd {
	m.t.Helper()
	cmd := dibs(m.t, args...)
	dbs := m.notion.Databases()
	cmd.Env = []string{
		asDibs, "HOME=" + m.dir, "PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=", "GORACE=atexit_sleep_ms=10",
		"DIBS_STATE_DIR=" + m.dir, "DIBS_SOCKET=" + filepath.Join(m.dir, "dibs.sock"), "DIBS_NOTION_BASE_URL=" + m.url, "NOTION_TOKEN=" + m.notion.Token(),
		"DIBS_DATABASES_TASKS=" + dbs.Tasks, "DIBS_DATABASES_TASK_LOG=" + dbs.TaskLog, "DIBS_DATABASES_MESH_LOG=" + dbs.MeshLog,
		"DIBS_CLAIM_EXCLUSIVE=true", "DIBS_CLAIM_WRITE_WINDOW=20s", "DIBS_CLAIM_SETTLE=0s",
		"DIBS_NOTION_RATE=200", "DIBS_NOTION_BURST=200", "DIBS_SYNC_INTERVAL=1s", "DIBS_SCHEDULE_SWEEP=@every 1h",
	}
	cmd.Env = append(cmd.Env, m.env...)
	cmd.Stderr = log
	out := testkit.Got(cmd.StdoutPipe())(m.t)
	testkit.Must(m.t, cmd.Start())
	m.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		m.t.Fatalf("dibs %s did not come up: %v\n%s", args[0], err, log)
	}
	if err := json.Unmarshal(line, where); err != nil {
		m.t.Fatalf("dibs %s said %q: %v", args[0], line, err)
	}
	return cmd
}

// serve starts the daemon, and waits until it has read the board.
func (m *mesh) serve() {
	m.t.Helper()
	m.daemon = m.start(new(lines), new(struct{}), "serve", "--json")
	m.until("the daemon has read the board", func() bool {
		s, err := client.Do(m.t.Context(), m.client, api.OpStatus, struct{}{})
		return err == nil && !s.Mirror.SyncedAt.IsZero() && s.Mirror.Syncing == nil
	})
}

// kill ends the daemon with SIGKILL.
func (m *mesh) kill() {
	m.daemon.Process.Kill()
	m.daemon.Wait()
}

// until waits, a bounded number of times, for something that another process does.
func (m *mesh) until(what string, done func() bool) {
	m.t.Helper()
	for range 1200 {
		if done() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	m.t.Fatalf("%s: not within a minute", what)
}

// claim has an agent claim the next task, or that one.
func (m *mesh) claim(agent, task string) api.Claim {
	m.t.Helper()
	return do(m, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: agent, Task: task}))
}

// do asks the daemon, and ends the test if it refuses.
func do[In, Out any](m *mesh, op api.Op[In, Out], in In) Out {
	m.t.Helper()
	return testkit.Got(client.Do(m.t.Context(), m.client, op, in))(m.t)
}

func (m *mesh) sync() {
	m.t.Helper()
	do(m, api.OpSync, api.Keyed("", &api.SyncRequest{}))
}

// reviews starts the daemon anew, on a board that has a status for reviews.
func (m *mesh) reviews() {
	m.t.Helper()
	testkit.Must(m.t, m.notion.AddOption(m.notion.Databases().Tasks, "status", "REVIEW"))
	m.kill()
	m.env = append(m.env, "DIBS_TASKS_STATUSES_REVIEW=REVIEW")
	m.serve()
}

// add puts a task on the board.
func (m *mesh) add(title string, properties map[string]any) string {
	m.t.Helper()
	all := titled(title)
	for name, value := range properties {
		all[name] = value
	}
	id := testkit.Got(m.notion.CreatePage(m.notion.Databases().Tasks, all))(m.t)
	return id
}

func titled(s string) map[string]any {
	return map[string]any{"Name": map[string]any{"title": []any{map[string]any{"text": map[string]any{"content": s}}}}}
}

func richText(s string) any {
	return map[string]any{"rich_text": []any{map[string]any{"text": map[string]any{"content": s}}}}
}

func status(s string) map[string]any {
	return map[string]any{"status": map[string]any{"status": map[string]any{"name": s}}}
}

// lines is what a process says, which may be read while it goes on.
type lines struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

func (l *lines) has(s string) bool { return strings.Contains(l.String(), s) }
