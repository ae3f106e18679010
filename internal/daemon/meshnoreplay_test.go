//go:build !replay

package daemon_test

// replays says that the tests are built with .ci/replay, so that two runs of a seed are the same.
const replays = false
