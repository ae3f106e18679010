// Package try runs a board and its daemon in one process, to try dibs without a Notion account. A
// command in a trial sees nothing of the user's settings.
package try

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"dibs/config"
	"dibs/internal/daemon"
	"dibs/internal/kit/safefile"
	"dibs/internal/notion/emulator"

	"github.com/gofrs/flock"
)

// Options configures a trial.
type Options struct {
	// Dir holds the daemon's state and, if its path is short enough, the socket. It must exist.
	Dir string
	// Limit is how many requests the board allows per minute.
	Limit int
	// StateFile keeps the board; empty keeps nothing.
	StateFile string
	// Remote is where the daemon listens for agents on other machines; empty for nowhere.
	Remote string
	// Config is the daemon's configuration; nil for the default. The trial sets its directories,
	// and the address, token and databases of the board.
	Config *config.Config
	// Version is shown by the daemon.
	Version string
	// Log is the daemon's log; nil discards it.
	Log *slog.Logger
}

// Trial is a board and the daemon that works on it.
type Trial struct {
	// Notion is the board, served at URL.
	Notion *emulator.Emulator
	URL    string
	// Config is the daemon's.
	Config config.Config

	server *http.Server
	daemon *daemon.Daemon
}

// Start starts a daemon, and a board with its kept state, or else with the tasks of the demo. The
// caller must Run the trial.
func Start(ctx context.Context, o Options) (_ *Trial, err error) {
	t := new(Trial)
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	if t.Notion, err = emulator.New(emulator.Options{Limit: o.Limit, StateFile: o.StateFile}); err != nil {
		return nil, err
	}
	dbs, err := t.Notion.Seed("demo")
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t.URL = "http://" + listener.Addr().String()
	t.server = &http.Server{Handler: emulator.Addressed(nil, t.Notion), ReadHeaderTimeout: 10 * time.Second}
	go t.server.Serve(listener)

	t.Config = config.Default()
	if o.Config != nil {
		t.Config = *o.Config
	}
	t.Config.StateDir, t.Config.Socket = o.Dir, config.SocketIn(o.Dir)
	t.Config.Notion.BaseURL, t.Config.Notion.Token = t.URL, config.Secret(t.Notion.Token())
	t.Config.Databases = config.Databases{Tasks: dbs.Tasks, TaskLog: dbs.TaskLog, MeshLog: dbs.MeshLog}
	t.Config.Remote.Listen = o.Remote
	if err := t.Config.Validate(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if t.daemon, err = daemon.Start(ctx, daemon.Options{Config: t.Config, Version: o.Version, Log: o.Log}); err != nil {
		return nil, err
	}
	return t, nil
}

// Remote is the URL for agents on other machines; empty without Options.Remote.
func (t *Trial) Remote() string { return t.daemon.RemoteURL() }

// Run serves until ctx ends. The daemon stops before the board.
func (t *Trial) Run(ctx context.Context) error {
	return errors.Join(t.daemon.Run(ctx), t.close())
}

func (t *Trial) close() error {
	if t.server != nil {
		t.server.Close()
	}
	if t.Notion == nil {
		return nil
	}
	return t.Notion.Close()
}

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
