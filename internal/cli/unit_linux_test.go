package cli_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/cli"
	"dibs/internal/testkit"
)

// keepers are the ways to have a process keep a claim. Each prints a line with an id once it has one.
var keepers = map[string]string{
	"run":   `exec dibs run --quiet --agent Sandman -- sh -c 'echo "\"id\":"; exec sleep 1000'`,
	"--pid": `dibs next --agent Sandman --pid $$ --json && exec sleep 1000`,
	"mcp":   `exec dibs mcp --agent Sandman --grace 1s`,
}

const claimByMCP = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"claim_task","arguments":{}}}
`

// TestUnitSeesProcesses runs a daemon with the /proc that the system's unit gives it, and has another
// user's processes keep claims: these are given back once the processes are gone, and no sooner. With
// a /proc that hides them, --pid is refused, and run and mcp renew their claims themselves.
func TestUnitSeesProcesses(t *testing.T) {
	takesSeconds(t)
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("only root can be other users")
		}
		t.Skip("only root can be other users")
	}
	unit := testkit.Got(os.ReadFile("../../packaging/systemd/dibs.service"))(t)
	setting := regexp.MustCompile(`(?m)^ProtectProc=(\w+)$`).FindSubmatch(unit)
	if setting == nil {
		t.Fatal("the unit does not say ProtectProc")
	}
	for name, tt := range map[string]struct {
		protect string
		hidden  bool
	}{"as the unit has it": {protect: string(setting[1])}, "hidden": {"invisible", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newManager(t)
			m.configure("claim: {write_window: 900ms, settle: 901ms}")
			socket := m.startAsOther(map[string]string{"default": "0", "noaccess": "1", "invisible": "2", "ptraceable": "4"}[tt.protect])
			daemon := client.New(socket)
			for way, script := range keepers {
				var errs bytes.Buffer
				cmd := m.asCaller(socket, script)
				cmd.Stderr, cmd.Stdin = &errs, strings.NewReader(claimByMCP)
				line := m.begins(cmd)
				if tt.hidden && way == "--pid" {
					if !strings.Contains(line, string(api.CodeOtherMachine)) || !strings.Contains(line, "cannot see it") {
						t.Errorf("--pid: said %s", line)
					}
					continue
				}
				held, err := client.Do(t.Context(), daemon, api.OpListClaims, api.AgentFilter{Agent: "Sandman"})
				testkit.Require(t, err == nil && len(held.Claims) == 1, "%s: claims %+v, %v; said %s%s", way, held, err, line, &errs)
				c := held.Claims[0]
				testkit.Must(t, cmd.Process.Kill())
				_ = cmd.Wait()
				if tt.hidden {
					_, err = client.Do(t.Context(), daemon, api.OpRelease, api.On(string(c.ID), "", api.StopRequest{Agent: c.Agent}))
				} else {
					c, err = client.Do(t.Context(), daemon, api.OpGetClaim, api.GetClaimInput{ID: string(c.ID), Agent: c.Agent, Wait: (20 * time.Second).String()})
				}
				if err != nil || !tt.hidden && (c.State != claim.Ended || c.Event == nil || !strings.Contains(c.Event.Summary, " is gone")) {
					t.Errorf("%s: without the process the claim is %s, %q, %+v, %v", way, c.State, c.Detail, c.Event, err)
				}
			}
		})
	}
}

// startAsOther starts a daemon as another user, with such a /proc, on a socket for everybody.
func (m *manager) startAsOther(hidepid string) (socket string) {
	m.Helper()
	socket, l := m.listens()
	self, err := os.Executable()
	if err := errors.Join(err, os.Link(self, filepath.Join(m.dir, "dibs")), os.Mkdir(filepath.Join(m.dir, "state"), 0o700), os.Chown(filepath.Join(m.dir, "state"), 64001, 64001),
		os.Chmod(m.dir, 0o711), os.Chmod(m.config, 0o644), os.Chmod(filepath.Join(m.dir, "notify"), 0o666), os.Chmod(socket, 0o666)); err != nil {
		m.Fatal(err)
	}
	m.under = []string{"unshare", "--mount", "sh", "-ec", fmt.Sprintf(`mount -t proc -o hidepid=%s proc /proc; exec setpriv --reuid 64001 --regid 64001 --clear-groups "$@"`, hidepid), "sh"}
	m.start(l)
	m.hears("READY=1")
	return socket
}

// asCaller returns a script that runs as a third user.
func (m *manager) asCaller(socket, script string) *exec.Cmd {
	cmd := exec.CommandContext(m.Context(), "sh", "-c", script)
	cmd.Env = []string{"PATH=" + m.dir + ":" + os.Getenv("PATH"), "HOME=" + m.dir, "DIBS_SOCKET=" + socket, "GORACE=atexit_sleep_ms=10"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 64002, Gid: 64002}}
	return cmd
}

// begins starts a script and returns its first line with an id, or all it says.
func (m *manager) begins(cmd *exec.Cmd) string {
	m.Helper()
	out, err := cmd.StdoutPipe()
	testkit.Must(m, errors.Join(err, cmd.Start()))
	m.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var said strings.Builder
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		said.WriteString(line)
		if err != nil || strings.Contains(line, `"id":`) && !strings.Contains(line, `"hello"`) {
			return said.String()
		}
	}
}

// TestMainImpostor connects to another user's socket in a directory for everybody.
func TestMainImpostor(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	dir, err := os.MkdirTemp("", "dibs")
	testkit.Must(t, errors.Join(err, os.Chmod(dir, 0o777|fs.ModeSticky)))
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	var l net.Listener
	testkit.AsUser(t, 64001, 64001, func() { l, err = net.Listen("unix", socket) })
	testkit.Must(t, err)
	defer l.Close()
	for named, want := range map[string]string{"": "DIBS_SOCKET_USER=64001\n", "64002": "mend socket_user or DIBS_SOCKET\n"} {
		t.Setenv("DIBS_SOCKET_USER", named)
		var stdout, stderr bytes.Buffer
		code := cli.Main(t.Context(), []string{"status", "--socket", socket}, nil, &stdout, &stderr)
		if code != 5 || stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), "dibs: user 64001 listens on "+socket) || !strings.HasSuffix(stderr.String(), want) {
			t.Errorf("named %q: exit code %d, stdout %q, stderr %q", named, code, &stdout, &stderr)
		}
	}
}

// A script's "sandboxed COMMAND…" runs a command without unix sockets.
func init() {
	programs["sandboxed"] = func() {
		fmt.Fprintln(os.Stderr, testkit.Sandboxed(os.Args[1:]...))
		os.Exit(1)
	}
}
