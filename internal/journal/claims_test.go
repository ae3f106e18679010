package journal_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// fill sets every field of the struct behind v to something, so that a field
// that is not stored shows.
func fill(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = t0.Add(123456789 * time.Nanosecond)
		return
	case *task.Priority:
		*x = task.Low
		return
	case *map[string][]task.ID:
		*x = map[string][]task.ID{"Project \x00": {"a", "b"}}
		return
	case *task.Fields: // what JSON knows
		*x = task.Fields{"Sprint": 42.0, "Area \x00": []any{"a", nil}, "Due": map[string]any{"start": "2026-11-30"}, "Done": true}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.String:
		v.SetString("some “text”\n")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(12345678901)
	default:
		panic("fill: " + v.Kind().String())
	}
}

func TestAllFieldsAreStored(t *testing.T) {
	j := newJournal(t)
	var c claim.Hold
	fill(reflect.ValueOf(&c).Elem())
	c.Task.Unblocks = 0 // the mirror counts anew
	e := claim.Fact{}
	fill(reflect.ValueOf(&e).Elem())
	e.ID, e.Told, e.Seen = claim.NewFactID(t0), 0, false // of such a kind agents are not told
	save(t, j, c, e)
	do(t, j.PutTasks(t.Context(), []task.Task{c.Task}))
	j = reopen(t, j)

	gotClaim, err := j.Hold(t.Context(), c.ID)
	do(t, err)
	if diff := cmp.Diff(c, gotClaim, anyFence); diff != "" {
		t.Errorf("claim (-saved +read):\n%s", diff)
	}
	if diff := cmp.Diff([]claim.Fact{e}, events(t, j, journal.FactFilter{}), anyFence); diff != "" {
		t.Errorf("events (-saved +read):\n%s", diff)
	}
	if diff := cmp.Diff([]task.Task{c.Task}, tasks(t, j), anyFence); diff != "" {
		t.Errorf("task (-put +read):\n%s", diff)
	}
}

// A task's claims come newest first. An attempt has written nothing, whatever it says of itself.
func TestClaimsOfATask(t *testing.T) {
	j := newJournal(t)
	first := ended(grant(t, j, attempt("Oracle", "a", t0), t0), claim.EndCompleted, t0.Add(time.Hour))
	save(t, j, first)
	grant(t, j, attempt("Oracle", "b", t0), t0)
	second := attempt("Sandman", "a", t0.Add(4*time.Second))
	second.State = claim.Held
	reserve(t, j, second, second.Reserved)
	second.State = claim.Reserved
	got, err := j.TaskClaims(t.Context(), "a")
	do(t, err)
	same(t, "TaskClaims", []claim.Hold{second, first}, got, anyFence)
}

func TestEndedClaimsStayEnded(t *testing.T) {
	j := newJournal(t)
	c := grant(t, j, attempt("Sandman", "a", t0), t0)
	over := ended(c, claim.EndCompleted, t0.Add(time.Hour))
	save(t, j, over)
	for _, again := range []claim.Hold{c, ended(c, claim.EndLost, t0.Add(2*time.Hour)), over} {
		if err := j.Save(t.Context(), claim.Change{Holds: []claim.Hold{again}}); !errors.Is(err, journal.ErrEnded) {
			t.Errorf("Save as %s %s = %v, want ErrEnded", again.State, again.Ending, err)
		}
	}
	got, err := reopen(t, j).Hold(t.Context(), c.ID)
	do(t, err)
	same(t, "claim", over, got, anyFence)
}

