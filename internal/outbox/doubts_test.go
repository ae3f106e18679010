package outbox_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox"
)

// What became of a request is known from its answer, or in doubt.
func TestSent(t *testing.T) {
	for want, errs := range map[outbox.Fate][]error{
		outbox.Arrived: {nil, claim.Errorf(claim.Unavailable, claim.LandedYes, "503, and saved")},
		outbox.Absent:  {claim.Errorf(claim.Refused, claim.LandedNo, "400"), fmt.Errorf("sending: %w", claim.Errorf(claim.Unavailable, claim.LandedNo, "429"))},
		outbox.Gone:    {&outbox.GoneError{Err: claim.Errorf(claim.Refused, claim.LandedUnknown, "no such page")}},
		outbox.InDoubt: {claim.Errorf(claim.Unavailable, claim.LandedUnknown, "503"), errors.New("cut off")},
	} {
		for _, err := range errs {
			if got := outbox.NewDoubts().Sent("x", err); got != want {
				t.Errorf("after %v: %d, want %d", err, got, want)
			}
		}
	}
}

// What is not found stays in doubt for as long as a request for it may be under way, or queries
// may be behind, from when its one request ended; of an earlier process, from the beginning.
func TestSought(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := outbox.NewDoubts()
		sought := func(id string, want outbox.Fate, wait time.Duration) {
			t.Helper()
			if fate, left := d.Sought(id, false, nil); fate != want || left != wait {
				t.Errorf("%s: %d for %v, want %d for %v", id, fate, left, want, wait)
			}
		}
		time.Sleep(time.Minute)
		d.Sent("late", errors.New("cut off"))
		sought("late", outbox.InDoubt, outbox.Doubt)
		sought("earlier", outbox.InDoubt, outbox.Doubt-time.Minute)
		if fate, _ := d.Sought("earlier", false, errors.New("down")); fate != outbox.InDoubt {
			t.Errorf("what could not be looked for is %d", fate)
		}
		time.Sleep(outbox.Doubt - time.Minute)
		sought("earlier", outbox.Absent, 0)
		sought("late", outbox.InDoubt, time.Minute)
		if fate, _ := d.Sought("late", false, errors.New("down")); fate != outbox.InDoubt {
			t.Errorf("what could not be looked for is %d", fate)
		}
		if fate, _ := d.Sought("late", true, nil); fate != outbox.Arrived {
			t.Errorf("what was found is %d", fate)
		}
		if fate, _ := d.Sought("comment", false, &outbox.GoneError{Err: errors.New("no such page")}); fate != outbox.Gone {
			t.Errorf("what cannot be there is %d", fate)
		}
	})
}
