package relay_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// chaos has people and members change tasks while members are cut off, killed and started, by
// a schedule that the seed tells. In the end everybody who is left must know the board.
func chaos(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 7))
	w := newWorld(t)
	defer w.end()
	w.board.lag = time.Duration(random.Int64N(int64(time.Minute)))
	for n := range 10 {
		w.board.edit(task.Task{ID: id(n), Title: fmt.Sprint("task ", n), Status: task.Open})
	}
	time.Sleep(10 * time.Minute)
	skew := func() time.Duration { return time.Duration(random.Int64N(int64(8*time.Second))) - 4*time.Second }
	for range 3 {
		w.start(skew())
	}
	var dead []*member
	isDead := make(map[*member]bool)
	for n := range 200 {
		time.Sleep(time.Duration(random.Int64N(int64(10 * time.Second))))
		m := w.members[random.IntN(len(w.members))]
		on := w.board.page(id(random.IntN(10)))
		do := random.IntN(13)
		if on.Trashed && do <= 6 {
			continue
		}
		switch do {
		case 0, 1, 2, 3:
			on.Title, on.Status, on.Token = fmt.Sprint("edit ", n), task.Statuses[random.IntN(len(task.Statuses))], ""
			w.board.edit(on)
		case 4, 5, 6:
			if !isDead[m] {
				on.Title, on.Status, on.ClaimedBy, on.Token = fmt.Sprint("claim ", n), task.InProgress, m.name, string(claim.NewID(time.Now()))
				m.Observe(claim.Reading{Task: w.board.edit(on), At: time.Now()})
			}
		case 7:
			m.way.Cut(true)
		case 8, 9:
			m.way.Cut(false)
		case 10:
			if random.IntN(3) == 0 {
				w.room.Forget()
			}
		case 12:
			on.Trashed = random.IntN(3) == 0
			w.board.edit(on)
		case 11:
			if random.IntN(4) == 0 && !isDead[m] && len(dead) < 3 {
				m.kill()
				m.over.Wait()
				dead, isDead[m] = append(dead, m), true
				w.start(skew())
			}
		}
	}
	for _, m := range w.members {
		m.way.Cut(false)
	}
	time.Sleep(5 * time.Minute)
	if leader := w.leader(); leader == nil {
		t.Errorf("seed %d: nobody leads", seed)
	} else if _, err := leader.SyncAll(t.Context()); err != nil {
		t.Error(err)
	}
	time.Sleep(5 * time.Minute)
	if wrong := w.wrong(dead...); len(wrong) > 0 {
		t.Errorf("seed %d: %v", seed, wrong)
	}
}

func TestEverybodyKnows(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) { chaos(t, seed) })
	}
}
