package journal_test

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal/journaltest"
	"dibs/internal/task"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// model is what a ledger does, in the plainest way: the claims that live, and
// which of them has which task.
type model struct {
	live    map[claim.ID]claim.Hold
	holders map[task.ID]claim.ID
}

// free reports whether a new claim may have the task.
func (m *model) free(id task.ID, now time.Time) bool {
	holder, taken := m.live[m.holders[id]]
	return !taken || holder.State == claim.Held && !now.Before(holder.StaleAt)
}

func (m *model) reserve(c claim.Hold, now time.Time, limit int) *claim.Refusal {
	if !m.free(c.Task.ID, now) {
		holder := m.live[m.holders[c.Task.ID]]
		return &claim.Refusal{Holder: &holder}
	}
	others := 0
	for id, holder := range m.holders {
		if id != c.Task.ID && m.live[holder].Agent == c.Agent {
			others++
		}
	}
	if limit > 0 && others >= limit {
		return &claim.Refusal{Limit: true}
	}
	m.live[c.ID], m.holders[c.Task.ID] = c, c.ID
	return nil
}

func (m *model) save(c claim.Hold) {
	holder, taken := m.holders[c.Task.ID]
	m.live[c.ID] = c
	switch c.State {
	case claim.Writing, claim.Held, claim.Finishing:
		if !taken {
			m.holders[c.Task.ID] = c.ID
		}
		return
	case claim.Ended:
		delete(m.live, c.ID)
	}
	if holder == c.ID {
		delete(m.holders, c.Task.ID)
	}
}

// list is the live claims, oldest first.
func (m *model) list() []claim.Hold {
	var out []claim.Hold
	for _, c := range m.live {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b claim.Hold) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Whatever the order of calls, the journal answers as the model does.
func TestLedgerAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		path := filepath.Join(t.TempDir(), "journal.db")
		j, err := journaltest.Open(t.Context(), path)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() {
			must(rt, j.Close())
			retire(rt, path)
		}()
		m := model{live: map[claim.ID]claim.Hold{}, holders: map[task.ID]claim.ID{}}
		now := t0
		states := []claim.State{
			claim.Writing, claim.Held, claim.Held, claim.Held, claim.Finishing, claim.Ended, claim.Ended,
		}
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				if diff := gocmp.Diff(m.list(), live(t, j), anyFence); diff != "" {
					rt.Fatalf("live claims (-want +got):\n%s", diff)
				}
			},
			"time passes": func(rt *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 3_000_000).Draw(rt, "µs")) * time.Microsecond)
			},
			"reserve": func(rt *rapid.T) {
				agent := fmt.Sprint("agent-", rapid.IntRange(1, 3).Draw(rt, "agent"))
				id := task.ID(fmt.Sprint(rapid.IntRange(1, 4).Draw(rt, "task")))
				limit := rapid.IntRange(0, 2).Draw(rt, "limit")
				c := attempt(agent, id, now)
				_, got, err := j.Reserve(t.Context(), c, now, limit)
				if err != nil {
					rt.Fatal(err)
				}
				if diff := gocmp.Diff(m.reserve(c, now, limit), got, anyFence); diff != "" {
					rt.Fatalf("refusal (-want +got):\n%s", diff)
				}
			},
			"save": func(rt *rapid.T) {
				known := m.list()
				if len(known) == 0 {
					rt.Skip("no claims")
				}
				c := rapid.SampledFrom(known).Draw(rt, "claim")
				c.State = rapid.SampledFrom(states).Draw(rt, "state")
				switch c.State {
				case claim.Held:
					c.StaleAt = now.Add(time.Duration(rapid.IntRange(-2, 4).Draw(rt, "s")) * time.Second).Truncate(time.Millisecond)
				case claim.Ended:
					c.Ending, c.Ended = claim.EndReleased, now
				}
				if err := j.Save(t.Context(), claim.Change{Holds: []claim.Hold{c}}); err != nil {
					rt.Fatal(err)
				}
				m.save(c)
			},
		})
	})
}
