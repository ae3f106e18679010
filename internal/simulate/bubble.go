package simulate

import (
	"testing"
	"testing/synctest"
)

// inVirtualTime runs f in a bubble in which time passes only while all of its
// goroutines wait, and returns once they have ended. Every bubble begins at the
// same moment. f must not wait for anything outside, a context included.
//
// The bubble is that of testing/synctest, which wants to know the test that it
// is part of. There is none in a program; an empty testing.T serves, as nothing
// is asked of it. This is the only file of the program that imports testing, for
// nothing else in Go gives virtual time to code that asks package time. Package
// testing adds no flags and no output to a program that does not call
// testing.Init, which is not even linked. If a Go release should come to mind,
// every test of this package fails.
func inVirtualTime(f func()) {
	synctest.Test(new(testing.T), func(*testing.T) { f() })
}
