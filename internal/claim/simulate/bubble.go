package simulate

import (
	"testing"
	"testing/synctest"
)

// inVirtualTime runs f in a bubble in which time passes only while all of its goroutines wait, and
// returns once they have ended. Every bubble begins at the same time. f must not wait for anything
// outside, not even a context.
//
// The bubble is that of testing/synctest, which requires a testing.T. A program has none; an empty
// one works, because nothing is called on it. This is the only file of the program that imports
// testing: nothing else in Go gives virtual time to code that uses package time. Package testing
// adds no flags and no output to a program that does not call testing.Init, and that is not even
// linked. If a Go release changes this, every test of this package fails.
func inVirtualTime(f func()) {
	synctest.Test(new(testing.T), func(*testing.T) { f() })
}
