package daemon_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/claim"
	"dibs/internal/daemon"
	"dibs/internal/emulator"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// memberOptions are those of a daemon of that name in the cluster of the etcd at url.
func (w *world) memberOptions(name, url string) daemon.Options {
	return w.options(func(c *config.Config) {
		c.Cluster.Etcd, c.Cluster.Name = []string{url}, name
		c.Notion.Rate, c.Notion.Burst = 500, 500
	})
}

// anyOf has what a method of the client returned, to be compared.
func anyOf[T any](value T, err error) (any, error) { return value, err }

// Whatever is asked under a key is answered alike at each member, and done once.
func TestRepeatedAtEachMember(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		for i := range 3 {
			w.add(fmt.Sprint("Task ", i), nil)
		}
		a, b := w.member("north", etcd.URL()), w.member("south", etcd.URL())
		folder := w.TempDir()
		var held api.Claim
		for _, step := range []struct {
			what string
			ask  func(n *node, key string) (any, error)
		}{
			{"next", func(n *node, key string) (any, error) {
				cl, err := n.Claim(t.Context(), api.ClaimRequest{Agent: "Sandman"}, key)
				if n == a {
					held = cl
				}
				return cl, err
			}},
			{"renew", func(n *node, key string) (any, error) {
				return anyOf(n.Renew(t.Context(), string(held.ID), api.RenewRequest{Agent: "Sandman"}, key))
			}},
			{"comment", func(n *node, key string) (any, error) {
				return anyOf(n.Comment(t.Context(), held.Task.ID, api.CommentRequest{Agent: "Sandman", Text: "See the plan."}, key))
			}},
			{"complete", func(n *node, key string) (any, error) {
				return anyOf(n.Complete(t.Context(), string(held.ID), api.CompleteRequest{Agent: "Sandman", Summary: "done"}, key))
			}},
			{"add", func(n *node, key string) (any, error) {
				return anyOf(n.Add(t.Context(), api.AddRequest{Title: "Another"}, key))
			}},
			{"send", func(n *node, key string) (any, error) {
				return anyOf(n.Send(t.Context(), api.MessageRequest{From: "Sandman", To: "Oracle", Text: "hello"}, key))
			}},
			{"poll", func(n *node, key string) (any, error) {
				return anyOf(n.Poll(t.Context(), "Oracle", api.PollRequest{}, key))
			}},
			{"reserve", func(n *node, key string) (any, error) {
				return anyOf(n.Reserve(t.Context(), folder, []string{"name:db"}, api.ReserveRequest{Agent: "Sandman"}, key))
			}},
			{"mint", func(n *node, key string) (any, error) { return anyOf(n.Mint(t.Context(), api.MintRequest{}, key)) }},
			{"a refusal", func(n *node, key string) (any, error) {
				_, err := n.Claim(t.Context(), api.ClaimRequest{Agent: "Oracle", Task: string(held.Task.ID)}, key)
				if code(err) != denied(claim.CodeNotOpen) {
					t.Errorf("a task that is done: %v", err)
				}
				return code(err), nil
			}},
		} {
			key := "the same/" + step.what
			first, err := step.ask(a, key)
			if err != nil {
				t.Errorf("%s: %v", step.what, err)
				continue
			}
			w.notion.ResetRequests()
			for i, n := range []*node{b, a, b} {
				again, err := step.ask(n, key)
				if err != nil {
					t.Errorf("%s, repeated (%d): %v", step.what, i, err)
				} else if diff := cmp.Diff(first, again); diff != "" {
					t.Errorf("%s, repeated (%d) (-first +again):\n%s", step.what, i, diff)
				}
			}
			writes := slices.DeleteFunc(w.requests(), func(r string) bool { return r != "POST pages" && r != "PATCH page" && r != "POST comments" })
			if step.what != "renew" && slices.Contains(writes, "PATCH page") || len(w.titled("Another")) > 1 {
				t.Errorf("%s was done again: %v", step.what, writes)
			}
		}
		if n := len(w.titled("Another")); n != 1 {
			t.Errorf("%d tasks were made", n)
		}
		// The key is one agent's, and of one request.
		if _, err := b.Claim(t.Context(), api.ClaimRequest{Agent: "Sandman", TimeoutMinutes: 5}, "the same/next"); code(err) != string(api.CodeKeyReused) {
			t.Errorf("another request under the key: %v", err)
		}
		if _, err := a.Send(t.Context(), api.MessageRequest{From: "Sandman", To: "Oracle", Text: "hello"}, "its own"); err != nil {
			t.Error(err)
		}
		if cl, err := b.Claim(t.Context(), api.ClaimRequest{Agent: "Oracle"}, "its own"); err != nil || cl.Agent != "Oracle" {
			t.Errorf("the key of another agent: %+v, %v", cl, err)
		}
	})
}

