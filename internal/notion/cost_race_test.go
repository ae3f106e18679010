//go:build race

package notion_test

// mostCost is how many MB an answer may cost, all tries together. The race detector has
// pools forget what they keep, so that buffers are made anew.
const mostCost = 700
