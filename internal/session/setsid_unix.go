//go:build linux || darwin

package session

import (
	"fmt"
	"os"

	"dibs/internal/alive"

	"golang.org/x/sys/unix"
)

// leader names the first process of the session, in the sense of setsid(2), that this
// process is in: the shell of a terminal or of a login. false if that has ended, or is
// this process itself, as where each command is run in a session of its own.
func sessionLeader() (string, bool) {
	id, err := unix.Getsid(0)
	if err != nil || id == os.Getpid() {
		return "", false
	}
	p, err := alive.Of(id)
	if err != nil {
		return "", false
	}
	return fmt.Sprintf("%d %s", p.ID, p.Began), true
}
