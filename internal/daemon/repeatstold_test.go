package daemon_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/claim"
	"dibs/internal/emulator"
	"dibs/internal/task"
)

// A member says that it is there before anything that may take long: else it would count as gone,
// and what it has begun be done elsewhere.
func TestMemberSaysFirstThatItIsThere(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		b := w.member("south", etcd.URL())
		way := arbitertest.NewWay(t, etcd.URL())
		way.MuteAt("/begun/") // it asks what an earlier run has begun, and gets no answer
		w.member("north", way.URL())
		t.Cleanup(way.Mend)
		eventually(t, "it is listed", func() bool {
			c, err := b.Cluster(t.Context())
			return err == nil && slices.ContainsFunc(c.Members, func(m api.Member) bool { return m.Name == "north" })
		})
	})
}

// Requests that etcd could not be asked about are asked again just when the others are told that
// nothing came of them: they are not told so any more of those, and do them no second time.
func TestAskedAgainWhileOthersAreTold(t *testing.T) {
	const many = 8
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		id := w.add("Mend the roof", nil)
		way := arbitertest.NewWay(t, etcd.URL())
		a, b := w.member("north", way.URL()), w.member("south", etcd.URL())
		comment := func(n *node, i int) error {
			_, err := n.Comment(t.Context(), task.ID(id), api.CommentRequest{Agent: "Sandman", Text: fmt.Sprint("Comment ", i)}, fmt.Sprint("again-", i))
			return err
		}
		way.Cut()
		for i := range many {
			if err := comment(a, i); code(err) != denied(claim.CodeArbiterUnavailable) {
				t.Fatalf("a comment without etcd: %v", err)
			}
		}
		_, release := w.stopped(emulator.Stop, "POST", "/v1/comments")
		way.Slow(100 * time.Millisecond)
		telling := way.Sees("/again-")
		way.Mend()
		select {
		case <-telling:
		case <-time.After(20 * time.Second):
			t.Fatal("the others are not told")
		}
		said := make(chan error, many)
		for i := range many {
			go func() { said <- comment(a, i) }()
		}
		begun := func() bool {
			keys := etcd.Keys(t, "/dibs/")
			return len(slices.DeleteFunc(keys, func(k string) bool { return !strings.Contains(k, "/requests/") || !strings.Contains(k, "/again-") })) == many
		}
		eventually(t, "all are begun again", begun)
		since := time.Now()
		eventually(t, "the others have been told", func() bool { return time.Since(since) > 3*time.Second })
		if !begun() {
			t.Error("what is being worked on is forgotten")
		}
		release()
		for range many {
			if err := <-said; err != nil {
				t.Error(err)
			}
		}
		for i := range many {
			if err := comment(b, i); err != nil {
				t.Errorf("comment %d at another member: %v", i, err)
			}
		}
		if n := len(w.notion.Comments(id)); n != many {
			t.Errorf("%d comments, want %d", n, many)
		}
	})
}
