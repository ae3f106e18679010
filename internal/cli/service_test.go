package cli_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

// manager stands in for systemd.
type manager struct {
	*testing.T
	dir     string
	config  string
	env     []string
	tasks   string        // the id of the tasks database
	notices *net.UnixConn // the daemon's notifications to systemd
	log     *bufio.Scanner
	dibs    *exec.Cmd
	under   []string                            // a command that starts the daemon's
	before  atomic.Pointer[func(*http.Request)] // called before Notion answers
}

func newManager(t *testing.T) *manager {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("systemd runs on Linux")
	}
	notion := testkit.Got(emulator.New(emulator.Options{}))(t)
	t.Cleanup(func() { notion.Close() })
	testkit.Got(notion.Seed("demo"))(t)
	m := &manager{T: t}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before := m.before.Load(); before != nil {
			(*before)(r)
		}
		notion.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	dir := testkit.ShortDir(t)
	m.dir, m.config = dir, filepath.Join(dir, "config.yaml")
	m.configure("log: {level: info}")
	notify := filepath.Join(dir, "notify")
	m.notices = testkit.Got(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"}))(t)
	t.Cleanup(func() { m.notices.Close() })
	m.env = append(workspaceOf(server.URL, notion),
		"HOME="+dir, "DIBS_CONFIG="+m.config, "DIBS_STATE_DIR="+filepath.Join(dir, "state"), "GORACE=atexit_sleep_ms=10",
		"NOTIFY_SOCKET="+notify, "LISTEN_FDS=1", "WATCHDOG_USEC=900000",
	)
	m.tasks = notion.Databases().Tasks
	return m
}

func (m *manager) configure(yaml string) {
	m.Helper()
	testkit.Must(m, os.WriteFile(m.config, []byte(yaml), 0o600))
}

