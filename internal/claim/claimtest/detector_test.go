//go:build race

package claimtest_test

// detecting says that the race detector watches, with which a race takes ten times as
// long. What it finds, it finds in a quarter of them, too; all of them run without it.
const detecting = true
