package mailbox

import (
	"testing"
	"testing/synctest"
	"time"
)

// What is known of agents that were here once is forgotten when it is of no use any more. No door
// shows that: it would only take up memory.
func TestAgentsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := New(Config{Visibility: time.Minute})
		now := time.Now()
		in.polled["Oracle"], in.waits["Oracle"], in.changed["Oracle"] = now, wait{at: now}, 7
		in.handed["an id"], in.listens["Oracle"] = handed{"Oracle", now}, listening{at: now}
		left := func() [5]int {
			if err := in.tidy(t.Context()); err != nil {
				t.Fatal(err)
			}
			return [5]int{len(in.polled), len(in.waits), len(in.changed), len(in.handed), len(in.listens)}
		}
		if got, want := left(), [5]int{1, 1, 0, 1, 1}; got != want || in.anything != 7 {
			t.Errorf("at first %v are left, want %v; something changed at %d", got, want, in.anything)
		}
		time.Sleep(registerEvery + time.Second)
		if got := left(); got != [5]int{} {
			t.Errorf("after a day %v are left", got)
		}
	})
}