// listens opens a socket to pass to the daemon.
func (m *manager) listens() (socket string, l *net.UnixListener) {
	m.Helper()
	socket = filepath.Join(m.dir, "passed.sock")
	l = testkit.Got(net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"}))(m)
	m.Cleanup(func() { l.Close() })
	return socket, l
}

// ends waits for the daemon's orderly end, and returns the rest of its log.
func (m *manager) ends() string {
	m.Helper()
	var rest strings.Builder
	for m.log.Scan() {
		fmt.Fprintln(&rest, m.log.Text())
	}
	if err := m.dibs.Wait(); err != nil {
		m.Errorf("the daemon ended with %v", err)
	}
	return rest.String()
}

// start starts a daemon and passes it a listener.
func (m *manager) start(passed interface{ File() (*os.File, error) }, args ...string) {
	m.Helper()
	dibs, err := exec.LookPath("dibs")
	if m.under != nil {
		dibs, err = exec.LookPath(filepath.Join(m.dir, "dibs")) // where other users find it
	}
	testkit.Must(m, err)
	file := testkit.Got(passed.File())(m)
	defer file.Close()
	// LISTEN_PID must be the process's own id.
	ctx, cancel := context.WithTimeout(m.Context(), time.Minute) // no test waits for ever
	m.Cleanup(cancel)
	command := slices.Concat(m.under, []string{"sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, dibs, "serve"}, args)
	m.dibs = exec.CommandContext(ctx, command[0], command[1:]...)
	m.dibs.Env, m.dibs.ExtraFiles = m.env, []*os.File{file}
	errs := testkit.Got(m.dibs.StderrPipe())(m)
	m.log = bufio.NewScanner(errs)
	testkit.Must(m, m.dibs.Start())
	m.Cleanup(func() {
		m.dibs.Process.Kill()
		m.dibs.Wait()
	})
}

// holds stalls Notion's answers to such requests until release is called. held receives a value
// when one waits.
func (m *manager) holds(method, path string) (held <-chan struct{}, release func()) {
	arrived, gate := make(chan struct{}, 1), make(chan struct{})
	before := func(r *http.Request) {
		if r.Method != method || r.URL.Path != path {
			return
		}
		select {
		case arrived <- struct{}{}:
		default:
		}
		<-gate
	}
	m.before.Store(&before)
	release = sync.OnceFunc(func() { close(gate) })
	m.Cleanup(release)
	return arrived, release
}

func (m *manager) signal(s syscall.Signal) {
	m.Helper()
	testkit.Must(m, m.dibs.Process.Signal(s))
}

// hears waits for a notification from the daemon with that beginning, and returns it.
func (m *manager) hears(begin string) string {
	m.Helper()
	m.notices.SetReadDeadline(time.Now().Add(time.Minute))
	buf := make([]byte, 4096)
	for {
		n, err := m.notices.Read(buf)
		testkit.Require(m, err == nil, "waiting for %s: %v", begin, err)
		if said := string(buf[:n]); strings.HasPrefix(said, begin) {
			return said
		}
	}
}

// logs waits for a line of the log that matches.
func (m *manager) logs(pattern string) []string {
	m.Helper()
	re := regexp.MustCompile(pattern)
	for m.log.Scan() {
		if found := re.FindStringSubmatch(m.log.Text()); found != nil {
			return found
		}
	}
	m.Fatalf("the log ends without %q", pattern)
	return nil
}

func TestService(t *testing.T) {
	m := newManager(t)
	m.configure("metrics: {listen: '127.0.0.1:0'}")
	socket, l := m.listens()
	l.SetUnlinkOnClose(false)
	m.start(l)
	testkit.Must(t, l.Close())

	metrics := m.logs(`metrics can be read .* url=(\S+)`)[1]
	if said, want := m.hears("READY=1"), "READY=1\nSTATUS=serving on "+socket; said != want {
		t.Errorf("said %q, want %q", said, want)
	}
	m.hears("WATCHDOG=1")
	m.hears("WATCHDOG=1")
	daemon := client.New(socket)
	if status, err := client.Do(t.Context(), daemon, api.OpStatus, struct{}{}); err != nil || status.Socket != socket || status.PID != m.dibs.Process.Pid {
		t.Errorf("status %+v, %v", status, err)
	}
	resp, err := http.Get(metrics)
	testkit.Must(t, err)
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), "\ndibs_mirror_tasks ") {
		t.Errorf("%s answers %s %.200s, %v", metrics, resp.Status, body, err)
	}

	m.configure("metrics: {listen: '127.0.0.1:0'}\nagents: [Oracle]\nlog: {level: debug}")
	m.signal(syscall.SIGHUP)
	if said := m.hears("RELOADING=1"); !strings.Contains(said, "\nMONOTONIC_USEC=") {
		t.Errorf("said %q, want a time", said)
	}
	m.hears("READY=1\nSTATUS=serving, configuration reloaded")
	m.logs(`the configuration has changed.*agents log\.level`)
	_, err = client.Do(t.Context(), daemon, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman"}))
	if p, ok := err.(*api.Problem); !ok || p.Code != api.CodeForbiddenAgent {
		t.Errorf("an agent that is not listed: %v", err)
	}
	m.logs(`level=DEBUG`)

	for _, tt := range []struct{ config, want string }{
		{"claim: {settle: 9s}", `claim\.settle.* cannot change while the daemon runs: restart it`},
		{"claim: {setle: 9s}", `unknown key claim\.setle in .*: did you mean claim\.settle`},
	} {
		m.configure("agents: [Oracle]\nmetrics: {listen: '127.0.0.1:0'}\n" + tt.config)
		m.signal(syscall.SIGHUP)
		m.hears("READY=1\nSTATUS=serving, with the configuration from before")
		m.logs(`level=ERROR msg="the configuration was not reloaded.*` + tt.want)
	}
	if _, err := client.Do(t.Context(), daemon, api.OpStatus, struct{}{}); err != nil {
		t.Errorf("after a refused reload: %v", err)
	}

	m.signal(syscall.SIGTERM)
	m.hears("STOPPING=1")
	m.ends()
	if _, err := os.Stat(socket); err != nil {
		t.Errorf("the socket is systemd's, and gone: %v", err)
	}
}

// TestServiceRestarts asks while no daemon runs: the next one on systemd's socket answers.
func TestServiceRestarts(t *testing.T) {
	m := newManager(t)
	socket, l := m.listens()
	m.start(l)
	m.hears("READY=1")
	m.signal(syscall.SIGTERM)
	m.ends()
	asked := make(chan error, 1)
	go func() {
		_, err := client.Do(t.Context(), client.New(socket), api.OpStatus, struct{}{})
		asked <- err
	}()
	m.start(l)
	testkit.Must(t, <-asked)
	m.signal(syscall.SIGTERM)
	m.ends()
}

// TestReloadAtAnyTime sends SIGHUP while the daemon starts, and while it stops.
func TestReloadAtAnyTime(t *testing.T) {
	m := newManager(t)
	m.configure("claim: {write_window: 900ms, settle: 901ms}")
	socket, l := m.listens()
	held, release := m.holds("GET", "/v1/databases/"+m.tasks)
	m.start(l)
	<-held
	m.signal(syscall.SIGHUP)
	release()
	m.hears("READY=1\nSTATUS=serving on " + socket)
	m.hears("READY=1\nSTATUS=serving, configuration reloaded")

	// A stopping daemon waits for its log entry.
	held, release = m.holds("POST", "/v1/pages")
	testkit.Got(client.Do(t.Context(), client.New(socket), api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman"})))(t)
	<-held
	m.signal(syscall.SIGTERM)
	m.hears("STOPPING=1")
	var signalling sync.WaitGroup
	defer signalling.Wait()
	signalling.Go(func() { // all the time until its end
		for m.dibs.Process.Signal(syscall.SIGHUP) == nil {
			runtime.Gosched()
		}
	})
	release()
	m.ends()
}

// TestPassedSocketOfAGroup passes sockets that others may or may not open. Without a list of agents
// the daemon warns.
func TestPassedSocketOfAGroup(t *testing.T) {
	for name, tt := range map[string]struct {
		mode   os.FileMode
		config string
		warns  bool
	}{
		"open to a group":              {0o660, "", true},
		"open to a group, with a list": {0o660, "agents: [{name: Sandman, uids: [1000]}]", false},
		"its owner's":                  {0o600, "", false},
		"open to nobody, readable":     {0o755, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newManager(t)
			m.configure(tt.config)
			socket, l := m.listens()
			testkit.Must(t, os.Chmod(socket, tt.mode))
			m.start(l)
			m.hears("READY=1")
			m.signal(syscall.SIGTERM)
			if warned := strings.Contains(m.ends(), "claim under any name"); warned != tt.warns {
				t.Errorf("warned = %v, want %v", warned, tt.warns)
			}
		})
	}
}

// TestPassedTCP passes a socket that other machines can reach.
func TestPassedTCP(t *testing.T) {
	m := newManager(t)
	l := testkit.Got(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	m.start(l.(*net.TCPListener))
	m.logs(`^dibs: systemd passed 127\.0\.0\.1:\d+, where other machines could come in: want a ListenStream`)
	if err := m.dibs.Wait(); err == nil {
		t.Error("the daemon ended well")
	}
}
