package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/daemon/metrics"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func start(state metrics.State, err error) *metrics.Metrics {
	return metrics.New(metrics.Options{
		Version: "v1.2.3", WriteWindow: 2 * time.Second, Settle: 3 * time.Second, Log: slog.New(slog.DiscardHandler),
		Standing: func(context.Context) (metrics.State, error) { return state, err },
	})
}

// scrape returns the lines of a scrape that are ours.
func scrape(t *testing.T, m *metrics.Metrics) map[string]string {
	t.Helper()
	recorder := httptest.NewRecorder()
	m.Handler().ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	all := recorder.Body.String()
	if recorder.Code != 200 {
		t.Fatalf("status %d: %s", recorder.Code, all)
	}
	problems, err := promlint.New(strings.NewReader(all)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "dibs_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	lines := make(map[string]string)
	for line := range strings.Lines(all) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(name, "dibs_") {
			if strings.Contains(line, `" others"`) { // the one label with a space in it
				i := strings.LastIndex(line, " ")
				name, value = line[:i], strings.TrimSpace(line[i:])
			}
			lines[name] = value
		}
	}
	return lines
}

func check(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
}

func TestWhatHappens(t *testing.T) {
	m := start(metrics.State{}, nil)
	m.Claimed("Sandman", nil, 4*time.Second)
	m.Claimed("Oracle", &claim.Denied{Code: claim.CodeHeld}, time.Second)
	m.Claimed("Oracle", fmt.Errorf("wrapped: %w", &claim.Denied{Code: claim.CodeHeld}), time.Second)
	m.Claimed("Oracle", errors.New("disk full"), time.Second)
	m.Wrote(500*time.Millisecond, nil)
	m.Wrote(2100*time.Millisecond, nil)
	m.Wrote(100*time.Millisecond, errors.New("reset"))
	cl := claim.Hold{Reserved: noon}
	m.Saved(claim.Change{Holds: []claim.Hold{cl}, Facts: []claim.Fact{claim.Fact{Kind: claim.KindGranted, At: noon.Add(3200 * time.Millisecond)}, claim.Fact{Kind: claim.KindOverridden}}})
	m.Saved(claim.Change{Holds: []claim.Hold{cl}, Facts: []claim.Fact{claim.Fact{Kind: claim.KindDenied, At: noon.Add(100 * time.Millisecond)}}})
	m.Recorded(claim.Fact{Kind: claim.KindSwept}, claim.Fact{Kind: claim.KindSwept})
	m.Answered("POST /v1/claims", 201)
	m.Answered("", 404)
	check(t, scrape(t, m), map[string]string{
		`dibs_claims_total{outcome="granted",reason=""}`:                "1",
		`dibs_claims_total{outcome="denied",reason="held"}`:             "2",
		`dibs_claims_total{outcome="failed",reason=""}`:                 "1",
		`dibs_agent_claims_total{agent="Oracle",outcome="denied"}`:      "2",
		`dibs_agent_wait_seconds_total{agent="Oracle"}`:                 "3",
		`dibs_agent_wait_seconds_total{agent="Sandman"}`:                "4",
		`dibs_claim_write_window_ratio_bucket{le="0.2"}`:                "0",
		`dibs_claim_write_window_ratio_bucket{le="0.3"}`:                "1",
		`dibs_claim_write_window_ratio_bucket{le="1"}`:                  "1",
		`dibs_claim_write_window_ratio_count`:                           "2",
		`dibs_claim_read_to_write_seconds_count`:                        "2",
		`dibs_claim_writes_late_total`:                                  "2",
		`dibs_claim_attempt_seconds_bucket{outcome="granted",le="3"}`:   "0",
		`dibs_claim_attempt_seconds_bucket{outcome="granted",le="4"}`:   "1",
		`dibs_claim_attempt_seconds_bucket{outcome="denied",le="0.25"}`: "1",
		`dibs_claim_events_total{kind="granted"}`:                       "1",
		`dibs_claim_events_total{kind="overridden"}`:                    "1",
		`dibs_claim_events_total{kind="swept"}`:                         "2",
		`dibs_claim_events_total{kind="conflict"}`:                      "0",
		`dibs_claim_events_total{kind="denied"}`:                        "",
		`dibs_api_requests_total{route="POST`:                           `/v1/claims",status="201"} 1`,
		`dibs_api_requests_total{route="none",status="404"}`:            "1",
		`dibs_build_info{version="v1.2.3"}`:                             "1",
		`dibs_claim_write_window_seconds`:                               "2",
		`dibs_claim_settle_seconds`:                                     "3",
	})
}

