package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/adrg/xdg"
)

// maxSocketPath is the longest path of a socket on every system: macOS has 104 bytes including the
// final zero, Linux a few more.
const maxSocketPath = 103

// ErrNoHome says that no directory of this user is known.
var ErrNoHome = errors.New("HOME is not set, so there is no place for files of this user: set HOME (or DIBS_CONFIG, DIBS_STATE_DIR and DIBS_SOCKET)")

// StateHome returns the directory in which programs keep the state of this user.
func StateHome() (string, error) { return below("XDG_STATE_HOME", xdg.StateHome) }

// below returns a directory that a variable names, or that is below HOME.
func below(variable, dir string) (string, error) {
	if os.Getenv("HOME") == "" && !filepath.IsAbs(os.Getenv(variable)) {
		return "", ErrNoHome
	}
	return dir, nil
}

// ShortDir returns dir if the path of a socket below it has room for that many bytes, else a
// directory of this machine that is shorter.
func ShortDir(dir string, room int) string {
	for _, short := range []string{dir, filepath.Join("/run/user", strconv.Itoa(os.Getuid())), "/tmp"} {
		if len(short)+room > maxSocketPath {
			continue
		}
		if info, err := os.Stat(short); short == dir || err == nil && info.IsDir() {
			return short
		}
	}
	return dir
}

// SocketIn returns the path of the socket in a directory. If that is too long for a socket, it is
// in a short directory that is named after the long one.
func SocketIn(dir string) string {
	const name = "dibs.sock"
	if short := ShortDir(dir, len("/"+name)); short != dir {
		sum := sha256.Sum256([]byte(dir))
		dir = filepath.Join(short, fmt.Sprintf("dibs-%d-%x", os.Getuid(), sum[:6]))
	}
	return filepath.Join(dir, name)
}
