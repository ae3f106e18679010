package config

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
)

// Log configures the daemon's log.
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

// Severity returns the lowest level that is logged. l must be valid.
func (l Log) Severity() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		panic("config: log level used before it was validated: " + err.Error())
	}
	return level
}

// Handler returns a handler that writes records of at least that level to w, in l's format.
func (l Log) Handler(w io.Writer, level slog.Leveler) slog.Handler {
	options := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.NewJSONHandler(w, options)
	}
	return slog.NewTextHandler(w, options)
}
