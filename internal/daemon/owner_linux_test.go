package daemon_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dibs/config"
	"dibs/internal/daemon"
)

// mallory is a user without a name.
const mallory = 64002

// TestStateOfOthers starts daemons in state directories that another user can change.
func TestStateOfOthers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	for name, tt := range map[string]struct {
		prepare func(dir, precious string) error
		want    string
	}{
		"another's directory": {func(dir, _ string) error { return os.Chown(dir, mallory, mallory) }, "user 64002 could put files of their own"},
		"for a group":         {func(dir, _ string) error { return errors.Join(os.Chown(dir, 0, 64100), os.Chmod(dir, 0o770)) }, "group 64100 could put files"},
		"for everybody":       {func(dir, _ string) error { return os.Chmod(dir, 0o777|fs.ModeSticky) }, "every user of this machine could put files"},
		"a link for a lock": {func(dir, precious string) error {
			return os.Symlink(precious, filepath.Join(dir, "daemon.lock"))
		}, "daemon.lock is a link"},
		"another's lock": {func(dir, _ string) error {
			path := filepath.Join(dir, "daemon.lock")
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, mallory, mallory))
		}, "user 64002 could change"},
		"a link for a journal": {func(dir, precious string) error {
			return os.Symlink(precious, filepath.Join(dir, "journal.db"))
		}, "journal.db is a link"},
		"another's journal": {func(dir, _ string) error {
			path := filepath.Join(dir, "journal.db-wal")
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, mallory, mallory))
		}, "user 64002 could change"},
	} {
		t.Run(name, func(t *testing.T) {
			above, err := os.MkdirTemp("", "dibs")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(above)
			dir, precious := filepath.Join(above, "state"), filepath.Join(above, "precious")
			if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(precious, nil, 0o600), tt.prepare(dir, precious)); err != nil {
				t.Fatal(err)
			}
			c := config.Default()
			c.Notion.Token, c.Notion.BaseURL, c.StateDir, c.Socket = "token", "http://127.0.0.1:1", dir, filepath.Join(above, "run", "s")
			d, err := daemon.Start(t.Context(), daemon.Options{Config: c, Log: slog.New(slog.DiscardHandler)})
			if err == nil {
				d.Close()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("err = %v, want one line with %q", err, tt.want)
			}
			if data, err := os.ReadFile(precious); err != nil || len(data) > 0 {
				t.Errorf("what the link leads to holds %q, %v", data, err)
			}
		})
	}
}
