package runner

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// rename names this process differently from dibs run, so that who kills that by its name leaves
// this to clean up.
func rename() { _ = os.WriteFile("/proc/self/comm", []byte("dibs-guard"), 0) }

// adopt has this process become the parent of those of its descendants that lose their own, or
// not any longer. It needs no privileges.
func adopt(yes bool) {
	on := uintptr(0)
	if yes {
		on = 1
	}
	// Where it is refused, only what keeps its parents is known.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, on, 0, 0, 0)
}

// attributes are those of a command: its group, and that it dies with the guard.
func attributes(group int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: group, Pdeathsig: syscall.SIGKILL}
}

// descendants are the processes that descend from this one, and whether they are known. See
// proc_pid_stat(5): behind the name, which may hold anything and is in parentheses, stand the
// state and the parent.
func descendants() (pids []int, known bool) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, false
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, false
	}
	children := make(map[int][]int)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if err != nil || len(fields) < 2 { // it has ended
			continue
		}
		if parent, err := strconv.Atoi(string(fields[1])); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	pids = children[os.Getpid()]
	for i := 0; i < len(pids); i++ {
		pids = append(pids, children[pids[i]]...)
	}
	return pids, true
}