func TestSaveRefuses(t *testing.T) {
	j := newJournal(t)
	c := grant(t, j, attempt("Sandman", "a", t0), t0)
	tests := map[string]func(c *claim.Hold){
		"another task":  func(c *claim.Hold) { c.Task.ID = "b" },
		"no task":       func(c *claim.Hold) { c.Task = task.Task{} },
		"another agent": func(c *claim.Hold) { c.Agent = "Oracle" },
		"the end of another": func(c *claim.Hold) {
			*c = ended(*c, claim.EndLost, t0)
			c.Task.ID = "b"
		},
		"an end without when": func(c *claim.Hold) { c.State = claim.Ended },
	}
	for name, alter := range tests {
		t.Run(name, func(t *testing.T) {
			altered := c
			alter(&altered)
			if err := j.Save(t.Context(), claim.Change{Holds: []claim.Hold{altered}}); err == nil {
				t.Error("Save succeeded")
			}
			same(t, "live claims", []claim.Hold{c}, live(t, j), anyFence)
		})
	}
}

// A claim that was stored under a name in another form of Unicode is still its agent's.
func TestOpenRenamesHolds(t *testing.T) {
	path := t.TempDir() + "/journal.db"
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().UTC()
		j := open(t, path)
		c := grant(t, j, attempt("Jo\u0308rg", "a", now), now)
		j = reopen(t, j)
		c.Agent = "J\u00f6rg"
		same(t, "live claims", []claim.Hold{c}, live(t, j), anyFence)
		if _, refusal, err := j.Reserve(t.Context(), attempt(c.Agent, "b", now), now, 1); err != nil || refusal == nil {
			t.Errorf("Reserve = %v, %v, want a refusal: the agent has a task", refusal, err)
		}
		save(t, j, ended(c, claim.EndCompleted, now))
	})
}

func TestOpenEndsWhatWasOnlyReserved(t *testing.T) {
	path := t.TempDir() + "/journal.db"
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().UTC()
		j := open(t, path)
		var others []claim.Hold
		for i, state := range []claim.State{claim.Writing, claim.Held, claim.Finishing} {
			c := grant(t, j, attempt("Sandman", task.ID(fmt.Sprint(i)), now), now)
			c.State = state
			save(t, j, c)
			others = append(others, c)
		}
		past := attempt("Oracle", "past", now.Add(-time.Hour))
		future := attempt("Oracle", "future", now.Add(time.Hour)) // Notion's clock is ahead of this one
		for _, c := range []claim.Hold{past, future} {
			reserve(t, j, c, c.Reserved)
			refuse(t, j, attempt("Sandman", c.Task.ID, c.Reserved), c.Reserved, 0)
		}
		time.Sleep(time.Minute)
		j = reopen(t, j)

		same(t, "live claims", others, live(t, j), anyFence)
		for _, test := range []struct {
			claim claim.Hold
			ended time.Time
		}{{past, now.Add(time.Minute)}, {future, future.Reserved}} {
			want := ended(test.claim, claim.EndNotGranted, test.ended)
			got, err := j.Hold(t.Context(), want.ID)
			do(t, err)
			if got.Detail == "" {
				t.Error("the claim does not say why it ended")
			}
			want.Detail = got.Detail
			same(t, "claim", want, got, anyFence)
			reserve(t, j, attempt("Sandman", want.Task.ID, now), now) // the task is free
			last := events(t, j, journal.FactFilter{Claim: want.ID, Newest: true, Limit: 1})
			if len(last) != 1 || last[0].Kind != claim.KindContested || last[0].Count != 1 {
				t.Errorf("last event = %+v, want one denial summed up", last)
			}
		}
	})
}

// A loss is the agent's last unless it was granted another claim; to ask for one is not enough.
func TestTheLastLoss(t *testing.T) {
	j := newJournal(t)
	c := grant(t, j, attempt("Sandman", "a", t0), t0)
	save(t, j, ended(c, claim.EndLost, t0))
	last := func(want bool) {
		t.Helper()
		losses, err := j.Losses(t.Context(), "Sandman")
		if err != nil || len(losses) != 1 || losses[0].Last != want {
			t.Errorf("Losses = %+v, %v; want one, last = %v", losses, err, want)
		}
	}
	later := attempt("Sandman", "b", t0.Add(time.Second))
	reserve(t, j, later, later.Reserved)
	last(true)
	save(t, j, held(later, later.Reserved))
	last(false)
}
