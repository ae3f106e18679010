package testkit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sandboxed replaces this process by a command that has no unix sockets, as in the sandboxes of
// agents' clients: a seccomp filter answers socket(AF_UNIX) with EPERM. It needs no privileges. It
// returns only with an error.
func Sandboxed(command ...string) error {
	runtime.LockOSThread()      // the filter is the thread's, and the new program runs on it
	const number, first = 0, 16 // where a system call's number and its first argument are
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SOCKET, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: first},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.AF_UNIX, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := errors.Join(
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
		unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0),
	)
	path, missing := exec.LookPath(command[0])
	if err := errors.Join(err, missing); err != nil {
		return err
	}
	return syscall.Exec(path, command, os.Environ())
}

// SmallDisk is a file system in memory that a test can fill up.
type SmallDisk struct {
	t    testing.TB
	Path string
}

// NewSmallDisk mounts a file system of so many bytes in a temporary directory until the test ends.
// The test is skipped if this user may not mount.
func NewSmallDisk(t testing.TB, bytes int) *SmallDisk {
	t.Helper()
	s := &SmallDisk{t, t.TempDir()}
	if err := unix.Mount("dibs-test", s.Path, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", bytes)); err != nil {
		t.Skipf("a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(s.Path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *SmallDisk) ballast() string { return filepath.Join(s.Path, "ballast") }

// Fill uses up the free space.
func (s *SmallDisk) Fill() {
	s.t.Helper()
	f, err := os.OpenFile(s.ballast(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	for page := bytes.Repeat([]byte{1}, 1<<16); len(page) > 0; {
		if _, err := f.Write(page); err != nil {
			page = page[:len(page)/2]
		}
	}
}

// Free removes what Fill wrote.
func (s *SmallDisk) Free() {
	s.t.Helper()
	if err := os.Remove(s.ballast()); err != nil {
		s.t.Fatal(err)
	}
}

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
	var begin func()
	begin = func() {
		// From here on the thread belongs to the other user; it ends with the goroutine. The process's
		// first thread would not end, and the whole process would pass for that user's.
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			begun := make(chan struct{})
			go func() { close(begun); begin() }()
			<-begun
			runtime.UnlockOSThread()
			return
		}
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
	}
	go begin()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
