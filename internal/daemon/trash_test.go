package daemon_test

import (
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
)

// home is the page of the emulator on which the databases lie.
const home = "9c1f0b6e-2a47-81d0-b3c5-7e6d5f4a3b21"

// TestBoardInTheTrash puts the board, or the page that it lies on, into Notion's trash. That is one
// state of the board: refusals and the status name it, nothing is written, and Notion is asked no
// more often because agents ask. Once it is restored, everything goes on.
func TestBoardInTheTrash(t *testing.T) {
	t.Parallel()
	for name, noticed := range map[string]func(w *world, n *node, free string) error{
		"by a claim": func(w *world, n *node, free string) error { _, err := n.claim("Sandman", free); return err },
		"by next": func(w *world, n *node, _ string) error {
			_, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman"}, "")
			return err
		},
		"by the interval, as a task is held": func(w *world, n *node, free string) error {
			time.Sleep(20 * time.Second)
			if s := n.status(); len(s.Warnings) == 0 {
				w.Error("the status warns of nothing")
			}
			_, err := n.claim("Sandman", free)
			return err
		},
		"by a sync": func(w *world, n *node, _ string) error {
			_, err := n.Sync(w.Context(), api.SyncRequest{Full: true}, "")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				held, free := w.add("held", nil), w.add("free", nil)
				w.add("more", nil)
				n := w.daemon(nil)
				cl := n.mustClaim("Oracle", held)
				time.Sleep(time.Minute)
				mustDo(w, w.notion.TrashPage(home))
				w.notion.ResetRequests()
				sent := func(kind string) (n int) {
					for _, r := range w.requests() {
						if strings.HasPrefix(r, kind) {
							n++
						}
					}
					return n
				}
				said := func(what string, err error) {
					w.Helper()
					if code(err) != string(claim.CodeNotionRefused) || !strings.Contains(err.Error(), "is in the trash: restore it") {
						w.Errorf("%s = %v, want notion_refused and the trash", what, err)
					}
				}
				said(name, noticed(w, n, free))
				for range 3 {
					_, err := n.claim("Eve", free)
					said("another claim", err)
				}
				if n := sent("PATCH"); n > 0 {
					w.Errorf("%d writes to a board in the trash", n)
				}
				w.notion.ResetRequests()
				time.Sleep(5 * time.Minute)
				if asked := sent("GET data_sources/"); asked < 4 || asked > 5 {
					w.Errorf("asked %d times in five minutes: %q", asked, w.requests())
				}
				if s := n.status(); len(s.Warnings) == 0 || !strings.Contains(s.Warnings[0], "is in the trash") {
					w.Errorf("warnings %q", s.Warnings)
				}
				mustDo(w, w.notion.RestorePage(home))
				time.Sleep(80 * time.Second)
				if s := n.status(); len(s.Warnings) > 0 {
					w.Errorf("restored, warnings %q", s.Warnings)
				}
				mustDo(w, n.complete(cl))
				n.mustClaim("Sandman", free)
			})
		})
	}
}
