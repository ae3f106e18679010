package daemon_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/config"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
)

func TestReload(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		o := w.options(func(c *config.Config) { c.Sync.Interval = 10 * time.Minute; c.Schedule.Sweep = "@every 100h" })
		level, logged := new(slog.LevelVar), new(bytes.Buffer)
		o.LogLevel, o.Log = level, slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: level}))
		n := w.start(o)
		time.Sleep(time.Second)

		c := o.Config
		c.Sync.Interval, c.Schedule.Sweep = time.Minute, "@every 2m"
		c.Notion.Rate, c.Notion.Burst = 10, 20
		c.Agents = []config.Agent{{Name: "Oracle"}}
		c.Log.Level = "error"
		mustDo(w, n.daemon.Reload(c))
		synctest.Wait() // so that nobody is writing to the log
		if !strings.Contains(logged.String(), "serving") || level.Level() != slog.LevelError {
			w.Errorf("the level is %v after %q", level.Level(), logged)
		}
		if _, err := n.claim("Sandman", id); code(err) != "forbidden_agent" {
			w.Errorf("an agent that is not listed any more: err = %v", err)
		}
		if got := n.samples()["dibs_notion_permits_max"]; got != "20" {
			w.Errorf("the burst is %s, want 20", got)
		}
		// The interval that was running ends first.
		time.Sleep(10 * time.Minute)
		w.notion.ResetRequests()
		time.Sleep(10 * time.Minute)
		if queries := count(w.requests(), "POST query"); queries < 9 || queries > 11 {
			w.Errorf("%d queries in ten minutes, want one a minute", queries)
		}
		stale := w.add("left behind", map[string]any{
			"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "claude-chat-7K9X"),
			"claimed_at": date(time.Now().Add(-2 * time.Hour)),
		})
		time.Sleep(4 * time.Minute)
		if got := show(w.page(stale)).Status; got != "OPEN" {
			w.Errorf("a stale claim: %s, want it swept", got)
		}
	})
}

func count(list []string, what string) (n int) {
	for _, s := range list {
		if s == what {
			n++
		}
	}
	return n
}

// A reload with a key that cannot change is refused as a whole.
func TestReloadRefused(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		const ann = "aaaaaaaa-1f15-45cd-9c65-0dfe42f5135a"
		o := w.options(func(c *config.Config) {
			c.Agents = []config.Agent{{Name: "Sandman", NotionUser: ann}, {Name: "Hypnos"}}
		})
		n := w.start(o)
		for name, tt := range map[string]struct {
			change func(*config.Config)
			want   string
		}{
			"database":      {func(c *config.Config) { c.Databases.Tasks = c.Databases.MeshLog }, "databases.tasks cannot change while the daemon runs: restart it"},
			"several":       {func(c *config.Config) { c.Claim.Settle *= 2; c.Socket = "/x" }, "claim.settle, socket cannot change"},
			"token":         {func(c *config.Config) { c.Notion.Token = "ntn_anotherone" }, "notion.token cannot change"},
			"long interval": {func(c *config.Config) { c.Sync.Interval = time.Hour }, "sync.interval: 1h0m0s is longer than the 15s"},
			"Notion user": {func(c *config.Config) {
				c.Agents = []config.Agent{{Name: "Sandman", NotionUser: "6794760a-1f15-45cd-9c65-0dfe42f5135a"}}
			}, "agents: which Notion user"},
			"Notion users change places": {func(c *config.Config) {
				c.Agents = []config.Agent{{Name: "Hypnos", NotionUser: ann}, {Name: "Sandman"}}
			}, "agents: which Notion user"},
			"rate": {func(c *config.Config) { c.Notion.Rate = 0 }, "a rate of 0"},
		} {
			c := o.Config
			c.Agents = []config.Agent{{Name: "Oracle"}, {Name: "Sandman", NotionUser: ann}}
			tt.change(&c)
			if err := n.daemon.Reload(c); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "ntn_") {
				w.Errorf("%s: err = %v, want %q", name, err, tt.want)
			}
		}
		c := o.Config
		c.Agents = append([]config.Agent{{Name: "Phobetor"}}, c.Agents...)
		if err := n.daemon.Reload(c); err != nil {
			w.Errorf("one more agent: %v", err)
		}
		if _, err := n.claim("Oracle", id); code(err) != "forbidden_agent" {
			w.Errorf("an agent of a refused configuration: err = %v", err)
		}
		n.mustClaim("Sandman", id)
	})
}

// A replaced token in the file is noticed.
func TestReloadWithAnotherToken(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		file := filepath.Join(w.TempDir(), "token")
		write := func(token string) {
			w.Helper()
			mustDo(w, os.WriteFile(file, []byte(token+"\n"), 0o600))
		}
		write(w.notion.Token())
		o := w.options(func(c *config.Config) { c.Notion.Token, c.Notion.TokenFile = "", file })
		n := w.start(o)
		if err := n.daemon.Reload(o.Config); err != nil {
			w.Errorf("with the same token: %v", err)
		}
		write("ntn_anotherone")
		if err := n.daemon.Reload(o.Config); err == nil || !strings.Contains(err.Error(), "restart the daemon") || strings.Contains(err.Error(), "ntn_") {
			w.Errorf("with another token: %v; want to be told to restart", err)
		}
	})
}

// A claim survives its agent's removal from the list; only the agent's next step is refused.
func TestReloadLeavesClaims(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		o := w.options(nil)
		n := w.start(o)
		cl := n.mustClaim("Sandman", id)
		c := o.Config
		c.Agents = []config.Agent{{Name: "Oracle"}}
		mustDo(w, n.daemon.Reload(c))
		if _, err := n.claim("Oracle", id); code(err) != denied(claim.CodeHeld) {
			w.Errorf("err = %v, want held", err)
		}
		if err := n.complete(cl); code(err) != "forbidden_agent" {
			w.Errorf("err = %v, want forbidden_agent", err)
		}
	})
}

func TestAlive(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(nil)
		w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest}) // the daemon is alive without Notion
		time.Sleep(time.Minute)
		if err := n.daemon.Alive(w.Context()); err != nil {
			w.Error(err)
		}
		n.stop()
		if err := n.daemon.Alive(w.Context()); err == nil {
			w.Error("a daemon whose journal is closed says that it is alive")
		}
	})
}
