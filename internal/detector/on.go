//go:build race

package detector

// On says that the race detector watches.
const On = true
