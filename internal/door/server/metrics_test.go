package server_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"dibs/internal/api"
	"dibs/internal/door/server"

	"github.com/google/go-cmp/cmp"
)

func TestMetricsOnTheSocket(t *testing.T) {
	inBubble(t, "metrics", func(t *testing.T) {
		f := start(t)
		if got := f.must("GET", "/metrics", ""); got.status != 200 || got.body != "up 1\n" {
			t.Errorf("answered %d %q", got.status, got.body)
		}
		f.must("POST", "/v1/sweep", "")
		f.must("POST", "/v1/sync", "", api.KeyHeader, "key")
		f.must("GET", "/nowhere", "")
		synctest.Wait()
		if diff := cmp.Diff([]string{"GET /metrics 200", "POST /v1/sweep 200", "POST /v1/sync 200", " 404"}, f.routes); diff != "" {
			t.Errorf("told of the answers (-want +got):\n%s", diff)
		}
	})
}

// TestMetricsOnly asks for more than metrics where nothing else is to be had.
func TestMetricsOnly(t *testing.T) {
	inBubble(t, "metrics", func(t *testing.T) {
		f := start(t)
		open := server.NewPipe()
		served := make(chan error, 1)
		go func() { served <- f.server.ServeMetrics(open) }()
		for _, tt := range []struct {
			method, path string
			header       []string
			status       int
			want         string
		}{
			{"GET", "/metrics", nil, 200, "up 1"},
			{"GET", "/metrics", []string{"Host", "127.0.0.1:9464"}, 200, "up 1"},
			{"GET", "/metrics", []string{"Host", "evil.example:9464"}, 421, string(api.CodeWrongHost)},
			{"POST", "/metrics", nil, 405, string(api.CodeWrongMethod)},
			{"POST", "/v1/sweep", nil, 404, string(api.CodeNoRoute)},
			{"GET", "/v1/status", nil, 404, string(api.CodeNoRoute)},
			{"GET", "/openapi.json", nil, 404, string(api.CodeNoRoute)},
		} {
			got, err := exchange(t.Context(), open.Dial, tt.method, tt.path, "", tt.header...)
			if err != nil || got.status != tt.status || !strings.Contains(got.body, tt.want) {
				t.Errorf("%s %s %v: answered %d %q, %v; want %d %q", tt.method, tt.path, tt.header, got.status, got.body, err, tt.status, tt.want)
			}
		}
		for range 600 { // shut nobody out, see TestSlowStrangersGiveWay
			conn, err := open.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		}
		if got, err := exchange(t.Context(), open.Dial, "GET", "/metrics", ""); err != nil || got.status != 200 {
			t.Errorf("beside many that say nothing: answered %d %q, %v", got.status, got.body, err)
		}
		if err := f.server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
