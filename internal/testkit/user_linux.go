package testkit

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// AsUser runs do as another user and group, which need no names on this machine. Only root can do
// this: for anybody else the test is skipped.
func AsUser(t *testing.T, uid, gid int, do func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	done := make(chan error)
	go func() {
		// From here on the thread belongs to the other user; it ends with the goroutine.
		runtime.LockOSThread()
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
