//go:build linux || darwin

package sessionid

import (
	"fmt"
	"os"

	"dibs/internal/claim/keepers"

	"golang.org/x/sys/unix"
)

// sessionLeader identifies the session leader of this process, see setsid(2): the shell of a
// terminal or a login. It returns false if that has ended, or is this process itself, as when
// each command runs in a session of its own.
func sessionLeader() (string, bool) {
	id, err := unix.Getsid(0)
	if err != nil || id == os.Getpid() {
		return "", false
	}
	p, err := keepers.Of(id)
	if err != nil {
		return "", false
	}
	return fmt.Sprintf("%d %s", p.ID, p.Began), true
}