func TestHowThingsStand(t *testing.T) {
	m := start(metrics.State{
		Requests: []metrics.Requests{{"pages.get", 200, 7}, {"pages.get", 0, 1}},
		Waiting:  map[string]int{"claim": 0, "sync": 2}, Permits: 4, Burst: 10,
		Paused: -time.Second, ClockSkew: -1500 * time.Millisecond, Mirror: api.MirrorStatus{Tasks: 20, Ready: 3, Age: api.NewAge(time.Unix(1, 0), 12*time.Second, false)},
		Held:   map[string]int{"Sandman": 2, `O"ra\cle`: 1},
		Outbox: []metrics.Backlog{{"mesh", 3, 1, time.Minute}}, Cluster: &metrics.Cluster{Members: 3, Epoch: 7, Away: true}, Doubted: true,
	}, nil)
	check(t, scrape(t, m), map[string]string{
		`dibs_notion_requests_total{endpoint="pages.get",status="200"}`: "7",
		`dibs_notion_requests_total{endpoint="pages.get",status="0"}`:   "1",
		`dibs_notion_waiting{lane="sync"}`:                              "2",
		`dibs_notion_waiting{lane="claim"}`:                             "0",
		`dibs_notion_permits`:                                           "4",
		`dibs_notion_permits_max`:                                       "10",
		`dibs_notion_paused_seconds`:                                    "0",
		`dibs_cluster_members`:                                          "3",
		`dibs_journal_doubted`:                                          "1",
		`dibs_cluster_epoch`:                                            "7",
		`dibs_cluster_database_away`:                                    "1",
		`dibs_clock_skew_seconds`:                                       "-1.5",
		`dibs_mirror_tasks`:                                             "20",
		`dibs_mirror_ready_tasks`:                                       "3",
		`dibs_sync_lag_seconds`:                                         "12",
		`dibs_agent_claims_held{agent="Sandman"}`:                       "2",
		`dibs_agent_claims_held{agent="O\"ra\\cle"}`:                    "1",
		`dibs_outbox_entries{log="mesh"}`:                               "3",
		`dibs_outbox_in_doubt_entries{log="mesh"}`:                      "1",
		`dibs_outbox_oldest_seconds{log="mesh"}`:                        "60",
	})
	never := scrape(t, start(metrics.State{}, nil))
	check(t, never, map[string]string{`dibs_sync_lag_seconds`: "-1"})
}

// Every metric is told of where people look for it.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	m := start(metrics.State{Cluster: new(metrics.Cluster), Held: map[string]int{"Sandman": 1}, Outbox: []metrics.Backlog{{Log: "mesh"}}}, nil)
	recorder := httptest.NewRecorder()
	m.Handler().ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	found := 0
	for line := range strings.Lines(recorder.Body.String()) {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "# TYPE "), " ")
		if !strings.HasPrefix(line, "# TYPE dibs_") {
			continue
		}
		found++
		if !strings.Contains(string(page), "`"+name+"`") && !strings.Contains(string(page), "`"+name+"{") {
			t.Errorf("docs/metrics.md says nothing of %s", name)
		}
	}
	if found < 20 {
		t.Errorf("%d metrics", found)
	}
}

// What cannot be read does not hide what was counted.
func TestStandingFails(t *testing.T) {
	m := start(metrics.State{Mirror: api.MirrorStatus{Tasks: 1}}, errors.New("the journal is gone"))
	m.Wrote(3*time.Second, nil)
	got := scrape(t, m)
	check(t, got, map[string]string{`dibs_claim_writes_late_total`: "1", `dibs_mirror_tasks`: ""})
}

// Any number of names is no more than a number of lines.
func TestManyAgents(t *testing.T) {
	held := make(map[string]int)
	for i := range 500 {
		held[fmt.Sprint("agent-", i)] = 1
	}
	m := start(metrics.State{Held: held}, nil)
	for i := range 1000 {
		m.Claimed(fmt.Sprint("agent-", i), nil, time.Second)
	}
	got := scrape(t, m)
	count := func(prefix string) (lines int) {
		for name := range got {
			if strings.HasPrefix(name, prefix) {
				lines++
			}
		}
		return lines
	}
	want := map[string]int{"dibs_agent_claims_held": 101, "dibs_agent_wait_seconds_total": 101}
	lines := map[string]int{"dibs_agent_claims_held": count("dibs_agent_claims_held"), "dibs_agent_wait_seconds_total": count("dibs_agent_wait_seconds_total")}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	check(t, got, map[string]string{`dibs_agent_claims_held{agent=" others"}`: "400", `dibs_agent_wait_seconds_total{agent=" others"}`: "900"})
}

// Two daemons in one process have numbers of their own.
func TestTwoDaemons(t *testing.T) {
	a, b := start(metrics.State{}, nil), start(metrics.State{}, nil)
	a.Answered("x", 200)
	if got := scrape(t, b)[`dibs_api_requests_total{route="x",status="200"}`]; got != "" {
		t.Errorf("the other one's requests are %q", got)
	}
}
