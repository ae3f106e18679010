package daemon_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/arbiter/arbitertest"
	browser "dibs/internal/board"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// What another member has is passed over without a request, and so is, for a while, what it has
// just finished with; long before the mirror shows it.
func TestNextPassesOverWhatOthersHave(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		ids := []string{w.add("Mend the roof", nil), w.add("Paint the door", nil)}
		a, b := w.member("north", etcd.URL()), w.member("south", etcd.URL())
		ready := func() (ready []string) {
			list, err := b.Tasks(t.Context(), api.TaskFilter{Ready: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range list.Tasks {
				ready = append(ready, string(v.ID))
			}
			return ready
		}
		first := a.mustClaim("Sandman", ids[0])
		eventually(t, "the other member knows", func() bool { return slices.Equal(ready(), ids[1:]) })
		_, err := b.Complete(t.Context(), ids[0], api.CompleteRequest{Agent: "Sandman", Summary: "done"}, "")
		if code(err) != denied(claim.CodeHeld) || !strings.Contains(err.Error(), "through member north of the cluster: renew and finish it there") {
			t.Errorf("a finish at the wrong member: %v", err)
		}
		all, err := b.Tasks(t.Context(), api.TaskFilter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range all.Tasks {
			if string(v.ID) == ids[0] && (v.Ready || v.Code != string(claim.CodeHeld) || !strings.Contains(v.Reason, "Sandman") || v.LeaseUntil.IsZero()) {
				t.Errorf("the task that is held: %+v", v)
			}
		}
		w.notion.ResetRequests()
		second := b.mustClaim("Oracle", "")
		if string(second.Task.ID) != ids[1] {
			t.Errorf("Oracle got %q", second.Task.Title)
		}
		if err := a.complete(first); err != nil {
			t.Fatal(err)
		}
		w.notion.ResetRequests()
		if _, err := b.claim("Tank", ""); code(err) != denied(claim.CodeNothingReady) {
			t.Errorf("Tank: %v", err)
		}
		if pages := slices.DeleteFunc(w.requests(), func(r string) bool { return !strings.HasSuffix(r, "GET page") }); len(pages) > 0 {
			t.Errorf("pages were read in vain: %v", pages)
		}
		if _, err := b.Sync(t.Context(), api.SyncRequest{}, ""); err != nil {
			t.Fatal(err)
		}
		if got := b.taskStatus(ids[0]); got != "COMPLETED" {
			t.Errorf("after a sync the task is %s", got)
		}
		// What is given back is there for others once it was read.
		if _, err := b.Release(t.Context(), string(second.ID), api.StopRequest{Agent: "Oracle"}, ""); err != nil {
			t.Fatal(err)
		}
		if cl := b.mustClaim("Tank", ""); string(cl.Task.ID) != ids[1] {
			t.Errorf("Tank got %q", cl.Task.Title)
		}
	})
}

// What an agent holds through another member is shown as what it is, before the board shows
// it, and who asks for it at the wrong member is told the right one.
func TestWhatIsHeldElsewhereIsShown(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		id := w.add("Mend the roof", nil)
		var nodes []*node
		for _, name := range []string{"north", "south"} {
			o := w.memberOptions(name, etcd.URL())
			o.Config.Claim.MaxPerAgent = 1
			o.Config.Sync.Interval = 5 * time.Minute // nobody reads the board meanwhile
			nodes = append(nodes, w.start(o))
			w.Cleanup(nodes[len(nodes)-1].stop)
		}
		a, b := nodes[0], nodes[1]
		page := b.watched()
		eventually(t, "the board has the task", func() bool { return strings.Contains(page(), id) })
		cl := a.mustClaim("Sandman", id)
		eventually(t, "south knows", func() bool {
			who, err := b.Agent(t.Context(), "Sandman")
			return err == nil && len(who.Elsewhere) == 1
		})
		who, err := b.Agent(t.Context(), "Sandman")
		if err != nil || len(who.Claims) != 0 {
			t.Fatalf("whoami: %+v, %v", who, err)
		}
		held, err := b.Claims(t.Context(), "Sandman")
		if err != nil || len(held.Claims) != 0 || len(held.Elsewhere) != 1 {
			t.Fatalf("claims: %+v, %v", held, err)
		}
		for _, c := range []api.Claim{who.Elsewhere[0], held.Elsewhere[0]} {
			if c.ID != cl.ID || c.Member != "north" || c.Fence != cl.Fence || c.ExpiresAt.IsZero() || c.Task.Title != "Mend the roof" || c.Task.Status != task.InProgress {
				t.Errorf("it is shown as %+v", c)
			}
		}
		list := func(f api.TaskFilter) []api.Task {
			l, err := b.Tasks(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			return l.Tasks
		}
		if open := list(api.TaskFilter{Status: task.Open}); len(open) != 0 {
			t.Errorf("it is listed as OPEN: %+v", open)
		}
		if l := list(api.TaskFilter{Agent: "Sandman"}); len(l) != 1 || l[0].Status != task.InProgress || l[0].ClaimedBy != "Sandman" || !strings.Contains(l[0].Reason, "at north") {
			t.Errorf("listed: %+v", l)
		}
		if l, err := b.Tasks(t.Context(), api.TaskFilter{Ready: true, Agent: "Sandman"}); err != nil || !l.LimitReached {
			t.Errorf("what is ready for who may hold no more: %+v, %v", l, err)
		}
		eventually(t, "the board shows it", func() bool {
			return strings.Contains(page(), `"status":"IN_PROGRESS"`) && strings.Contains(page(), `"agent":"Sandman"`)
		})
		for _, name := range []string{id, string(cl.ID), "mine"} {
			_, err := b.Renew(t.Context(), name, api.RenewRequest{Agent: "Sandman"}, "")
			var p *api.Problem
			if !errors.As(err, &p) || p.Code != api.Code(claim.CodeHeld) || p.Member != "north" || !strings.HasSuffix(p.Detail, "through member north of the cluster: renew and finish it there") {
				t.Errorf("renewed as %s at the wrong member: %+v", name, err)
			}
		}
		_, err = b.claim("Oracle", id)
		var p *api.Problem
		if !errors.As(err, &p) || p.Member != "north" || p.Task == nil || p.Task.Status != task.InProgress || p.Task.Key == "" {
			t.Errorf("claimed at the wrong member: %+v", err)
		}
		if _, err := a.Release(t.Context(), string(cl.ID), api.StopRequest{Agent: "Sandman"}, ""); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is nobody's", func() bool {
			who, err := b.Agent(t.Context(), "Sandman")
			return err == nil && len(who.Elsewhere) == 0
		})
	})
}

