package daemon_test

import (
	"maps"
	"slices"
	"testing"
)

// few returns the cases of a sweep that are looked at: with -short about n of
// them, spread over all, else all.
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

// fewOf is few of the cases that m has by name.
func fewOf[T any](n int, m map[string]T) map[string]T {
	some := make(map[string]T)
	for _, name := range few(n, slices.Sorted(maps.Keys(m))) {
		some[name] = m[name]
	}
	return some
}
