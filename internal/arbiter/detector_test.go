//go:build race

package arbiter_test

// detecting says that the race detector watches, with which all that is tried takes ten times
// as long. It sees what it can see in a few ways of standing still; all are tried without it.
const detecting = true