// stopped holds requests to Notion until release is called, and tells of the first one.
func (w *world) stopped(kind emulator.FaultKind, method, path string) (reached <-chan struct{}, release func()) {
	seen := make(chan struct{}, 1)
	remove := w.notion.Inject(emulator.Fault{Kind: kind, Method: method, Path: path, Match: func(*http.Request, []byte) bool {
		select {
		case seen <- struct{}{}:
		default:
		}
		return true
	}})
	w.Cleanup(remove)
	return seen, remove
}

// A request that is repeated while another member works on it waits for its answer. Of one
// that was begun by a member that is gone, each kind is done once, or left to that member.
func TestRepeatedWhileWorkedOn(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		id := w.add("Mend the roof", nil)
		way := arbitertest.NewWay(t, etcd.URL())
		a, b := w.member("north", way.URL()), w.member("south", etcd.URL())
		type made struct {
			api.Added
			err error
		}
		add := func(n *node, title, key string) <-chan made {
			out := make(chan made, 1)
			go func() {
				added, err := n.Add(t.Context(), api.AddRequest{Title: title, Agent: "Sandman"}, key)
				out <- made{added, err}
			}()
			return out
		}
		reached, release := w.stopped(emulator.Stop, "POST", "/v1/pages")
		first := add(a, "Paint the door", "key 1")
		<-reached
		second := add(b, "Paint the door", "key 1")
		select {
		case m := <-second:
			t.Fatalf("the second is answered first: %+v", m)
		case <-time.After(300 * time.Millisecond):
		}
		release()
		if x, y := <-first, <-second; x.err != nil || y.err != nil || !cmp.Equal(x.Added, y.Added) || len(w.titled("Paint the door")) != 1 {
			t.Errorf("answered %+v and %+v, with %d tasks made", x, y, len(w.titled("Paint the door")))
		}

		// The page is made, and the member that made it is cut off before it knows. A claim
		// that waits for a task is cut off as well, and a comment.
		reached, release = w.stopped(emulator.StopAfter, "POST", "/v1/pages")
		lost := add(a, "Oil the hinge", "key 2")
		<-reached
		commenting, goOn := w.stopped(emulator.StopAfter, "POST", "/v1/comments")
		said := make(chan error, 1)
		comment := func(n *node) error {
			_, err := n.Comment(t.Context(), task.ID(id), api.CommentRequest{Agent: "Sandman", Text: "See the plan."}, "key 3")
			return err
		}
		go func() { said <- comment(a) }()
		<-commenting
		wanted := api.ClaimRequest{Agent: "Sandman", WaitSeconds: 60, Filter: api.Filter{Text: "window"}}
		waited := make(chan error, 1)
		go func() {
			_, err := a.Claim(t.Context(), wanted, "key 4")
			waited <- err
		}()
		eventually(t, "the claim is asked for", func() bool { return etcd.Has("key%204") })
		way.Cut()
		etcd.Expire("/members/")

		found := <-add(b, "Oil the hinge", "key 2")
		if found.err != nil || len(w.titled("Oil the hinge")) != 1 {
			t.Errorf("made at a member that is gone: %+v, with %d tasks made", found, len(w.titled("Oil the hinge")))
		}
		if err := comment(b); code(err) != denied(claim.CodeNotionUnavailable) || !strings.Contains(err.Error(), "north") || !strings.Contains(err.Error(), "away") {
			t.Errorf("a comment of a member that is gone: %v", err)
		}
		w.add("Clean the window", nil)
		if _, err := b.Sync(t.Context(), api.SyncRequest{}, ""); err != nil {
			t.Fatal(err)
		}
		if cl, err := b.Claim(t.Context(), wanted, "key 4"); err != nil || cl.Task.Title != "Clean the window" {
			t.Errorf("a claim that a member waits for that is gone: %+v, %v", cl, err)
		}
		release()
		goOn()
		way.Mend()
		w.add("Measure the window", nil)
		if _, err := a.Sync(t.Context(), api.SyncRequest{}, ""); err != nil {
			t.Fatal(err)
		}
		<-lost
		if err := <-said; err != nil {
			t.Errorf("the comment: %v", err)
		}
		if err := <-waited; code(err) != denied(claim.CodeHeld) || !strings.Contains(err.Error(), "idempotency key") {
			t.Errorf("the member that is back goes on with a request that another one did: %v", err)
		}
		eventually(t, "the others are told of the comment", func() bool { return comment(b) == nil })
		if len(w.titled("Oil the hinge")) != 1 || len(w.notion.Comments(id)) != 1 {
			t.Errorf("%d tasks were made, and %d comments", len(w.titled("Oil the hinge")), len(w.notion.Comments(id)))
		}
	})
}

