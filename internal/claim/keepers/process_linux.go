package keepers

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
)

// boot identifies the current boot of the machine: start times count from it.
var boot = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
})

// processOf reads /proc/PID/stat, see proc_pid_stat(5). The name is in parentheses and may contain
// anything. After it, the first field is the state, and the twentieth the start time in ticks since
// the boot.
func processOf(id int) (Process, error) {
	dir := fmt.Sprintf("/proc/%d", id)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return Process{}, fmt.Errorf("%d: %w", id, unread(id, err))
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return Process{}, fmt.Errorf("%s/stat has %d fields behind the name", dir, len(fields))
	}
	if state := fields[0][0]; state == 'Z' || state == 'X' { // ended, and not waited for
		return Process{}, fmt.Errorf("%d: %w", id, ErrNoProcess)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return Process{}, fmt.Errorf("%d: %w", id, unread(id, err))
	}
	return Process{ID: id, Began: boot() + " " + string(fields[19]), UID: int(info.Sys().(*syscall.Stat_t).Uid)}, nil
}

// unread returns what an error says of a process whose files in /proc cannot be read. That may hide
// those of other users, see hidepid in proc(5); kill(2) does not.
func unread(id int, err error) error {
	missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
	switch {
	case missing && errors.Is(syscall.Kill(id, 0), syscall.ESRCH):
		return ErrNoProcess
	case missing || errors.Is(err, fs.ErrPermission):
		return ErrUnseen
	}
	return err
}
