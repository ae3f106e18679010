package claimtest

import (
	"time"

	"dibs/internal/claim"

	"github.com/google/go-cmp/cmp"
)

// tries checks that the tries at a task are kept until a fact says that they are over.
func (t *ledgerTest) tries() {
	wants := func(n int, want ...claim.Try) {
		t.Helper()
		got, err := t.Tries(t.ctx, pageID(n))
		if err != nil || len(got) != len(want) || len(want) > 0 && !cmp.Equal(want, got) {
			t.Errorf("tries at task %d: %+v, %v; want %+v", n, got, err, want)
		}
	}
	made := 0
	event := func(n int, kind claim.Kind, tried claim.Tried) claim.Fact {
		made++
		at := ledgerTime.Add(time.Duration(made) * time.Minute)
		return claim.Fact{ID: claim.NewFactID(at), At: at, Kind: kind, Task: pageID(n), Agent: "Sandman", Holder: "Ghost", Summary: "no ladder", Tried: tried}
	}
	record := func(e claim.Fact) {
		t.Helper()
		if err := t.Save(t.ctx, claim.Change{Facts: []claim.Fact{e}}); err != nil {
			t.Fatal(err)
		}
	}
	wants(1)
	failed := event(1, claim.KindFailed, claim.TriedAgain)
	t.save(ended(held(t.reserve(t.attempt("Sandman", 1)))), failed)
	swept, overridden := event(1, claim.KindSwept, claim.TriedAgain), event(1, claim.KindOverridden, claim.TriedAgain)
	record(swept)
	record(overridden)
	record(overridden) // recorded twice, counted once
	record(event(2, claim.KindFailed, claim.TriedOver))
	record(event(1, claim.KindGranted, ""))
	wants(1,
		claim.Try{Agent: "Sandman", At: failed.At, Failed: true, Why: "no ladder"},
		claim.Try{Agent: "Ghost", At: swept.At, Why: "no ladder"},
		claim.Try{Agent: "Ghost", At: overridden.At, Why: "no ladder"})
	wants(2)
	record(event(1, claim.KindReopened, claim.TriedOver))
	wants(1)
}
