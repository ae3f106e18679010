//go:build !race

package arbiter_test

const detecting = false