// Without etcd a request is refused that may have been made elsewhere, and not one that
// cannot have been, or that was answered here. What is answered then the others learn when
// etcd is back, also after a restart.
func TestRepeatedWithoutEtcd(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		id := w.add("Mend the roof", nil)
		way := arbitertest.NewWay(t, etcd.URL())
		o := w.memberOptions("north", way.URL())
		a, b := w.start(o), w.member("south", etcd.URL())
		defer func() { a.stop() }()
		cl := a.mustClaim("Sandman", id)
		made := a.mustAdd(api.AddRequest{Title: "Paint the door"}, "key 1")
		way.Cut()
		complete := func(n *node) (api.Claim, error) {
			return n.Complete(t.Context(), string(cl.ID), api.CompleteRequest{Agent: "Sandman", Summary: "done"}, "key 2")
		}
		done, err := complete(a)
		if err != nil {
			t.Errorf("a finish without etcd: %v", err)
		}
		if again := a.mustAdd(api.AddRequest{Title: "Paint the door"}, "key 1"); !cmp.Equal(made, again) {
			t.Errorf("what was answered here: %+v, not %+v", again, made)
		}
		_, err = a.Add(t.Context(), api.AddRequest{Title: "Oil the hinge"}, "key 3")
		if code(err) != denied(claim.CodeArbiterUnavailable) || !strings.Contains(err.Error(), "idempotency key") {
			t.Errorf("what may have been made elsewhere: %v", err)
		}
		if _, err := a.Send(t.Context(), api.MessageRequest{To: "Oracle", Text: "hello"}, "key 4"); code(err) != denied(claim.CodeArbiterUnavailable) {
			t.Errorf("a message that may have been sent elsewhere: %v", err)
		}
		if n := len(w.titled("Oil the hinge")); n != 0 {
			t.Errorf("%d were made", n)
		}
		way.Mend()
		eventually(t, "the others learn of the answer", func() bool {
			again, err := complete(b)
			return err == nil && cmp.Equal(done, again)
		})
		if made, err := b.Add(t.Context(), api.AddRequest{Title: "Oil the hinge"}, "key 3"); err != nil || made.Task.Title == "" {
			t.Errorf("what was refused: %v", err)
		}

		// What was begun with etcd, and answered without, is told by the next run.
		reached, release := w.stopped(emulator.Stop, "POST", "/v1/comments")
		comment := func(n *node) (api.Commented, error) {
			return n.Comment(t.Context(), task.ID(id), api.CommentRequest{Agent: "Sandman", Text: "See the plan."}, "key 5")
		}
		var first api.Commented
		var said sync.WaitGroup
		said.Go(func() {
			var err error
			if first, err = comment(a); err != nil {
				t.Errorf("the comment: %v", err)
			}
		})
		<-reached
		way.Cut()
		release()
		said.Wait()
		ended := make(chan struct{})
		go func() { defer close(ended); a.stop() }()
		eventually(t, "it stops", func() bool { _, err := a.Status(t.Context()); return err != nil })
		way.Mend()
		<-ended
		a = w.start(o)
		eventually(t, "the others learn of the comment", func() bool {
			again, err := comment(b)
			return err == nil && cmp.Equal(first, again)
		})
		if n := len(w.notion.Comments(id)); n != 1 {
			t.Errorf("%d comments", n)
		}
	})
}

// A claim that was made for a request which has its answer gets its task again in etcd, if
// what was there of it has ended.
func TestRowOfAnAnsweredRequestEnds(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		id := w.add("Mend the roof", nil)
		o := w.memberOptions("north", etcd.URL())
		a := w.start(o)
		defer func() { a.stop() }()
		cl, err := a.Claim(t.Context(), api.ClaimRequest{Agent: "Sandman", Task: id}, "a key")
		if err != nil {
			t.Fatal(err)
		}
		a.stop()
		etcd.Expire("/tasks/")
		a = w.start(o)
		if err := a.complete(cl); err != nil {
			t.Error(err)
		}
		if got := w.page(id).Select("status"); got != "COMPLETED" {
			t.Errorf("the page is %s", got)
		}
	})
}
