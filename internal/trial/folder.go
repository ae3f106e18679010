package trial

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"dibs/config"
	"dibs/internal/ownfile"

	"github.com/adrg/xdg"
	"github.com/gofrs/flock"
)

// Folder is where a trial keeps its board, the daemon's state and a configuration
// that leads other commands to it, apart from everything real. One trial at a time
// uses a folder.
type Folder string

// Default is the folder of this user's trial.
func Default() Folder { return Folder(filepath.Join(xdg.StateHome, "dibs-try")) }

// Config is the path of the configuration for commands that are tried.
func (f Folder) Config() string { return f.file("config.yaml") }

// Board is the path of the file that keeps the board.
func (f Folder) Board() string { return f.file("board.json") }

func (f Folder) file(name string) string { return filepath.Join(string(f), name) }

// ErrInUse says that a trial is running in the folder.
var ErrInUse = errors.New("a trial is running already: try a command on it, such as dibs try ready, or stop it first")

// Lock makes the folder, and keeps other trials out of it until unlock is called. The
// kernel gives the lock up when the process ends, however it ends.
func (f Folder) Lock() (unlock func() error, err error) {
	if err := ownfile.MakeDirectory(string(f)); err != nil {
		return nil, fmt.Errorf("the folder of the trial %s: %w", f, err)
	}
	lock := flock.New(f.file("try.lock"))
	switch locked, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("the folder of the trial %s: %w", f, err)
	case !locked:
		return nil, ErrInUse
	}
	return lock.Close, nil
}

// Point has commands with the folder's configuration use a trial.
func (f Folder) Point(c config.Config) error {
	token := f.file("token")
	if err := os.WriteFile(token, []byte(c.Notion.Token), 0o600); err != nil {
		return err
	}
	c.Notion.Token, c.Notion.TokenFile = "", token
	if err := os.Remove(f.Config()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return c.WriteFile(f.Config(), false)
}

// Remove removes the folder with all that was tried in it.
func (f Folder) Remove() error {
	if _, err := os.Stat(string(f)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := f.Lock()
	if err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(string(f)), unlock())
}
