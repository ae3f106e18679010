package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"dibs/config"
	"dibs/internal/journal"
	"dibs/internal/kit/safefile"

	"github.com/gofrs/flock"
)

// lockName is the file in the state directory that the running daemon locks. It is never removed:
// otherwise two daemons could lock two files of that name.
const lockName = "daemon.lock"

// maxLock is the size in bytes of the longest lock file that is read.
const maxLock = 1024

// lockState makes the state directory and keeps every other daemon out of it until unlock is
// called, or the process ends. The lock names the process and its socket.
func lockState(dir, socket string) (unlock func() error, err error) {
	if dir == "" {
		return nil, config.ErrNoHome
	}
	if err := safefile.MakeDirectory(dir); err != nil {
		if unsafe, ok := errors.AsType[*safefile.Unsafe](err); ok {
			return nil, fmt.Errorf("the state directory %s: %s could put files of their own into it: run: %s; or set state_dir to a directory of your own", dir, unsafe.Who, unsafe.Remedy)
		}
		return nil, fmt.Errorf("the state directory could not be made: %w", journal.Unmade(err))
	}
	path := filepath.Join(dir, lockName)
	// safefile makes and checks the file first: flock opens it by name.
	file, err := safefile.Open(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the lock of the state directory: %w", journal.Unmade(err))
	}
	defer file.Close()
	lock := flock.New(path, flock.SetFlag(os.O_RDWR|safefile.NoFollow))
	// Running may hold it for an instant.
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	locked, err := lock.TryLockContext(ctx, 10*time.Millisecond)
	if err != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("the state directory %s could not be locked: %w; it has to be on a local disk, and writable for this user", dir, err)
	}
	if !locked {
		return nil, fmt.Errorf("another dibs daemon%s is using the state directory %s; stop it, or give this one its own state_dir and socket", owner(path), dir)
	}
	err = file.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintf(file, "%d\n%s\n", os.Getpid(), socket)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the state directory %s could not be written: %w", dir, journal.Unmade(err)), lock.Unlock())
	}
	return lock.Unlock, nil
}

// owner names the process that wrote the lock file, and its socket, for a sentence; empty if
// unknown.
func owner(path string) string {
	pid, socket := lockedBy(path)
	switch {
	case pid == "":
		return ""
	case socket == "":
		return " (pid " + pid + ")"
	}
	return fmt.Sprintf(" (pid %s, on %s)", pid, socket)
}

// lockedBy returns the process id and the socket in the lock file; empty if they cannot be read.
func lockedBy(path string) (pid, socket string) {
	// The caller may be another user than the daemon's.
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxLock {
		return "", ""
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", ""
	}
	pid, socket, _ = strings.Cut(strings.TrimSpace(string(data)), "\n")
	return pid, socket
}

// SocketOf returns the socket of the daemon that is using a state directory; empty if there is no
// such daemon, or its socket is unknown.
func SocketOf(dir string) string {
	// The file of a daemon that has ended is still there, and another board's may be on its socket.
	if _, running, err := Running(dir); err != nil || !running {
		return ""
	}
	_, socket := lockedBy(filepath.Join(dir, lockName))
	return socket
}

// Running reports whether a daemon is using a state directory, and its process id if it can be
// read. It changes no file.
func Running(dir string) (pid string, running bool, err error) {
	path := filepath.Join(dir, lockName)
	if info, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return "", false, nil
	} else if err == nil && !info.Mode().IsRegular() {
		return "", false, fmt.Errorf("%s is not a file: move it away", path)
	}
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY|safefile.NoFollow))
	free, err := lock.TryRLock()
	if err != nil {
		return "", false, fmt.Errorf("cannot find out whether a daemon is using the state directory %s: %w", dir, err)
	}
	if free {
		return "", false, lock.Close()
	}
	pid, _ = lockedBy(path)
	return pid, true, nil
}
