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
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/daemon"
	"dibs/internal/task"
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
// continues by itself.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSmallDisk(t, 64<<20)
	inWorld(t, 0, func(w *world) {
		var ids []string
		for _, title := range []string{"blocked", "completed", "failed", "held", "next", "offered", "released", "renewed"} {
			ids = append(ids, w.add(title, nil))
		}
		n := w.daemon(func(c *config.Config) { c.StateDir = disk.Path + "/state" })
		held := make(map[string]api.Claim)
		for i, title := range []string{"blocked", "completed", "failed", "held"} {
			held[title] = n.mustClaim("Sandman", ids[i])
		}
		held["released"], held["renewed"] = n.mustClaim("Sandman", ids[6]), n.mustClaim("Sandman", ids[7])
		if _, err := client.Do(w.Context(), n.Client, api.OpSend, api.Keyed("", api.MessageRequest{To: "Oracle", From: "Sandman", Text: "hello"})); err != nil {
			w.Fatal(err)
		}
		time.Sleep(16 * time.Minute) // a renewal is due
		edited := func() (s []string) {
			for _, p := range w.notion.Pages(w.tasks) {
				s = append(s, p.Title()+" "+shape(p))
			}
			return s
		}
		before := strings.Join(edited(), "\n")

		disk.Fill()
		ctx := w.Context()
		ask := map[string]func(key string) error{
			"claim": func(key string) error {
				_, err := client.Do(ctx, n.Client, api.OpClaim, api.Keyed(key, api.ClaimRequest{Agent: "Oracle", Task: ids[4]}))
				return err
			},
			"next": func(key string) error {
				_, err := client.Do(ctx, n.Client, api.OpClaim, api.Keyed(key, api.ClaimRequest{Agent: "Oracle"}))
				return err
			},
			"renew": func(key string) error {
				_, err := client.Do(ctx, n.Client, api.OpRenew, api.On(string(held["renewed"].ID), key, api.RenewRequest{}))
				return err
			},
			"finish": func(key string) error {
				_, err := client.Do(ctx, n.Client, api.OpComplete, api.On(string(held["completed"].ID), key, api.CompleteRequest{Summary: "done"}))
				return err
			},
			"release": func(key string) error {
				_, err := client.Do(ctx, n.Client, api.OpRelease, api.On(string(held["released"].ID), key, api.StopRequest{}))
				return err
			},
			"block": func(key string) error {
				_, err := client.Do(ctx, n.Client, api.OpBlock, api.On(string(held["blocked"].ID), key, api.BlockRequest{Reason: "no"}))
				return err
			},
			"fail": func(key string) error {
				_, err := client.Do(ctx, n.Client, api.OpFail, api.On(string(held["failed"].ID), key, api.FailRequest{Reason: "no"}))
				return err
			},
			"add": func(key string) error {
				_, err := client.Do(ctx, n.Client, api.OpAddTask, api.AddInput{Key: key, Body: api.AddRequest{Title: "more"}})
				return err
			},
			"comment": func(key string) error {
				_, err := client.Do(ctx, n.Client, api.OpComment, api.OnTask(task.ID(ids[3]), key, api.CommentRequest{Agent: "Sandman", Text: "so"}))
				return err
			},
			"offer": func(key string) error {
				_, err := client.Do(ctx, n.Client, api.OpOffer, api.OnTask(task.ID(ids[5]), key, api.OfferRequest{To: "Oracle", Agent: "Sandman"}))
				return err
			},
			"send": func(key string) error {
				_, err := client.Do(ctx, n.Client, api.OpSend, api.Keyed(key, api.MessageRequest{To: "Oracle", From: "Sandman", Text: "again"}))
				return err
			},
			"poll": func(key string) error {
				_, err := client.Do(ctx, n.Client, api.OpPoll, api.PollInput{Name: "Oracle", Key: key, Body: &api.PollRequest{}})
				return err
			},
			"poll, waiting": func(key string) error {
				_, err := client.Do(ctx, n.Client, api.OpPoll, api.PollInput{Name: "Oracle", Key: key, Body: &api.PollRequest{WaitSeconds: 60}})
				return err
			},
			"reserve": func(key string) error {
				_, err := n.Reserve(ctx, w.TempDir(), []string{"*.go"}, api.ReserveRequest{Agent: "Oracle"}, key)
				return err
			},
			"mint": func(key string) error {
				_, err := client.Do(ctx, n.Client, api.OpMint, api.MintInput{Key: key, Body: &api.MintRequest{Session: "one"}})
				return err
			},
			"reopen": func(key string) error {
				_, err := client.Do(ctx, n.Client, api.OpReopen, api.ReopenInput{ID: ids[4], Key: key, Body: &api.ReopenRequest{}})
				return err
			},
		}
		for what, do := range ask {
			for _, key := range []string{"", "key of " + what} {
				if what == "reopen" && key == "" {
					continue // an open task: nothing to do
				}
				begun := time.Now()
				err := do(key)
				p, ok := errors.AsType[*api.Problem](err)
				if !ok || p.Code != api.Code(claim.CodeJournalUnavailable) || p.Status != 503 || p.RetryAfter == 0 || p.Code.Exit() != api.ExitNotion {
					w.Errorf("%s with key %q: %v (%s), want journal_unavailable", what, key, err, code(err))
					continue
				}
				if !strings.Contains(p.Detail, "make room on its disk") || strings.Contains(p.Detail, "\n") {
					w.Errorf("%s: %q", what, p.Detail)
				}
				if took := time.Since(begun); took > time.Second {
					w.Errorf("%s was refused after %v", what, took)
				}
			}
		}
		s := n.status()
		if !strings.Contains(strings.Join(s.Warnings, "\n"), "make room on its disk") {
			w.Errorf("the status warns %q", s.Warnings)
		}
		if got, err := client.Do(ctx, n.Client, api.OpListTasks, api.ListTasksInput{}); err != nil || len(got.Tasks) != len(ids) {
			w.Errorf("%d tasks, %v", len(got.Tasks), err)
		}
		if after := strings.Join(edited(), "\n"); after != before {
			w.Errorf("the board shows\n%s\nwant\n%s", after, before)
		}
		if got := w.notion.Pages(w.tasks); len(got) != len(ids) {
			w.Errorf("%d pages, want %d", len(got), len(ids))
		}

		disk.Free()
		time.Sleep(time.Minute)
		if s := n.status(); len(s.Warnings) != 0 {
			w.Errorf("with room again the status warns %q", s.Warnings)
		}
		for what, do := range ask {
			if what == "claim" || what == "offer" || what == "reopen" || what == "poll, waiting" {
				continue // next takes the first; the others are done
			}
			if err := do("key of " + what); err != nil {
				w.Errorf("with room again, %s: %v", what, err)
			}
		}
		time.Sleep(5 * time.Minute)
		if s := n.status(); s.Outbox.Depth != 0 {
			w.Errorf("%d entries are owed: %s", s.Outbox.Depth, s.Outbox.LastError)
		}
		if got := w.notion.Pages(w.tasks); len(got) != len(ids)+1 {
			w.Errorf("%d pages, want one more than %d", len(got), len(ids))
		}
	})
}
