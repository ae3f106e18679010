package runner

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// rename gives this process another name than dibs run, so that killing dibs run by name leaves
// this process to clean up.
func rename() { _ = os.WriteFile("/proc/self/comm", []byte("dibs-guard"), 0) }

// adopt makes this process the parent of its orphaned descendants, or ends that. It needs no
// privileges.
func adopt(yes bool) {
	on := uintptr(0)
	if yes {
		on = 1
	}
	// If it is refused, orphaned descendants are unknown.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, on, 0, 0, 0)
}

// attributes returns a command's attributes: its group, and that it dies with the supervisor.
func attributes(group int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: group, Pdeathsig: syscall.SIGKILL}
}

// descendants returns the processes that descend from this one, and whether they are known. In
// /proc/PID/stat, the state and the parent follow the name, which is in parentheses and may contain
// anything, see proc_pid_stat(5).
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
		if err != nil || len(fields) < 2 { // it ended
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
