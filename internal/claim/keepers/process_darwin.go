package keepers

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// szomb is the state of a process that has ended and was not waited for, see
// sys/proc.h.
const szomb = 5

func processOf(id int) (Process, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", id)
	// For an unused number the kernel returns no data.
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EIO) || err == nil && (int(info.Proc.P_pid) != id || info.Proc.P_stat == szomb) {
		return Process{}, fmt.Errorf("%d: %w", id, ErrNoProcess)
	}
	if err != nil {
		return Process{}, err
	}
	began := info.Proc.P_starttime
	return Process{ID: id, Began: fmt.Sprintf("%d.%06d", began.Sec, began.Usec), UID: int(info.Eproc.Ucred.Uid)}, nil
}
