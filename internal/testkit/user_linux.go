package testkit

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// AsUser runs do as another user and group, which need no names on this machine. Only root can do
// this: for anybody else the test is skipped.
func AsUser(t *testing.T, uid, gid int, do func()) {
	t.Helper()
	asUser(t, uid, gid, func() error { return nil }, do)
}

// Hidden is AsUser with a /proc of its own, in which users see nothing of each other's processes, as
// with ProtectProc=invisible of systemd. Without the rights for that the test is skipped; where CI is
// true, it fails.
func Hidden(t *testing.T, uid, gid int, do func()) {
	t.Helper()
	if os.Getuid() != 0 && os.Getenv("CI") == "true" {
		t.Fatal("only root can mount a /proc that hides processes")
	}
	asUser(t, uid, gid, func() error {
		return errors.Join(
			unix.Unshare(unix.CLONE_NEWNS|unix.CLONE_FS),
			unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("proc", "/proc", "proc", 0, "hidepid=2"),
		)
	}, do)
}

// asUser calls first, and then do as another user, on a thread of their own.
func asUser(t *testing.T, uid, gid int, first func() error, do func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	done := make(chan error)
	go func() {
		// From here on the thread belongs to the other user; it ends with the goroutine.
		runtime.LockOSThread()
		if err := first(); err != nil {
			done <- err
			return
		}
		for _, call := range [][4]uintptr{
			{unix.SYS_SETGROUPS},
			{unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)},
			{unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)},
		} {
			if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				done <- errno
				return
			}
		}
		do()
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