// Who has lost its last claim here, and was told, and holds others at another member, is not
// told of the loss again, but where those are.
func TestLostHereAndHeldElsewhere(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		ids := []string{w.add("Mend the roof", nil), w.add("Paint the door", nil), w.add("Oil the hinge", nil)}
		var nodes []*node
		for _, name := range []string{"north", "south"} {
			o := w.memberOptions(name, etcd.URL())
			o.Config.Sync.Interval = time.Second
			nodes = append(nodes, w.start(o))
			w.Cleanup(nodes[len(nodes)-1].stop)
		}
		a, b := nodes[0], nodes[1]
		mine := func() (p api.Problem) {
			_, err := b.Renew(t.Context(), "mine", api.RenewRequest{Agent: "Sandman"}, "")
			if found, ok := errors.AsType[*api.Problem](err); ok {
				p = *found
			}
			return p
		}
		b.mustClaim("Sandman", ids[0])
		w.edit(ids[0], map[string]any{"claimed_by": text("rich_text", "Maria"), "claim_token": text("rich_text", "")})
		for range 2 { // nothing is held anywhere
			eventually(t, "it is told of the loss", func() bool { return mine().Code == api.CodeClaimLost })
		}
		for i, want := range []string{"Sandman has claimed “Paint the door” through member north of the cluster: renew and finish it there", "“Oil the hinge” (at north)"} {
			a.mustClaim("Sandman", ids[i+1])
			eventually(t, "south knows", func() bool {
				who, err := b.Agent(t.Context(), "Sandman")
				return err == nil && len(who.Elsewhere) == i+1
			})
			if p := mine(); p.Code != api.Code(claim.CodeHeld) || p.Member != "north" || !strings.Contains(p.Detail, want) {
				t.Errorf("with %d claims at north: %+v", i+1, p)
			}
		}
	})
}

// watched has a board in the browser show what the daemon says, and returns what reads all of
// it.
func (n *node) watched() (read func() string) {
	n.w.Helper()
	shown := browser.New(browser.Options{Daemon: n.Client, User: "Maria"})
	ctx, stop := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { shown.Follow(ctx) })
	server := httptest.NewServer(shown.Handler())
	n.w.Cleanup(func() {
		server.Close()
		stop()
		following.Wait()
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		n.w.Fatal(err)
	}
	visitor := http.Client{Jar: jar}
	get := func(address string) string {
		resp, err := visitor.Get(address)
		if err != nil {
			n.w.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			n.w.Fatalf("%s: %d %s, %v", address, resp.StatusCode, body, err)
		}
		return string(body)
	}
	get(shown.Link(server.URL))
	return func() string { return get(server.URL + "/board.json") }
}
