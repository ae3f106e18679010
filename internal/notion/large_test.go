package notion_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"dibs/internal/notion"
	"dibs/internal/testkit"
)

// Answers with more in them than Notion sends are refused before they cost much
// memory, whatever they are made of.
func TestLargeAnswers(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	const most = 62 << 20
	list := func(rows string) string {
		return `{"object":"list","type":"page_or_database","has_more":false,"next_cursor":null,"results":[` + strings.TrimSuffix(rows, ",") + `]}`
	}
	for name, tt := range map[string]struct{ body, says string }{
		"many rows":                  {list(strings.Repeat(`{},`, most/3)), "longer than"},
		"many rows in less":          {list(strings.Repeat(`{},`, 5<<20)), "more than 100000 values"},
		"rows that are pages":        {list(strings.Repeat(`{"object":"page","properties":{}},`, 400_000)), "more than 100000 values"},
		"more rows than asked for":   {list(strings.Repeat(`{"object":"page"},`, 101)), "has 101 rows, and 100 were asked for"},
		"as many values as may be":   {list(strings.Repeat(`{},`, 49_000)), "rows"},
		"a long text":                {list(`{"object":"page","id":"` + strings.Repeat("x", most) + `"}`), "longer than"},
		"brackets in quotation only": {`{"object":"list","x":"` + strings.Repeat(`[,{\"`, 100_000) + `","results":[],"has_more":false}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				turned, good := false, w.transport
				w.transport = roundTrip(func(req *http.Request) (*http.Response, error) {
					if turned {
						return answer(200, "application/json", tt.body), nil
					}
					return good.RoundTrip(req)
				})
				w.through(func(*http.Request) {})
				tasks := w.tasks(notion.TaskSchema{})
				turned = true
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, _, err := tasks.Query(w.Context(), notion.Query{})
				runtime.ReadMemStats(&after)
				if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
					t.Errorf("err = %.300v, want %q", err, tt.says)
				}
				if cost := (after.TotalAlloc - before.TotalAlloc) >> 20; cost > mostCost {
					t.Errorf("it cost %d MB", cost)
				} else {
					t.Logf("it cost %d MB", cost)
				}
			})
		})
	}
}
