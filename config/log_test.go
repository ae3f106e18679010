package config_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"dibs/config"
)

func TestLogHandler(t *testing.T) {
	for _, tt := range []struct {
		log  config.Log
		want string
	}{
		{config.Log{Level: "warn", Format: "text"}, "level=WARN msg=loud"},
		{config.Log{Level: "warn", Format: "json"}, `"level":"WARN","msg":"loud"`},
	} {
		var out bytes.Buffer
		log := slog.New(tt.log.Handler(&out, tt.log.Severity()))
		log.Info("quiet")
		log.Warn("loud")
		if got := out.String(); !strings.Contains(got, tt.want) || strings.Contains(got, "quiet") {
			t.Errorf("%+v logged %q, want %q alone", tt.log, got, tt.want)
		}
	}
}
