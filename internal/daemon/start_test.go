package daemon_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/daemon"
	"dibs/internal/door/server"
	"dibs/internal/notion/emulator"

	"github.com/gofrs/flock"
	"github.com/google/go-cmp/cmp"
)

func TestStartWithoutNotion(t *testing.T) {
	t.Parallel()
	for name, fault := range fewOf(2, outages()) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				first, second := w.add("first", nil), w.add("second", nil)
				o := w.options(nil)
				remove := w.notion.Inject(fault)
				start := time.Now()
				if d, err := daemon.Start(w.Context(), o); err == nil {
					w.Error("started without Notion, and without anything to show")
					d.Close()
				} else if took := time.Since(start); took > 25*time.Second || strings.Contains(err.Error(), "\n") {
					w.Errorf("err = %v after %v, want one line, and soon", err, took)
				}
				remove()
				n := w.start(o)
				cl := n.mustClaim("Sandman", first)
				n.stop()

				remove = w.notion.Inject(fault)
				time.Sleep(2 * time.Minute)
				start = time.Now()
				n = w.start(o)
				if diff := cmp.Diff([]string{"first", "second"}, n.titles()); diff != "" {
					w.Errorf("tasks (-want +got):\n%s", diff)
				}
				if s := n.status(); !s.Mirror.Stale || s.Mirror.AgeSeconds < 120 || s.Notion.LastError == "" || s.ClaimsHeld != 1 {
					w.Errorf("status = %+v", s)
				}
				if took := time.Since(start); took > 6*time.Second {
					w.Errorf("the first answers came after %v", took)
				}
				if _, err := n.claim("Oracle", second); code(err) != denied(claim.CodeNotionUnavailable) {
					w.Errorf("claim = %v, want notion_unavailable", err)
				}
				if got, err := client.Do(w.Context(), n.Client, api.OpComplete, api.On(string(cl.ID), "", api.CompleteRequest{})); err != nil || got.State != claim.Finishing {
					w.Errorf("complete: %q, %v; want it accepted", got.State, err)
				}
				time.Sleep(10 * time.Minute)
				remove()
				time.Sleep(16 * time.Minute) // the longest pause that is accepted from Notion
				if got := w.page(first).Select("status"); got != "COMPLETED" {
					w.Errorf("status = %s", got)
				}
				if diff := cmp.Diff([]string{"completed: Sandman"}, w.work()); diff != "" {
					w.Errorf("task log (-want +got):\n%s", diff)
				}
				if s := n.status(); s.Mirror.Stale || s.Notion.LastError != "" {
					w.Errorf("once Notion is back, status = %+v", s)
				}
				n.mustClaim("Oracle", second)
			})
		})
	}
}

// A daemon that is stopped while it reads a large board stops at once.
func TestStopWhileTheBoardIsRead(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		for i := range 3000 {
			w.add(fmt.Sprint("Task ", i), nil)
		}
		n := w.daemon(nil)
		if n.status().Mirror.Syncing == nil {
			w.Fatal("the board is read already")
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := client.Do(context.Background(), n.Client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", WaitSeconds: 3600}))
			if err == nil {
				w.Error("got a claim from a stopped daemon")
			}
		})
		time.Sleep(time.Second)
		start := time.Now()
		n.stop()
		wg.Wait()
		if took := time.Since(start); took > 2*time.Second {
			w.Errorf("stopping took %v", took)
		}
	})
}

func TestStateSurvivesAnOrderlyStop(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		o := w.options(nil)
		n := w.start(o)
		cl := n.mustClaim("Sandman", id)
		n.stop()
		n = w.start(o)
		if _, err := n.claim("Oracle", id); code(err) != denied(claim.CodeHeld) {
			w.Errorf("err = %v, want held", err)
		}
		if err := n.complete(cl); err != nil {
			w.Error(err)
		}
	})
}

// A state directory belongs to one tasks database: with another one the daemon does not start, and
// nothing of the first is lost.
func TestStateDirectoryOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	for name, without := range map[string]bool{"": false, "without Notion": true} {
		t.Run("refused "+name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				other, err := w.notion.CreateDatabase("Errands", map[string]any{
					"Name": map[string]any{"title": map[string]any{}}, "claimed_by": map[string]any{"rich_text": map[string]any{}},
					"claimed_at": map[string]any{"date": map[string]any{}}, "status": map[string]any{"select": map[string]any{}},
				})
				if err != nil {
					w.Fatal(err)
				}
				id := w.add("held", nil)
				o := w.options(nil)
				n := w.start(o)
				cl := n.mustClaim("Sandman", id)
				n.stop()

				wrong := o
				wrong.Config.Databases.Tasks, wrong.Listener = other, server.NewPipe()
				remove := func() {}
				if without {
					remove = w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest})
				}
				_, err = daemon.Start(w.Context(), wrong)
				says := []string{`"Tasks" (` + w.tasks + `) in workspace "`, other, "state_dir", o.Config.StateDir, "nothing was changed"}
				if !without {
					says = append(says, `"Errands"`)
				}
				for _, want := range says {
					if err == nil || !strings.Contains(err.Error(), want) {
						w.Fatalf("start = %v, want it refused, and %s", err, want)
					}
				}
				remove()
				time.Sleep(time.Minute)

				n = w.start(o)
				if got, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), After: api.EventsFuture}); err != nil || got.State != claim.Held || w.page(id).Text("claim_token") != string(cl.ID) {
					w.Errorf("the claim: %s, %v; the page shows %q", got.State, err, w.page(id).Text("claim_token"))
				}
			})
		})
	}
}

// Another form of its id still means the same database.
func TestStateDirectoryOfTheSameDatabase(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		o := w.options(nil)
		w.start(o).stop()
		o.Config.Databases.Tasks = strings.ReplaceAll(w.tasks, "-", "")
		w.start(o).stop()
		defer w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest})()
		w.start(o).stop()
	})
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
