package daemon_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/daemon"
	"dibs/internal/testkit"
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

// TestFullDisk fills the disk of the state directory: requests that must be saved are refused as
// journal_unavailable and have no effect, reads are answered, and once there is space the daemon
// continues by itself. TestDatabaseAway tries every operation.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSmallDisk(t, 64<<20)
	inWorld(t, 0, func(w *world) {
		n := w.daemon(func(c *config.Config) { c.StateDir = disk.Path + "/state" })
		held := make(map[string]api.Claim)
		for _, title := range []string{"blocked", "completed", "released", "renewed"} {
			held[title] = n.mustClaim("Sandman", w.add(title, nil))
		}
		w.add("next", nil)
		n.sync()
		mustCall(n, api.OpSend, api.Keyed("", api.MessageRequest{To: "Oracle", From: "Sandman", Text: "hello"}))
		time.Sleep(16 * time.Minute) // a renewal is due
		edited := func() (all []string) {
			for _, p := range w.notion.Pages(w.tasks) {
				all = append(all, p.Title()+" "+shape(p))
			}
			return all
		}
		before := edited()

		disk.Fill()
		on := func(title string) string { return string(held[title].ID) }
		ask := map[string]func(key string) error{
			"next": func(key string) error {
				return second(call(n, api.OpClaim, api.Keyed(key, api.ClaimRequest{Agent: "Oracle"})))
			},
			"renew": func(key string) error {
				return second(call(n, api.OpRenew, api.On(on("renewed"), key, api.RenewRequest{})))
			},
			"finish": func(key string) error {
				return second(call(n, api.OpComplete, api.On(on("completed"), key, api.CompleteRequest{})))
			},
			"release": func(key string) error {
				return second(call(n, api.OpRelease, api.On(on("released"), key, api.StopRequest{})))
			},
			"block": func(key string) error {
				return second(call(n, api.OpBlock, api.On(on("blocked"), key, api.BlockRequest{Reason: "no"})))
			},
			"add": func(key string) error {
				return second(call(n, api.OpAddTask, api.AddInput{Key: key, Body: api.AddRequest{Title: "more"}}))
			},
			"send": func(key string) error {
				return second(call(n, api.OpSend, api.Keyed(key, api.MessageRequest{To: "Oracle", From: "Sandman", Text: "again"})))
			},
			"poll": func(key string) error {
				return second(call(n, api.OpPoll, api.PollInput{Name: "Oracle", Key: key, Body: &api.PollRequest{WaitSeconds: 60}}))
			},
		}
		for what, do := range ask {
			for _, key := range []string{"", "key of " + what} {
				begun := time.Now()
				err := do(key)
				w.refused(what, err, string(claim.CodeJournalUnavailable), "make room on its disk")
				if p, ok := errors.AsType[*api.Problem](err); !ok || p.Status != 503 || p.RetryAfter == 0 || p.Code.Exit() != api.ExitNotion || time.Since(begun) > time.Second {
					w.Errorf("%s with key %q: %+v after %v", what, key, err, time.Since(begun))
				}
			}
		}
		if got := n.status().Warnings; !strings.Contains(strings.Join(got, "\n"), "make room on its disk") {
			w.Errorf("the status warns %q", got)
		}
		same(w, "known tasks", 5, len(n.titles()))
		same(w, "the board", before, edited())

		disk.Free()
		time.Sleep(time.Minute)
		same(w, "warnings, with room again", "", strings.Join(n.status().Warnings, "\n"))
		for what, do := range ask {
			if err := do("key of " + what); err != nil {
				w.Errorf("with room again, %s: %v", what, err)
			}
		}
		time.Sleep(5 * time.Minute)
		if s := n.status(); s.Outbox.Depth != 0 {
			w.Errorf("%d entries are owed: %s", s.Outbox.Depth, s.Outbox.LastError)
		}
		same(w, "pages, with the one that was added", 6, len(w.notion.Pages(w.tasks)))
	})
}
