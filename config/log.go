package config

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
)

// Log says what the daemon logs, and how it looks.
type Log struct {
	Level  string `key:"level"`
	Format string `key:"format"`
}

var (
	logLevels  = []string{"debug", "info", "warn", "error"}
	logFormats = []string{"text", "json"}
)

func (l Log) validate() []error {
	var errs []error
	if !slices.Contains(logLevels, l.Level) {
		errs = append(errs, fmt.Errorf("log.level: %q is not a level: want one of %v", l.Level, logLevels))
	}
	if !slices.Contains(logFormats, l.Format) {
		errs = append(errs, fmt.Errorf("log.format: %q is not a format: want one of %v", l.Format, logFormats))
	}
	return errs
}

// Severity is the least severe level that is logged. l must be valid.
func (l Log) Severity() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		panic("config: log level used before it was validated: " + err.Error())
	}
	return level
}

// Handler returns a handler that writes to w in the format that l says, whatever
// is of that level.
func (l Log) Handler(w io.Writer, level slog.Leveler) slog.Handler {
	options := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.NewJSONHandler(w, options)
	}
	return slog.NewTextHandler(w, options)
}
