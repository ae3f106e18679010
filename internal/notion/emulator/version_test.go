package emulator_test

import (
	"testing"

	"dibs/internal/notion/emulator"
)

// An emulator can support some versions only.
func TestVersions(t *testing.T) {
	for _, c := range []struct {
		name   string
		spoken []string
		taken  []string
		says   string
	}{
		{"all", nil, []string{"2022-06-28", "2025-09-03", "2026-03-11"}, "`\"2022-06-28\"`, `\"2025-09-03\"`, or `\"2026-03-11\"`"},
		{"new", []string{"2026-03-11", "2025-09-03"}, []string{"2025-09-03", "2026-03-11"}, "`\"2025-09-03\"` or `\"2026-03-11\"`"},
		{"one", []string{"2025-09-03"}, []string{"2025-09-03"}, "`\"2025-09-03\"`"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := start(t, emulator.Options{Versions: c.spoken})
			for _, version := range c.taken {
				a.as(version).ok("GET", "/v1/users/me", nil)
			}
			if len(c.taken) < 3 {
				a.as("2022-06-28").refused("GET", "/v1/users/me", nil, badRequest, validation,
					"Notion-Version header failed validation: Notion-Version header should be "+c.says+", instead was `\"2022-06-28\"`.")
			}
			a.as("2019-01-01").refused("GET", "/v1/users/me", nil, badRequest, validation,
				"Notion-Version header failed validation: Notion-Version header should be "+c.says+", instead was `\"2019-01-01\"`.")
		})
	}
	a := start(t, emulator.Options{})
	if err := a.e.SetVersions("2026-03-11"); err != nil {
		t.Fatal(err)
	}
	a.refused("GET", "/v1/users/me", nil, badRequest, validation, "")
	if err := a.e.SetVersions("2026"); err == nil {
		t.Error("a version that there is not was set")
	}
	if _, err := emulator.New(emulator.Options{Versions: []string{"2025"}}); err == nil {
		t.Error("an emulator of no version was made")
	}
}
