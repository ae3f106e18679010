package board_test

import (
	"strings"
	"testing"

	"dibs/internal/api"
)

// TestHowItGoes reads the charts, their numbers, and the report, as the server writes them.
func TestHowItGoes(t *testing.T) {
	m := newMesh(t, "empty", 0)
	v := m.visitor()
	acted(m)
	blocked := m.claim("=Oracle", m.add("Oil the hinges", nil))
	if _, err := m.client.Ask(t.Context(), string(blocked.ID), api.AskRequest{Text: "Which <i>oil</i>?"}, ""); err != nil {
		t.Fatal(err)
	}
	_, page := v.ask("GET", "/charts")
	for _, want := range []string{
		`href="/charts?days=1" aria-current="true"`, // which has all that happened
		`<strong>Completed, by agent</strong> <span class="says">1 completed</span>`, `Sandman: 1</title>`,
		`<strong>Losses, and why</strong> <span class="says">1 lost</span>`, `<td>Oracle</td><td>Paint the gate</td><td>lost</td>`,
		`<strong>Held at a time</strong> <span class="says">now `, ` held and `, `<strong>From open to claimed</strong>`, `<strong>From claimed to done</strong>`,
		`<strong>How claims ended</strong> <span class="says">1 completed, 0 failed, 1 lost`, `<strong>Refusals</strong>`, `days=1&amp;figure=how-claims-ended"`, `href="/report"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the charts lack %s", want)
		}
	}
	for _, days := range []string{"1", "7", "30"} {
		resp, page := v.ask("GET", "/charts.csv?days="+days+"&figure=how-claims-ended")
		if kind := resp.Header.Get("Content-Type"); kind != "text/csv; charset=utf-8" || !strings.HasPrefix(page, "from,completed,failed,lost\n20") || !strings.Contains(page, "Z,1,0,1\n") {
			t.Errorf("%s: %q", kind, page)
		}
	}
	if _, page := v.ask("GET", "/charts.csv?figure=losses-and-why"); !strings.HasPrefix(page, "from,agent,task,how,why\n20") || !strings.Contains(page, ",Oracle,Paint the gate,lost,") {
		t.Errorf("the losses: %q", page)
	}
	_, page = v.ask("GET", "/report?days=30")
	for _, want := range []string{
		`<th scope="row">Sandman</th><td class="number">1</td><td class="number">0</td><td class="number">0</td>`, `Which &lt;i&gt;oil&lt;/i&gt;?`,
		`<td>=Oracle</td>`, `href="/report?days=30" aria-current="true"`, `href="/report.csv?days=30"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the report lacks %s: %s", want, page)
		}
	}
	if _, page := v.ask("GET", "/report.csv"); !strings.HasPrefix(page, "agent,completed,failed,lost,median_seconds,usd\n") || !strings.Contains(page, "\nSandman,1,0,0,") {
		t.Errorf("the report as CSV: %q", page)
	}
	for _, path := range []string{"/charts?days=2", "/charts.csv?figure=x", "/report?days=0", "/report.csv?days=x"} {
		if resp, _ := v.ask("GET", path); resp.StatusCode != 404 {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}
