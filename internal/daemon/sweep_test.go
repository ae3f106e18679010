package daemon_test

import (
	"maps"
	"slices"
	"testing"
)

// few returns the cases to test: with -short about n of them, evenly spread, else all.
func few[T any](n int, cases []T) []T {
	if !testing.Short() || len(cases) <= n {
		return cases
	}
	var some []T
	for i := range n {
		some = append(some, cases[i*len(cases)/n])
	}
	return some
}

// inTurn reports whether to play case i of one kind with case j of another, of which there are n:
// each case of the longer kind in one of the shorter, in turn, and all pairs with -long.
func inTurn(i, j, n int) bool { return *long || i%n == j }

// fewOf is few for named cases.
func fewOf[T any](n int, m map[string]T) map[string]T {
	some := make(map[string]T)
	for _, name := range few(n, slices.Sorted(maps.Keys(m))) {
		some[name] = m[name]
	}
	return some
}
