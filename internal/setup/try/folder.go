package try

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"dibs/config"
	"dibs/internal/kit/safefile"

	"github.com/gofrs/flock"
)

// Folder is where a trial keeps its board, the daemon's state, and a configuration for the commands
// tried on it, separate from everything real. One trial at a time uses a folder.
type Folder string

// Default is the folder of this user's trial.
func Default() (Folder, error) {
	home, err := config.StateHome()
	return Folder(filepath.Join(home, "dibs-try")), err
}

// Config is the path of the configuration for commands tried on the trial.
func (f Folder) Config() string { return f.file("config.yaml") }

// Board is the path of the file with the board's state.
func (f Folder) Board() string { return f.file("board.json") }

func (f Folder) file(name string) string { return filepath.Join(string(f), name) }

// ErrInUse says that a trial is running in the folder.
var ErrInUse = errors.New("a trial is running already: try a command on it, such as dibs try ready, or stop it first")

// Lock makes the folder and keeps other trials out of it until unlock is called, or the process
// ends.
func (f Folder) Lock() (unlock func() error, err error) {
	if err := safefile.MakeDirectory(string(f)); err != nil {
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

// Point writes the folder's configuration, so that commands with it use the trial.
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

// Remove removes the folder and everything in it. It fails with ErrInUse while a trial runs there.
func (f Folder) Remove() error {
	if _, err := os.Stat(string(f)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := f.Lock()
	if err != nil {
		return err
	}
	err = os.RemoveAll(string(f))
	if elsewhere := filepath.Dir(config.SocketIn(string(f))); elsewhere != string(f) {
		err = errors.Join(err, os.RemoveAll(elsewhere))
	}
	return errors.Join(err, unlock())
}
