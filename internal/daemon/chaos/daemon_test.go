package chaos_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
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
	"dibs/internal/notion/emulator"
)

// chaosDaemon is the environment variable that makes the test binary a daemon; its value is the
// file with the offsets of its clocks.
const chaosDaemon = "CHAOS_DAEMON_CLOCKS"

// serveChaos is the main function of a daemon: dibs serve without its flags.
func serveChaos() int {
	if err := bendClocks(os.Getenv(chaosDaemon)); err != nil {
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
	d, err := daemon.Start(ctx, daemon.Options{Config: c, Version: "chaos", Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
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
	chaos  *chaos
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

// newProcess makes a daemon on c's board, for start to start. settings are added to its
// environment.
func newProcess(c *chaos, number int, settings ...string) *process {
	c.Helper()
	server := httptest.NewServer(c.notion)
	c.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	home := c.TempDir()
	sockets, err := os.MkdirTemp("", "dibs") // TempDir is too long for a socket's path
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { os.RemoveAll(sockets) })
	log, err := os.Create(filepath.Join(home, "log"))
	if err != nil {
		c.Fatal(err)
	}
	p := &process{
		chaos: c, number: number, host: server.Listener.Addr().String(), log: log,
		socket: filepath.Join(sockets, "s"), state: filepath.Join(home, "state"), clocks: filepath.Join(home, "clocks"),
	}
	dbs := c.notion.Databases()
	p.env = append(os.Environ(),
		"DIBS_DATABASES_TASKS="+dbs.Tasks, "DIBS_DATABASES_TASK_LOG="+dbs.TaskLog, "DIBS_DATABASES_MESH_LOG="+dbs.MeshLog,
		chaosDaemon+"="+p.clocks, "HOME="+home, "XDG_CONFIG_HOME="+home, "DIBS_STATE_DIR="+p.state, "DIBS_SOCKET="+p.socket,
		"DIBS_NOTION_BASE_URL="+server.URL, "NOTION_TOKEN="+c.notion.Token(), "DIBS_NOTION_RATE=20", "DIBS_NOTION_BURST=40",
		"DIBS_NOTION_TIMEOUT="+c.timeout.String(), "DIBS_CLAIM_TIMEOUT="+chaosLease.String(),
		"DIBS_CLAIM_BREAKER_FAILURES=0", "DIBS_CLAIM_WRITE_WINDOW="+c.window.String(), "DIBS_CLAIM_SETTLE="+c.settle.String(),
		"DIBS_SYNC_INTERVAL="+c.interval.String(), "DIBS_SCHEDULE_SWEEP=@every 5s", "DIBS_SCHEDULE_FULL_SYNC=@every 20s")
	p.env = append(p.env, settings...)
	c.Cleanup(func() {
		p.kill()
		log.Close()
		c.attach(log.Name(), fmt.Sprint("the log of daemon ", number))
	})
	return p
}

// comesUp is how long a daemon may take until it serves, even on a busy machine.
const comesUp = 2 * time.Minute

// start starts the daemon, and waits until it serves. If it ends unasked, the whole run fails. If
// the database cannot be reached, start retries, like a service manager.
func (p *process) start() {
	err := p.begin()
	for began := time.Now(); err != nil && p.chaos.shared && time.Since(began) < comesUp; err = p.begin() {
		time.Sleep(time.Second)
	}
	if err != nil {
		p.chaos.die(fmt.Errorf("daemon %d did not come up: %w", p.number, err))
	}
}

func (p *process) begin() error {
	if err := setClocks(p.clocks, p.wall, p.mono); err != nil {
		return err
	}
	cmd := exec.Command(cmp.Or(p.chaos.binary, os.Args[0]))
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
			p.chaos.die(fmt.Errorf("daemon %d ended by itself: %v", p.number, cmd.ProcessState))
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
	for i, c := range changes {
		source, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), c.what); n != 1 {
			t.Fatalf("%s has %d times what is to be changed, want once: %s", c.file, n, c.what)
		}
		original, err := filepath.Abs(c.file)
		if err != nil {
			t.Fatal(err)
		}
		replaced[original] = filepath.Join(dir, fmt.Sprint("changed", i, ".go"))
		if err := os.WriteFile(replaced[original], []byte(strings.Replace(string(source), c.what, c.by, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	listing, built := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutant.test")
	if err := os.WriteFile(listing, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "test", "-c", "-overlay", listing, "-o", built, ".").CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	return built
}

// misfortune causes a daemon's troubles.
type misfortune struct {
	*chaos
	random *rand.Rand
	daemon *process
	// standing is locked while a daemon stands still for long: one at a time.
	standing *sync.Mutex
}

func (m *misfortune) between(least, most time.Duration) time.Duration {
	return least + time.Duration(m.random.Int64N(int64(most-least)))
}

// work causes troubles until ctx ends. Then the daemon runs.
func (m *misfortune) work(ctx context.Context) {
	for sleep(ctx, m.between(m.calm, 3*m.calm)) {
		from := m.now()
		switch n := m.random.IntN(10); {
		case n < 3:
			m.count("kills")
			m.daemon.kill()
			sleep(ctx, m.between(0, m.brief))
			m.daemon.start()
		case n < 4:
			m.count("orderly stops")
			m.daemon.end(syscall.SIGTERM)
			m.daemon.start()
		case n < 6:
			m.stop(ctx)
		case n < 7 && canBendClocks:
			m.count("frozen clocks")
			m.daemon.stop(ctx, m.between(3*time.Second, 5*time.Second), true)
		case n < 9 && canBendClocks:
			m.count("clock jumps")
			by := []time.Duration{2 * time.Second, 20 * time.Second, 3 * time.Minute, 2 * time.Hour, 48 * time.Hour}[m.random.IntN(5)]
			if m.random.IntN(2) == 0 {
				by = -by
			}
			if err := m.daemon.jump(by, 0); err != nil {
				m.Error(err)
			}
		default:
			m.count("partitions")
			heal := m.notion.Inject(emulator.Fault{Kind: emulator.DropRequest, Match: m.from(m.daemon)})
			sleep(ctx, m.between(0, m.brief))
			heal()
		}
		m.wasAway(m.daemon.number, from)
	}
}

// stop makes the daemon stand still: for longer than its write window and, in some seasons, than
// its leases.
func (m *misfortune) stop(ctx context.Context) {
	if m.long > 0 && m.standing.TryLock() {
		defer m.standing.Unlock()
		m.count("stops longer than a lease")
		m.daemon.stop(ctx, m.between(m.long, 2*m.long), false)
		return
	}
	m.count("stops")
	m.daemon.stop(ctx, m.between(m.window/2, m.brief), false)
}

// from matches the requests of a daemon.
func (c *chaos) from(p *process) func(*http.Request, []byte) bool {
	return func(r *http.Request, _ []byte) bool { return r.Host == p.host }
}

// storms are the faults of Notion as a whole.
var storms = []emulator.Fault{
	{Kind: emulator.Delay, Delay: 300 * time.Millisecond},
	{Kind: emulator.DelayAnswer, Delay: time.Second},
	{Kind: emulator.SavedBut503}, {Kind: emulator.DropAnswer}, {Kind: emulator.DropRequest},
	// For PATCH only: a log entry that Notion reports as made and did not make is lost.
	{Kind: emulator.NotApplied, Method: http.MethodPatch},
	{Kind: emulator.Conflict409}, {Kind: emulator.Conflict409Saved}, {Kind: emulator.Error500}, {Kind: emulator.HTML502},
	{Kind: emulator.Error503}, {Kind: emulator.Error504},
	{Kind: emulator.RateLimited429, RetryAfter: time.Second}, {Kind: emulator.Overload529, RetryAfter: time.Second},
	{Kind: emulator.StaleQuery, Delay: 4 * time.Second}, {Kind: emulator.StaleQuery, Delay: 8 * time.Second},
	// Once only: two answers in a row with the same wrong date would be believed.
	{Kind: emulator.WrongDate, Off: time.Hour, Times: 1}, {Kind: emulator.WrongDate, Off: -time.Hour, Times: 1},
	{Kind: emulator.WrongDate, Off: 20 * time.Second, Times: 1}, {Kind: emulator.WrongDate, Off: 10 * 365 * 24 * time.Hour, Times: 1},
	{Kind: emulator.NoDate},
}

// weather causes Notion's troubles.
type weather struct {
	*chaos
	random *rand.Rand
}

func (w *weather) upTo(d time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(d)))
}

// work lets Notion fail now and then, until ctx ends.
func (w *weather) work(ctx context.Context) {
	for sleep(ctx, w.upTo(2*w.calm)) {
		var f emulator.Fault
		switch n := w.random.IntN(20); {
		case n < 1:
			w.count("outages")
			f = emulator.Fault{Kind: []emulator.FaultKind{emulator.DropRequest, emulator.Error503, emulator.HTML502}[w.random.IntN(3)]}
			from, end := w.now(), w.notion.Inject(f)
			sleep(ctx, w.upTo(w.brief+w.long))
			end()
			w.wasAway(0, from)
			continue
		default:
			f = storms[w.random.IntN(len(storms))]
			if f.Times == 0 {
				f.Times = 1 + w.random.IntN(6)
			}
		}
		w.count("faults: " + string(f.Kind))
		end := w.notion.Inject(f)
		sleep(ctx, w.upTo(w.brief))
		end()
	}
}
