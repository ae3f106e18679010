// Package bench_test measures dibs from outside: the daemon and a Notion-compatible server as
// separate processes, agents that use the daemon's socket, and commands from a cold start.
//
//	go test -run=NONE -bench=. -benchtime=1x ./internal/testkit/bench [-args FLAGS]
//
// Every benchmark runs for the same time (-for), each with its own board, server and daemon, so
// that none depends on earlier ones. Before a daemon's work is counted, its outbox is delivered.
// The server has no rate limit, and without -latency no network: the figures then show the cost of
// dibs itself, not how long a claim takes with Notion.
package bench_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/testkit"
)

var (
	dibsFlag = flag.String("dibs", "", "measure this `binary`, an absolute path, instead of one made from this source")
	length   = flag.Duration("for", 3*time.Second, "how long each benchmark measures")
	tasks    = flag.Int("tasks", 10_000, "how many tasks the board has")
	latency  = flag.Duration("latency", 0, "how long a request is on its way to Notion while claims are measured")
	settle   = flag.Duration("settle", 0, "claim.settle of the daemon, which is the only claimer")
)

// built is the program of this source, measured the one that is measured.
var built, measured string

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := prepare(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// prepare builds the program if there is something to measure, and runs m.
func prepare(m *testing.M) (int, error) {
	if flag.Lookup("test.bench").Value.String() == "" {
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "dibs-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	built = filepath.Join(dir, "dibs")
	if out, err := exec.Command("go", "build", "-o", built, "dibs/cmd/dibs").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, out)
	}
	measured = built
	if *dibsFlag != "" {
		measured = *dibsFlag
		if !filepath.IsAbs(measured) {
			return 0, fmt.Errorf("-dibs %s: want an absolute path: tests run in the folder of their package", measured)
		}
	}
	return m.Run(), nil
}

// process is a running dibs.
type process struct {
	*exec.Cmd
	log bytes.Buffer
}

// start runs dibs, decodes the line of JSON that it prints once it serves into where, and stops it
// at the end of the benchmark.
func start(b *testing.B, env []string, where any, dibs string, args ...string) *process {
	b.Helper()
	p := &process{Cmd: exec.Command(dibs, args...)}
	p.Env, p.Stderr = env, &p.log
	out := testkit.Got(p.StdoutPipe())(b)
	testkit.Must(b, p.Start())
	b.Cleanup(func() {
		p.Process.Signal(syscall.SIGTERM)
		io.Copy(io.Discard, out)
		if err := p.Wait(); err != nil && p.ProcessState.ExitCode() > 0 {
			b.Errorf("dibs %s: %v\n%s", args[0], err, &p.log)
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		p.Wait()
		b.Fatalf("dibs %s did not come up:\n%s", args[0], &p.log)
	}
	if err := json.Unmarshal(line, where); err != nil {
		b.Fatalf("dibs %s said %q: %v", args[0], line, err)
	}
	return p
}

// cpu returns the processor time that the process has used, from Linux in hundredths of a second;
// zero on other systems.
func (p *process) cpu() time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	if err != nil {
		return 0
	}
	// The second field is the name, in brackets, and may contain anything.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * (time.Second / 100)
}

// board is a Notion-compatible server with a large board.
type board struct {
	*process
	URL       string `json:"url"`
	Token     string `json:"token"`
	Databases struct {
		Tasks   string `json:"tasks"`
		TaskLog string `json:"task_log"`
		MeshLog string `json:"mesh_log"`
	} `json:"databases"`
	http http.Client
}

func startBoard(b *testing.B) *board {
	b.Helper()
	n := &board{http: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	b.Cleanup(n.http.CloseIdleConnections)
	n.process = start(b, bare(b), n, built, "emulator", "--json", "--limit", "0", "--seed", "empty", "--tasks", strconv.Itoa(*tasks))
	return n
}

// bare returns an environment without this process's settings.
func bare(b *testing.B) []string {
	return []string{"HOME=" + b.TempDir(), "PATH=" + os.Getenv("PATH")}
}

// ask sends a request and decodes its answer into out, unless out is nil.
func (n *board) ask(method, path string, body, out any) error {
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(data)
	}
	req, err := http.NewRequest(method, n.URL+path, sent)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+n.Token)
	req.Header.Set("Notion-Version", "2025-09-03")
	resp, err := n.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, data)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}

