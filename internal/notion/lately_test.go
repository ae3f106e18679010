package notion

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/task"
)

// What pages showed is remembered for long enough, and no longer than that.
func TestLately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lately[task.ID, int]
		most := 0
		for i := range 10_000 { // one a minute
			id := task.ID(fmt.Sprint(i))
			l.put(id, i)
			for _, age := range []int{0, 1, int(memory/time.Minute) - 1} {
				if before := i - age; before >= 0 {
					if v, ok := l.get(task.ID(fmt.Sprint(before))); !ok || v != before {
						t.Fatalf("after %d minutes: %d, %v; want %d", age, v, ok, before)
					}
				}
			}
			most = max(most, len(l.of))
			time.Sleep(time.Minute)
		}
		if most > 300 {
			t.Errorf("%d pages were remembered at a time", most)
		}
		l.put("x", 1)
		l.forget("x")
		if _, ok := l.get("x"); ok {
			t.Error("what was forgotten is still there")
		}
	})
}
