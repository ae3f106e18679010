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

// fewOf is few for named cases.
func fewOf[T any](n int, m map[string]T) map[string]T {
	some := make(map[string]T)
	for _, name := range few(n, slices.Sorted(maps.Keys(m))) {
		some[name] = m[name]
	}
	return some
}
