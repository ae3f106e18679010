package daemon_test

import (
	"slices"
	"strings"
	"testing"

	"dibs/internal/api"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/claim"
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
		if code(err) != denied(claim.CodeHeld) || !strings.Contains(err.Error(), "through another daemon of the cluster") {
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
