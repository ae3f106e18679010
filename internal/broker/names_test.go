package broker_test

import (
	"context"
	"iter"
	"slices"
	"testing"
	"time"

	"dibs/internal/broker"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// board is a mirror with some tasks, of which nothing else is asked.
type board struct {
	broker.Mirror
	tasks []task.Task
}

func (board) Task(task.ID) (task.Task, bool) { return task.Task{}, false }

func (b board) Tasks() iter.Seq[task.Task] { return slices.Values(b.tasks) }

// minter gives out the first of its names that is free.
type minter struct{ names []string }

func (minter) SessionName(context.Context, int, string, time.Time) (string, time.Time, error) {
	return "", time.Time{}, nil
}

func (m minter) MintName(_ context.Context, how task.Mint) (string, bool, error) {
	i := slices.IndexFunc(m.names, how.Free)
	return m.names[i], true, nil
}

// A name that is on a task in Notion, or in the configuration, belongs to somebody, wherever
// that one is.
func TestNamesOnTheBoardAreTaken(t *testing.T) {
	b := broker.New(broker.Config{
		Mirror: board{tasks: []task.Task{{ID: "a", ClaimedBy: "agent-HELD", Status: task.InProgress}, {ID: "b", ClaimedBy: "agent-DONE", Status: task.Completed}}},
		Names:  minter{[]string{"agent-HELD", "agent-DONE", "agent-CONF", "other-7K9X", "agent-FREE"}},
		Naming: broker.Naming{Prefix: "agent", Keep: time.Hour},
		Agents: []broker.Agent{{Name: "agent-*"}, {Name: "agent-CONF"}},
		Clock:  testkit.Clock{},
	})
	for _, session := range []string{"", "a"} {
		if got, err := b.Mint(t.Context(), broker.Caller{UID: 1000}, session); got.Agent != "agent-FREE" || !got.Minted || err != nil {
			t.Errorf("session %q: minted %+v, %v; want agent-FREE", session, got, err)
		}
	}
}
