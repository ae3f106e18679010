package cli_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestForwardedSocket runs the scripts in testdata/ssh, in which ssh forwards a daemon's socket and
// kill9 ends ssh.
func TestForwardedSocket(t *testing.T) {
	takesSeconds(t)
	if _, err := sshd(); err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
	runEndToEnd(t, "testdata/ssh")
}

// sshd returns the path of the server, which is not in every PATH.
func sshd() (string, error) {
	if _, err := exec.LookPath("ssh"); err != nil {
		return "", fmt.Errorf("a forwarded socket is not tested: %w: apt-get install openssh-client", err)
	}
	if os.Geteuid() == 0 { // a service makes this for sshd at its start
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			return "", fmt.Errorf("a forwarded socket is not tested: %w", err)
		}
	}
	for _, name := range []string{"sshd", "/usr/sbin/sshd", "/usr/libexec/sshd"} {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", errors.New("a forwarded socket is not tested: there is no sshd: apt-get install openssh-server")
}

// tunnel starts an ssh server for this user, and an ssh client with forwarding.
func tunnel(ts *testscript.TestScript, _ bool, args []string) {
	server, err := sshd()
	ts.Check(err)
	dir := ts.MkAbs("ssh")
	if _, err := os.Stat(dir); err != nil {
		ts.Check(os.Mkdir(dir, 0o700))
		for _, key := range []string{"host", "own"} {
			ts.Check(exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key)).Run())
		}
	}
	far, near := ts.MkAbs(args[0]), ts.MkAbs(args[1])
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	ts.Check(errors.Join(err, l.Close()))
	me, err := user.Current()
	ts.Check(err)
	log, err := os.Create(near + ".log")
	ts.Check(err)
	defer log.Close()
	begin := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		cmd.Stdout, cmd.Stderr = log, log
		ts.Check(cmd.Start())
		ts.Defer(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		return cmd
	}
	begin(server, "-D", "-e", "-f", "/dev/null", "-p", port, "-o", "ListenAddress=127.0.0.1", "-o", "HostKey="+filepath.Join(dir, "host"),
		"-o", "AuthorizedKeysFile="+filepath.Join(dir, "own.pub"), "-o", "StrictModes=no", "-o", "PidFile=none",
		"-o", "PermitRootLogin=yes", "-o", "UsePAM=no", "-o", "KbdInteractiveAuthentication=no", "-o", "PasswordAuthentication=no")
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(end) {
			ts.Fatalf("sshd does not start:\n%s", ts.ReadFile(near+".log"))
		}
	}
	boardOf(ts).daemons[args[1]] = begin("ssh", "-N", "-F", "/dev/null", "-p", port, "-i", filepath.Join(dir, "own"), "-o", "IdentitiesOnly=yes",
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes",
		"-o", "StreamLocalBindUnlink=yes", "-L", near+":"+far, me.Username+"@127.0.0.1")
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("unix", near)
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(end) {
			ts.Fatalf("ssh does not forward the socket:\n%s", strings.TrimSpace(ts.ReadFile(near+".log")))
		}
	}
}
