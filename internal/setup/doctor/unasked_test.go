package doctor_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"dibs/internal/api/client"
	"dibs/internal/setup/doctor"

	"github.com/gofrs/flock"
)

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
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
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
				if regexp.MustCompile(`\b(stop|restart|start dibs serve)\b`).MatchString(f.Remedy) {
					w.Errorf("it advises: %s", f.Remedy)
				}
			})
		})
	}
}
