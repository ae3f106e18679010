package owed_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/owed"
)

// What became of a request is known from its answer, or in doubt.
func TestSent(t *testing.T) {
	for want, errs := range map[owed.Fate][]error{
		owed.Arrived: {nil, claim.Errorf(claim.Unavailable, claim.LandedYes, "503, and saved")},
		owed.Absent:  {claim.Errorf(claim.Refused, claim.LandedNo, "400"), fmt.Errorf("sending: %w", claim.Errorf(claim.Unavailable, claim.LandedNo, "429"))},
		owed.Gone:    {&owed.GoneError{Err: claim.Errorf(claim.Refused, claim.LandedUnknown, "no such page")}},
		owed.InDoubt: {claim.Errorf(claim.Unavailable, claim.LandedUnknown, "503"), errors.New("cut off")},
	} {
		for _, err := range errs {
			if got := owed.NewDoubts().Sent("x", err); got != want {
				t.Errorf("after %v: %d, want %d", err, got, want)
			}
		}
	}
}

// What is not found stays in doubt for as long as a request for it may be under way, or queries
// may be behind, from when its one request ended; of an earlier process, from the beginning.
func TestSought(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := owed.NewDoubts()
		sought := func(id string, want owed.Fate, wait time.Duration) {
			t.Helper()
			if fate, left := d.Sought(id, false, nil); fate != want || left != wait {
				t.Errorf("%s: %d for %v, want %d for %v", id, fate, left, want, wait)
			}
		}
		time.Sleep(time.Minute)
		d.Sent("late", errors.New("cut off"))
		sought("late", owed.InDoubt, owed.Doubt)
		sought("earlier", owed.InDoubt, owed.Doubt-time.Minute)
		if fate, _ := d.Sought("earlier", false, errors.New("down")); fate != owed.InDoubt {
			t.Errorf("what could not be looked for is %d", fate)
		}
		time.Sleep(owed.Doubt - time.Minute)
		sought("earlier", owed.Absent, 0)
		sought("late", owed.InDoubt, time.Minute)
		if fate, _ := d.Sought("late", false, errors.New("down")); fate != owed.InDoubt {
			t.Errorf("what could not be looked for is %d", fate)
		}
		if fate, _ := d.Sought("late", true, nil); fate != owed.Arrived {
			t.Errorf("what was found is %d", fate)
		}
		if fate, _ := d.Sought("comment", false, &owed.GoneError{Err: errors.New("no such page")}); fate != owed.Gone {
			t.Errorf("what cannot be there is %d", fate)
		}
	})
}
