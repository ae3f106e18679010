// Package testkit is what tests of several packages need of the machine: whether the race detector
// watches, another user, and disks.
//
// With the race detector tests take up to ten times as long. What works alone, such as decoding what is
// large, gives it nothing to see, and of many ways of doing the same it sees in a few what
// it would in all. What is left out so runs without it, in go test ./...
package testkit

import "testing"

// SkipUnderRace skips a test that has nothing to show to the race detector, if that watches.
func SkipUnderRace(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("nothing here goes on at the same time: it runs without the race detector")
	}
}
