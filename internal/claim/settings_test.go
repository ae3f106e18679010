package claim_test

import (
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
)

func TestSettingsAreReadAsTheyAreWritten(t *testing.T) {
	for _, s := range []claim.Settings{
		{Timeout: 30 * time.Minute, WriteWindow: 2 * time.Second, Settle: 3 * time.Second},
		{Timeout: 90*time.Minute + 500*time.Millisecond, WriteWindow: 1500 * time.Millisecond, Settle: 0},
	} {
		for _, text := range []string{s.String(), "overrides the stale claim of Ghost; " + s.String(), s.String() + ". And so on."} {
			if got, ok := claim.ParseSettings(text); !ok || got != s {
				t.Errorf("ParseSettings(%q) = %+v, %v", text, got, ok)
			}
		}
	}
	for _, text := range []string{"", "claimed under timeout x, write_window 2s, settle 3s", "claimed under timeout 30m0s", "a task claimed under timeout 30m0s, write_window 2s, settle 3parsecs"} {
		if got, ok := claim.ParseSettings(text); ok {
			t.Errorf("ParseSettings(%q) = %+v", text, got)
		}
	}
}

func TestSettingsAgainstOthers(t *testing.T) {
	here := claim.Settings{Timeout: 30 * time.Minute, WriteWindow: 2 * time.Second, Settle: 3 * time.Second}
	for name, tt := range map[string]struct {
		change func(*claim.Settings)
		want   string
	}{
		"the same":                {func(*claim.Settings) {}, ""},
		"harmless":                {func(s *claim.Settings) { s.WriteWindow, s.Settle = time.Second, 2100*time.Millisecond }, ""},
		"a longer lease":          {func(s *claim.Settings) { s.Timeout = time.Hour }, "claim.timeout 1h0m0s, and 30m0s here"},
		"too short a settle wait": {func(s *claim.Settings) { s.WriteWindow, s.Settle = 1500*time.Millisecond, 1600*time.Millisecond }, "claim.settle 1.6s"},
		"too long a window":       {func(s *claim.Settings) { s.WriteWindow, s.Settle = 3*time.Second, 4*time.Second }, "claim.write_window 3s"},
	} {
		t.Run(name, func(t *testing.T) {
			other := here
			tt.change(&other)
			if got := other.Against(here); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("Against = %q, want %q", got, tt.want)
			}
		})
	}
}
