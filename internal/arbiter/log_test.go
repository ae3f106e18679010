package arbiter_test

import (
	"log/slog"
	"testing"
)

// testLog is a log that goes to the test's.
func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}
