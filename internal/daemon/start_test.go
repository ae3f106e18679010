package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/daemon"
	"dibs/internal/notion/emulator"

	"github.com/gofrs/flock"
)

func TestStartWithoutNotion(t *testing.T) {
	t.Parallel()
	for name, fault := range fewOf(2, outages()) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				first, other := w.add("first", nil), w.add("second", nil)
				o := w.options(nil)
				remove := w.notion.Inject(fault)
				start := time.Now()
				w.mentions(second(w.begin(o)))
				if took := time.Since(start); took > 25*time.Second {
					w.Errorf("without anything to show, the start failed after %v", took)
				}
				remove()
				n := w.start(o)
				cl := n.mustClaim("Sandman", first)
				n.stop()

				remove = w.notion.Inject(fault)
				time.Sleep(2 * time.Minute)
				start = time.Now()
				n = w.start(o)
				same(w, "tasks", []string{"first", "second"}, n.titles())
				if s := n.status(); !s.Mirror.Stale || s.Mirror.AgeSeconds < 120 || s.Notion.LastError == "" || s.ClaimsHeld != 1 {
					w.Errorf("status = %+v", s)
				}
				if took := time.Since(start); took > 6*time.Second {
					w.Errorf("the first answers came after %v", took)
				}
				w.refused("a claim", second(n.claim("Oracle", other)), denied(claim.CodeNotionUnavailable))
				if got, err := n.end(cl); err != nil || got.State != claim.Finishing {
					w.Errorf("complete: %q, %v; want it accepted", got.State, err)
				}
				time.Sleep(10 * time.Minute)
				remove()
				time.Sleep(16 * time.Minute) // the longest pause that is accepted from Notion
				same(w, "the task", "COMPLETED Sandman", shape(w.page(first)))
				same(w, "task log", []string{"completed: Sandman"}, w.work())
				if s := n.status(); s.Mirror.Stale || s.Notion.LastError != "" {
					w.Errorf("once Notion is back, status = %+v", s)
				}
				n.mustClaim("Oracle", other)
			})
		})
	}
}

// A state directory belongs to one tasks database: with another one the daemon does not start, and
// nothing of the first is lost. Another form of its id still means the same database.
func TestStateDirectoryOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]emulator.Fault{"with Notion": {Kind: emulator.Delay, Path: "/nowhere"}, "without Notion": {Kind: emulator.DropRequest}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				other, err := w.notion.CreateDatabase("Errands", map[string]any{
					"Name": typed("title"), "claimed_by": typed("rich_text"), "claimed_at": typed("date"), "status": typed("select"),
				})
				mustDo(w, err)
				id := w.add("held", nil)
				o := w.options(nil)
				n := w.start(o)
				cl := n.mustClaim("Sandman", id)
				n.stop()

				wrong := o
				wrong.Config.Databases.Tasks = other
				says := []string{`"Tasks" (` + w.tasks + `) in workspace "`, other, "state_dir", o.Config.StateDir, "nothing was changed"}
				if fault.Kind == emulator.Delay {
					says = append(says, `"Errands"`)
				}
				remove := w.notion.Inject(fault)
				w.mentions(second(w.begin(wrong)), says...)
				o.Config.Databases.Tasks = strings.ReplaceAll(w.tasks, "-", "")
				w.start(o).stop()
				remove()
				time.Sleep(time.Minute)

				n = w.start(o)
				same(w, "the claim", claim.Held, n.seen(cl).State)
				same(w, "the token on the page", string(cl.ID), w.page(id).Text("claim_token"))
			})
		})
	}
}

// Whoever asks whether a daemon runs, as every client does that finds none, keeps none from
// starting.
func TestLockedToLook(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		o := w.options(nil)
		w.start(o).stop()
		lock := flock.New(filepath.Join(o.Config.StateDir, "daemon.lock"), flock.SetFlag(os.O_RDONLY))
		if free, err := lock.TryRLock(); !free || err != nil {
			w.Fatal("the lock of a daemon that has ended is free:", free, err)
		}
		time.AfterFunc(50*time.Millisecond, func() { lock.Close() })
		w.start(o)
		if at := daemon.SocketOf(o.Config.StateDir); at == "" {
			w.Error("the lock of a daemon that runs names no socket")
		}
	})
}

// A daemon is stopped during a settle wait that is longer than its drain time. The next daemon does not
// refuse the same request because of the remains of the first attempt, and grants it once that is
// withdrawn.
func TestRepeatedAfterCut(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Cut off", nil)
		o := w.options(func(c *config.Config) { c.Claim.WriteWindow, c.Claim.Settle = 40*time.Second, time.Minute })
		ask := func(n *node) (api.Claim, error) {
			return call(n, api.OpClaim, api.Keyed("the same", api.ClaimRequest{Agent: "Sandman", Task: id}))
		}
		first := w.start(o)
		cut := make(chan error, 1)
		go func() { cut <- second(ask(first)) }()
		time.Sleep(5 * time.Second)
		same(w, "the page, with the claim written before the stop", "Sandman", w.page(id).Text("claimed_by"))
		first.stop()
		w.refused("the claim that could not be verified before the stop", <-cut, string(api.CodeStopping))

		next := w.start(o)
		w.refused("the same request, with the first attempt not withdrawn", second(ask(next)), denied(claim.CodeNotionUnavailable))
		time.Sleep(15 * time.Minute)
		mustDo(w, second(ask(next)))
	})
}
