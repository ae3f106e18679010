package setup_test

import (
	"testing"

	"dibs/internal/setup"
)

// Databases are made, and found again, on servers that support only one version of the API.
func TestServersOfOneVersion(t *testing.T) {
	for _, version := range []string{"2025-09-03", "2026-03-11"} {
		t.Run(version, func(t *testing.T) {
			inWorld(t, func(w *world) {
				if err := w.notion.SetVersions(version); err != nil {
					w.Fatal(err)
				}
				p := w.plan()
				if err := p.Apply(w.Context(), func(setup.Step) {}); err != nil {
					w.Fatal(err)
				}
				w.options.Client = w.client()
				w.options.Config.Databases, w.options.Saved.Databases = p.Config.Databases, p.Config.Databases
				again, err := setup.New(w.Context(), w.options)
				if err != nil || len(again.Steps) != 0 || len(again.Problems) != 0 {
					w.Errorf("once more: steps %v, problems %q, %v", again.Steps, again.Problems, err)
				}
			})
		})
	}
}
