package daemon_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
)

// samples returns dibs' own metrics, by name and labels.
func (n *node) samples() map[string]string {
	n.w.Helper()
	got := make(map[string]string)
	for line := range strings.Lines(n.get("/metrics")) {
		line = strings.TrimSpace(line)
		if i := strings.LastIndexByte(line, ' '); i > 0 && strings.HasPrefix(line, "dibs_") {
			got[line[:i]] = line[i+1:]
		}
	}
	return got
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		first, second := w.add("first", nil), w.add("second", nil)
		stale := w.add("left behind", map[string]any{
			"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "claude-chat-7K9X"),
			"claimed_at": date(time.Now().Add(-2 * time.Hour)),
		})
		n := w.daemon(func(c *config.Config) { c.Sync.Interval = time.Minute })
		w.notion.SetLatency(func(*http.Request) (before, after time.Duration) {
			return 300 * time.Millisecond, 300 * time.Millisecond
		})
		cl := n.mustClaim("Sandman", first) // its write is answered 1.2 s after its read was sent
		if _, err := n.claim("Oracle", first); code(err) != denied(claim.CodeHeld) {
			w.Fatal(err)
		}
		n.mustClaim("Oracle", second)
		time.Sleep(16 * time.Minute)
		if _, err := n.Renew(w.Context(), string(cl.ID), api.RenewRequest{}, ""); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Second) // until the outbox is delivered
		if got := show(w.page(stale)); got.Status != "OPEN" {
			w.Fatalf("the stale task shows %+v", got)
		}
		mustDo(w, n.complete(cl))
		time.Sleep(10 * time.Second)
		up := w.notion.Inject(emulator.Fault{Method: "POST", Path: "/v1/pages", Kind: emulator.Error503})
		cl = n.mustClaim("Sandman", "")
		time.Sleep(150 * time.Second)
		up()

		got := n.samples()
		for name, want := range map[string]string{
			`dibs_claims_total{outcome="granted",reason=""}`:                "3",
			`dibs_claims_total{outcome="denied",reason="held"}`:             "1",
			`dibs_agent_claims_total{agent="Oracle",outcome="denied"}`:      "1",
			`dibs_agent_claims_held{agent="Oracle"}`:                        "1",
			`dibs_agent_claims_held{agent="Sandman"}`:                       "1",
			`dibs_claim_write_window_ratio_bucket{le="0.7"}`:                "0",
			`dibs_claim_write_window_ratio_bucket{le="0.9"}`:                "3",
			`dibs_claim_writes_late_total`:                                  "0",
			`dibs_claim_attempt_seconds_bucket{outcome="granted",le="3"}`:   "0",
			`dibs_claim_attempt_seconds_bucket{outcome="granted",le="4"}`:   "3",
			`dibs_claim_events_total{kind="granted"}`:                       "3",
			`dibs_claim_events_total{kind="swept"}`:                         "1",
			`dibs_claim_events_total{kind="completed"}`:                     "1",
			`dibs_claim_events_total{kind="conflict"}`:                      "0",
			`dibs_outbox_entries{log="mesh"}`:                               "1",
			`dibs_notion_permits_max`:                                       "10",
			`dibs_notion_waiting{lane="claim"}`:                             "0",
			`dibs_mirror_tasks`:                                             "3",
			`dibs_mirror_ready_tasks`:                                       "0",
			`dibs_api_requests_total{route="POST /v1/claims",status="201"}`: "3",
			`dibs_api_requests_total{route="POST /v1/claims",status="409"}`: "1",
			`dibs_build_info{version="test"}`:                               "1",
			`dibs_claim_write_window_seconds`:                               "1.5",
		} {
			if got[name] != want {
				w.Errorf("%s is %q, want %q", name, got[name], want)
			}
		}
		for _, name := range []string{
			`dibs_notion_requests_total{endpoint="pages.create",status="503"}`, `dibs_notion_requests_total{endpoint="pages.update",status="200"}`,
			`dibs_outbox_oldest_seconds{log="mesh"}`, `dibs_sync_lag_seconds`, `dibs_notion_permits`,
			`dibs_agent_wait_seconds_total{agent="Sandman"}`, `dibs_claim_events_total{kind="renewed"}`,
		} {
			if got[name] == "" || got[name] == "0" {
				w.Errorf("%s is %q, want some", name, got[name])
			}
		}
	})
}
