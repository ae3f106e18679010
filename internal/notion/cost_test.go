//go:build !race

package notion_test

// mostCost is how many MB an answer may cost, all tries together.
const mostCost = 300
