//go:build !race

package claimtest_test

const detecting = false
