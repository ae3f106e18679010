package testkit

import "testing"

// Quick says that only what is quick is wanted: -short without the race detector. With it, -short
// leaves out cases of sweeps only, so that whatever goes on at the same time is watched.
func Quick() bool { return testing.Short() && !Race }

// TakesSeconds leaves a test out where only what is quick is wanted: it runs in .ci/task test
// and with the race detector.
func TakesSeconds(t testing.TB) {
	t.Helper()
	if Quick() {
		t.Skip("takes seconds: left out with -short")
	}
}

// RacedElsewhere leaves a test out under the race detector with -short. Other tests run each of its
// statements, and take each of its locks while a second goroutine uses it.
func RacedElsewhere(t testing.TB) {
	t.Helper()
	if Race && testing.Short() {
		t.Skip("shows the race detector what others show: left out with -short")
	}
}
