package testkit

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
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
