package trial_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/daemon"
	"dibs/internal/journal"
)

// daemonClocks is the environment variable that makes the test binary a daemon; its value is the
// file with the offsets of its clocks.
const daemonClocks = "TRIAL_DAEMON_CLOCKS"

// serveDaemon is the main function of a daemon: dibs serve without its flags.
func serveDaemon() int {
	if err := bendClocks(os.Getenv(daemonClocks)); err != nil {
		fmt.Fprintln(os.Stderr, "the clocks stay right:", err)
	}
	c, err := config.Load(config.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() { // ends with the test, even if that cannot kill its daemons
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	d, err := daemon.Start(ctx, daemon.Options{Config: c, Version: "trial", Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(d.Addr())
	if err := d.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// process is a daemon in a process of its own. One goroutine at a time controls it; any may read its
// clocks.
type process struct {
	trial  *trial
	number int
	socket string
	host   string // the host of its requests to Notion
	state  string
	clocks string // the file, see bendClocks
	env    []string
	log    *os.File
	cmd    *exec.Cmd
	stdin  io.Closer
	ended  chan struct{} // closed when cmd has ended
	hurt   sync.Mutex    // held by whoever controls it, where several goroutines may

	mu         sync.Mutex
	wall, mono time.Duration // the offsets of its clocks
	asked      bool          // cmd's end was requested
}

// newProcess makes a daemon on the trial's board, for start to start. settings are added to its
// environment.
func newProcess(tr *trial, number int, settings ...string) *process {
	tr.Helper()
	server := httptest.NewServer(tr.notion)
	tr.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	home := tr.TempDir()
	sockets, err := os.MkdirTemp("", "dibs") // TempDir is too long for a socket's path
	tr.must(err)
	tr.Cleanup(func() { os.RemoveAll(sockets) })
	log, err := os.Create(filepath.Join(home, "log"))
	tr.must(err)
	p := &process{
		trial: tr, number: number, host: server.Listener.Addr().String(), log: log,
		socket: filepath.Join(sockets, "s"), state: filepath.Join(home, "state"), clocks: filepath.Join(home, "clocks"),
	}
	dbs := tr.notion.Databases()
	p.env = append(os.Environ(),
		"DIBS_DATABASES_TASKS="+dbs.Tasks, "DIBS_DATABASES_TASK_LOG="+dbs.TaskLog, "DIBS_DATABASES_MESH_LOG="+dbs.MeshLog,
		daemonClocks+"="+p.clocks, "HOME="+home, "XDG_CONFIG_HOME="+home, "DIBS_STATE_DIR="+p.state, "DIBS_SOCKET="+p.socket,
		"DIBS_NOTION_BASE_URL="+server.URL, "NOTION_TOKEN="+tr.notion.Token(), "DIBS_NOTION_RATE=20", "DIBS_NOTION_BURST=40",
		"DIBS_NOTION_TIMEOUT="+tr.timeout.String(), "DIBS_CLAIM_TIMEOUT="+claimLease.String(),
		"DIBS_CLAIM_BREAKER_FAILURES=0", "DIBS_CLAIM_WRITE_WINDOW="+tr.window.String(), "DIBS_CLAIM_SETTLE="+tr.settle.String(),
		"DIBS_SYNC_INTERVAL="+tr.interval.String(), "DIBS_SCHEDULE_SWEEP=@every 5s", "DIBS_SCHEDULE_FULL_SYNC=@every 20s")
	p.env = append(p.env, settings...)
	tr.Cleanup(func() {
		p.kill()
		log.Close()
		tr.attach(log.Name(), fmt.Sprint("the log of daemon ", number))
	})
	return p
}

// comesUp is how long a daemon may take until it serves, even on a busy machine.
const comesUp = 2 * time.Minute

// start starts the daemon, and waits until it serves. If it ends unasked, the whole run fails. If
// the database cannot be reached, start retries, like a service manager.
func (p *process) start() {
	err := p.begin()
	for began := time.Now(); err != nil && time.Since(began) < comesUp; err = p.begin() {
		time.Sleep(time.Second)
	}
	if err != nil {
		p.trial.die(fmt.Errorf("daemon %d did not come up: %w", p.number, err))
	}
}

func (p *process) begin() error {
	if err := setClocks(p.clocks, p.wall, p.mono); err != nil {
		return err
	}
	cmd := exec.Command(cmp.Or(p.trial.binary, os.Args[0]))
	cmd.Env, cmd.Stderr, cmd.SysProcAttr = p.env, p.log, &syscall.SysProcAttr{Setpgid: true} // the terminal's signals go to the test only
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := startBendable(cmd); err != nil {
		return err
	}
	hung := time.AfterFunc(comesUp, func() { cmd.Process.Signal(syscall.SIGQUIT) }) // its log then shows where it hung
	line, err := bufio.NewReader(stdout).ReadString('\n')
	hung.Stop()
	ended := make(chan struct{})
	p.mu.Lock()
	p.cmd, p.stdin, p.ended, p.asked = cmd, stdin, ended, err != nil
	p.mu.Unlock()
	go func() {
		defer close(ended)
		cmd.Wait() // the error says that it was killed
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.asked {
			p.trial.die(fmt.Errorf("daemon %d ended by itself: %v", p.number, cmd.ProcessState))
		}
	}()
	if err != nil {
		p.kill()
		return fmt.Errorf("it said %q, %w", line, err)
	}
	return nil
}

// kill sends SIGKILL to the daemon, even if it is stopped.
func (p *process) kill() { p.end(syscall.SIGKILL) }

func (p *process) end(s syscall.Signal) {
	if p.cmd == nil {
		return
	}
	p.mu.Lock()
	p.asked = true
	p.mu.Unlock()
	p.cmd.Process.Signal(s)
	<-p.ended
	p.stdin.Close()
	p.cmd = nil
}

// stop makes the daemon stand still for d: with its clocks like a paused virtual machine, without
// like a laptop with a closed lid.
func (p *process) stop(ctx context.Context, d time.Duration, clocksToo bool) {
	p.cmd.Process.Signal(syscall.SIGSTOP)
	stopped := time.Now()
	sleep(ctx, d)
	if clocksToo {
		stood := time.Since(stopped).Truncate(time.Second)
		p.jump(-stood, -stood)
	}
	p.cmd.Process.Signal(syscall.SIGCONT)
}

// jump changes the offsets of the daemon's clocks.
func (p *process) jump(wall, mono time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wall, p.mono = p.wall+wall, p.mono+mono
	return setClocks(p.clocks, p.wall, p.mono)
}

// off returns the offset of the daemon's wall clock.
func (p *process) off() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wall
}

// setting returns a setting from its environment.
func (p *process) setting(name string) string {
	for _, s := range p.env {
		if value, ok := strings.CutPrefix(s, name+"="); ok {
			return value
		}
	}
	return ""
}

// shares reports whether its journal is one that several daemons share.
func (p *process) shares() bool { return p.setting("DIBS_JOURNAL_POSTGRES") != "" }

func (p *process) journal() string { return filepath.Join(p.state, journal.FileName) }

// sleep sleeps for d, or until ctx ends, and returns whether it slept for d.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// change replaces a text in a source file, whose path is relative to this folder.
type change struct{ file, what, by string }

// mutant builds this test with changes in the program, for daemons with a known fault, and returns
// the binary.
func mutant(t *testing.T, changes ...change) string {
	t.Helper()
	dir, replaced := t.TempDir(), make(map[string]string)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range changes {
		source, err := os.ReadFile(c.file)
		must(err)
		if n := strings.Count(string(source), c.what); n != 1 {
			t.Fatalf("%s has %d times what is to be changed, want once: %s", c.file, n, c.what)
		}
		original, err := filepath.Abs(c.file)
		must(err)
		replaced[original] = filepath.Join(dir, fmt.Sprint("changed", i, ".go"))
		must(os.WriteFile(replaced[original], []byte(strings.Replace(string(source), c.what, c.by, 1)), 0o600))
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replaced})
	must(err)
	listing, built := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutant.test")
	must(os.WriteFile(listing, overlay, 0o600))
	if out, err := exec.Command("go", "test", "-c", "-overlay", listing, "-o", built, ".").CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	return built
}
