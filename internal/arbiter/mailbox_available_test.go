package arbiter_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/inbox"
	"dibs/internal/task"
)

// However many poll, and however slow etcd is, all are told that there are tasks, and none twice,
// also where it was not known whether some were told and everything is done again.
func TestManyPollersAreTold(t *testing.T) {
	const many = 150
	etcd := arbitertest.Start(t)
	way := arbitertest.NewWay(t, etcd.URL())
	a, b := newPostbox(t, postboxConfig{endpoint: way.URL()}), newPostbox(t, postboxConfig{endpoint: etcd.URL()})
	took := func(agent string) []string {
		t.Helper()
		said, ids, err := b.take(func(r *inbox.Take) { r.Agent, r.Available = agent, 1 })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.AckTriggers(t.Context(), agent, ids); err != nil {
			t.Fatal(err)
		}
		return said
	}
	agent := func(n int) string { return fmt.Sprintf("agent-%03d", n) }
	for n := range many {
		took(agent(n)) // what is told at a first poll
	}
	one := &task.Task{ID: taskOne, Status: task.Blocked, Edited: time.Now()}
	a.tell(boardOf(one))

	one.Edited, one.Status = one.Edited.Add(time.Minute), task.Open
	way.MuteAt("available/" + agent(many/2))
	if _, err := a.TellBoard(t.Context(), boardOf(one)); err == nil {
		t.Fatal("an answer was lost, and nothing is said of it")
	}
	if said := took(agent(0)); len(said) > 0 {
		t.Errorf("before all are told one has %q", said)
	}
	way.Mend()
	wait(t, "etcd is back", func() bool { return a.etcd.Probe(t.Context()) == nil })
	way.Slow(20 * time.Millisecond)
	a.tell(boardOf(one))
	for n := range many {
		if said := took(agent(n)); !slices.Equal(said, []string{"tasks_available "}) {
			t.Errorf("%s was told %q", agent(n), said)
		}
		if said := took(agent(n)); len(said) > 0 {
			t.Errorf("%s was told again: %q", agent(n), said)
		}
	}
}
