package daemon_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"dibs/internal/api"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/claim"
)

// clone makes a folder that is a clone of where, as far as anybody looks.
func (w *world) clone(where string) string {
	w.Helper()
	dir := w.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o700); err != nil {
		w.Fatal(err)
	}
	for name, content := range map[string]string{"HEAD": "ref: refs/heads/main\n", "config": "[remote \"origin\"]\n\turl = " + where + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, ".git", name), []byte(content), 0o600); err != nil {
			w.Fatal(err)
		}
	}
	return dir
}

// What is reserved at one member is in the way at the others, until it or its claim ends.
func TestReservationsInACluster(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		id := w.add("Mend the roof", nil)
		way := arbitertest.NewWay(t, etcd.URL())
		a, b := w.member("north", way.URL()), w.member("south", etcd.URL())
		here, there := w.clone("https://maria:secret@example.org/acme/api.git"), w.clone("git@example.org:acme/api")
		cl := a.mustClaim("Sandman", id)
		reserve := func(n *node, agent, folder string, body api.ReserveRequest, patterns ...string) (api.Reservation, error) {
			body.Agent = agent
			return n.Reserve(t.Context(), folder, patterns, body, "")
		}
		made, err := reserve(a, "Sandman", here, api.ReserveRequest{Claim: string(cl.ID)}, "src/**", "name:db")
		if err != nil || made.Member != "north" {
			t.Fatalf("%+v, %v", made, err)
		}
		if etcd.Holds("secret") {
			t.Error("a password is in etcd")
		}
		_, err = reserve(b, "Oracle", there, api.ReserveRequest{}, "src/a.go")
		var p *api.Problem
		if !errors.As(err, &p) || p.Code != api.Code(claim.CodeReserved) || p.Holder != "Sandman" || p.Pattern != "src/**" || p.ExpiresAt.IsZero() || p.Reservation != made.ID {
			t.Errorf("at another member: %+v, %v", p, err)
		}
		touch := func(folder string) error {
			_, err := b.MayTouch(t.Context(), "Oracle", folder, "src/a.go")
			return err
		}
		eventually(t, "it is known", func() bool { return code(touch(there)) == denied(claim.CodeReserved) })
		if err := touch(w.clone("git@example.org:acme/web")); err != nil {
			t.Errorf("a file of another repository: %v", err)
		}
		list, err := b.Reservations(t.Context(), "")
		if err != nil || len(list.Reservations) != 1 || list.Reservations[0].Member != "north" || list.Reservations[0].Agent != "Sandman" {
			t.Errorf("listed at another member: %+v, %v", list, err)
		}
		if err := a.complete(cl); err != nil {
			t.Error(err)
		}
		eventually(t, "it ends with its claim", func() bool {
			_, err := reserve(b, "Oracle", there, api.ReserveRequest{}, "src/a.go")
			return err == nil
		})

		var all sync.WaitGroup
		var won atomic.Int32
		for i := range 10 {
			all.Go(func() {
				n := []*node{a, b}[i%2]
				if _, err := reserve(n, fmt.Sprint("agent-", i), here, api.ReserveRequest{}, fmt.Sprint("name:", i), "name:one"); err == nil {
					won.Add(1)
				} else if code(err) != denied(claim.CodeReserved) {
					t.Error(err)
				}
			})
		}
		if all.Wait(); won.Load() != 1 {
			t.Errorf("%d agents have reserved it", won.Load())
		}

		// Without etcd nothing is reserved, and what is known is answered.
		mine, err := reserve(a, "Sandman", here, api.ReserveRequest{}, "name:mine")
		if err != nil {
			t.Fatal(err)
		}
		way.Cut()
		if _, err := reserve(a, "Sandman", here, api.ReserveRequest{}, "name:other"); code(err) != denied(claim.CodeArbiterUnavailable) || !strings.Contains(err.Error(), "nothing is reserved") {
			t.Errorf("reserved without etcd: %v", err)
		}
		if _, err := a.MayTouch(t.Context(), "Sandman", here, "src/a.go"); code(err) != denied(claim.CodeReserved) {
			t.Errorf("what is known: %v", err)
		}
		if _, err := a.Unreserve(t.Context(), mine.ID, ""); err != nil {
			t.Errorf("given back without etcd: %v", err)
		}
		way.Mend()
		eventually(t, "the others learn that it was given back", func() bool {
			_, err := reserve(b, "Oracle", there, api.ReserveRequest{}, "name:mine")
			return err == nil
		})
	})
}
