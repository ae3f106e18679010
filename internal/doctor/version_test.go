package doctor_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"dibs/internal/doctor"
)

// The doctor works with servers that support only one version of the API.
func TestServersOfOneVersion(t *testing.T) {
	for _, version := range []string{"2025-09-03", "2026-03-11"} {
		t.Run(version, func(t *testing.T) {
			inWorld(t, func(w *world) {
				if err := w.notion.SetVersions(version); err != nil {
					w.Fatal(err)
				}
				if err := w.journal().Close(); err != nil {
					w.Fatal(err)
				}
				w.options.Probe = true
				report := doctor.Run(w.Context(), w.options)
				for _, f := range report.Findings {
					if f.Level != doctor.OK && f.Check != "plan" {
						w.Errorf("%+v", f)
					}
					if f.Check == "databases.tasks" && !strings.HasSuffix(f.Found, "with one data source") {
						w.Errorf("%+v", f)
					}
				}
				if pages := w.notion.Pages(w.notion.Databases().Tasks); len(pages) != 1 || !pages[0].Trashed {
					w.Errorf("the scratch row is %+v", pages)
				}
			})
		})
	}
}

// edge is a proxy in front of Notion that lets nobody through.
type edge struct{}

func (edge) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"text/html"}, "Cf-Ray": {"a125f6839ba26576-AMS"}},
		Body: io.NopCloser(strings.NewReader("<html>Sorry, you have been blocked</html>")), Request: req,
	}, nil
}