// far adds -latency to every request on its way to the server; near removes it.
func (n *board) far(b *testing.B) {
	b.Helper()
	if *latency == 0 {
		return
	}
	testkit.Must(b, n.ask(http.MethodPost, "/_emulator/faults", map[string]any{"kind": "Delay", "delay": latency.String()}, nil))
}

func (n *board) near(b *testing.B) {
	b.Helper()
	testkit.Must(b, n.ask(http.MethodDelete, "/_emulator/faults", nil, nil))
}

// counted counts the requests to the server.
type counted struct {
	all   int
	pages int // reads and writes of a page: the requests of claims
}

// requests returns the requests since the last call.
func (n *board) requests(b *testing.B) counted {
	b.Helper()
	var list []struct{ Method, Path string }
	testkit.Must(b, n.ask(http.MethodGet, "/_emulator/requests", nil, &list))
	testkit.Must(b, n.ask(http.MethodDelete, "/_emulator/requests", nil, nil))
	c := counted{all: len(list)}
	for _, r := range list {
		if strings.HasPrefix(r.Path, "/v1/pages/") {
			c.pages++
		}
	}
	return c
}

// daemon is a daemon that has read the board.
type daemon struct {
	*process
	env    []string
	Socket string `json:"socket"`
}

// startDaemon starts a daemon on n and waits until it has read the whole board. settings are added
// to its environment.
func startDaemon(b *testing.B, n *board, settings ...string) *daemon {
	b.Helper()
	dir := testkit.ShortDir(b)
	d := &daemon{env: append([]string{
		"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "DIBS_STATE_DIR=" + dir, "DIBS_SOCKET=" + filepath.Join(dir, "d.sock"),
		"NOTION_TOKEN=" + n.Token, "DIBS_NOTION_BASE_URL=" + n.URL, "DIBS_NOTION_RATE=1000", "DIBS_NOTION_BURST=30000",
		"DIBS_DATABASES_TASKS=" + n.Databases.Tasks, "DIBS_DATABASES_TASK_LOG=" + n.Databases.TaskLog, "DIBS_DATABASES_MESH_LOG=" + n.Databases.MeshLog,
	}, settings...)}
	d.process = start(b, d.env, d, measured, "serve", "--json")
	d.until(b, "has read the board", func(s api.Status) bool { return s.Mirror.Tasks >= *tasks && !s.Mirror.Stale && s.Mirror.Syncing == nil })
	return d
}

// alone returns the settings of an exclusive daemon.
func alone() []string {
	return []string{"DIBS_CLAIM_EXCLUSIVE=true", "DIBS_CLAIM_SETTLE=" + settle.String()}
}

// agent returns a new client.
func (d *daemon) agent() *client.Client { return client.New(d.Socket) }

// delivered waits until the outbox is empty.
func (d *daemon) delivered(b *testing.B) {
	b.Helper()
	d.until(b, "has told Notion everything", func(s api.Status) bool { return s.Outbox.Depth == 0 })
}

// until waits for a status of the daemon.
func (d *daemon) until(b *testing.B, what string, is func(api.Status) bool) {
	b.Helper()
	asks := d.agent()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		s, err := client.Do(b.Context(), asks, api.OpStatus, struct{}{})
		testkit.Require(b, err == nil, "%v\n%s", err, &d.log)
		if is(s) {
			return
		}
	}
	b.Fatalf("two minutes later it is not so that the daemon %s\n%s", what, &d.log)
}
