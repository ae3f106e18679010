package client

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"

	"dibs/internal/kit/safefile"
)

// ImpostorError says that the wrong user listens on the socket. Nothing was sent.
type ImpostorError struct {
	Socket string
	UID    int    // the listener's user
	Wanted string // the expected user, if one was named
}

func (e *ImpostorError) Error() string {
	who := safefile.UserName(e.UID)
	if e.Wanted != "" {
		return fmt.Sprintf("user %s listens on %s, and not %s, whom socket_user names: nothing was asked: mend socket_user or DIBS_SOCKET", who, e.Socket, e.Wanted)
	}
	return fmt.Sprintf("user %s listens on %s, where anybody could: nothing was asked: set DIBS_SOCKET to your daemon's socket, or, if that is your daemon's user, DIBS_SOCKET_USER=%d", who, e.Socket, e.UID)
}

// believe returns an error unless the listener's user is the named one, or, with none named, one
// who may have put the socket there. If the kernel does not identify the listener, anybody is
// accepted.
func believe(uid int, socket, named string) error {
	if uid < 0 {
		return nil
	}
	if named != "" {
		wanted, err := userID(named)
		if err != nil {
			return err
		}
		if uid != wanted && uid != 0 { // systemd listens for the daemons it starts
			return &ImpostorError{Socket: socket, UID: uid, Wanted: named}
		}
		return nil
	}
	where := safefile.Resolved{} // root and this user only
	if !strings.HasPrefix(socket, "@") {
		var err error
		where, err = safefile.Resolve(socket)
		if _, unsafe := errors.AsType[*safefile.Unsafe](err); err != nil && !unsafe {
			return err
		}
	}
	if !where.Right(uid) {
		return &ImpostorError{Socket: socket, UID: uid}
	}
	return nil
}

func userID(name string) (int, error) {
	if uid, err := strconv.ParseUint(name, 10, 32); err == nil {
		return int(uid), nil
	}
	found, err := user.Lookup(name)
	if err != nil {
		return 0, fmt.Errorf("socket_user: %w: name the user that the daemon runs as", err)
	}
	return strconv.Atoi(found.Uid)
}
