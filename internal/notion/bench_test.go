package notion_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"dibs/internal/notion"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

// board answers like Notion, without a network: a database, its schema, a page, or a hundred rows.
type board struct{ database, schema, page, rows string }

const (
	boardID = "2f835e81-2bbb-81b6-9700-e18108a40b10"
	cardID  = "2f835e81-2bbb-81b6-9700-e18108a40b1f"
)

func newBoard() board {
	const properties = `"Name":{"id":"title","type":"title","title":[{"type":"text","text":{"content":"Ship it","link":null},` +
		`"annotations":{"bold":false,"italic":false,"strikethrough":false,"underline":false,"code":false,"color":"default"},"plain_text":"Ship it","href":null}]},` +
		`"status":{"id":"st","type":"status","status":{"id":"c58aef64","name":"IN_PROGRESS","color":"green"}},` +
		`"claimed_by":{"id":"by","type":"rich_text","rich_text":[{"type":"text","text":{"content":"Sandman","link":null},"plain_text":"Sandman"}]},` +
		`"claimed_at":{"id":"at","type":"date","date":{"start":"2026-11-18T17:51:00.000+00:00","end":null,"time_zone":null}},` +
		`"claim_token":{"id":"to","type":"rich_text","rich_text":[]},"claim_timeout_minutes":{"id":"ti","type":"number","number":90},` +
		`"priority":{"id":"pr","type":"select","select":{"id":"1","name":"High","color":"red"}},` +
		`"depends_on":{"id":"de","type":"relation","relation":[{"id":"2f835e81-2bbb-81b6-9700-e18108a40b11"}],"has_more":false},` +
		`"Owner":{"id":"ow","type":"people","people":[{"object":"user","id":"00000000-0000-4000-8000-0000000000f1","name":"Maria"}]},` +
		`"Key":{"id":"ke","type":"unique_id","unique_id":{"prefix":"X","number":7}}`
	page := func(n int) string {
		return fmt.Sprintf(`{"object":"page","id":"2f835e81-2bbb-81b6-9700-e18108a40%03x","created_time":"2026-11-18T17:51:00.000Z",`+
			`"last_edited_time":"2026-11-18T17:56:00.000Z","created_by":{"object":"user","id":"00000000-0000-4000-8000-0000000000f1"},"cover":null,"icon":null,`+
			`"parent":{"type":"data_source_id","data_source_id":%q},"in_trash":false,"archived":false,"url":"https://www.notion.so/x","properties":{%s}}`, n, boardID, properties)
	}
	var rows []string
	for n := range 100 {
		rows = append(rows, page(n))
	}
	column := func(id, name, kind, config string) string {
		return fmt.Sprintf(`%q:{"id":%q,"name":%q,"type":%q,%q:%s}`, name, id, name, kind, kind, config)
	}
	var statuses []string
	for _, s := range task.Statuses {
		statuses = append(statuses, fmt.Sprintf(`{"name":%q}`, s))
	}
	columns := []string{
		column("title", "Name", "title", "{}"), column("st", "status", "status", `{"options":[`+strings.Join(statuses, ",")+`]}`),
		column("by", "claimed_by", "rich_text", "{}"), column("at", "claimed_at", "date", "{}"), column("to", "claim_token", "rich_text", "{}"),
		column("ti", "claim_timeout_minutes", "number", "{}"), column("pr", "priority", "select", `{"options":[]}`),
		column("de", "depends_on", "relation", fmt.Sprintf(`{"data_source_id":%q}`, boardID)),
	}
	return board{
		database: fmt.Sprintf(`{"object":"database","title":[{"plain_text":"Tasks"}],"data_sources":[{"id":%q,"name":"Tasks"}]}`, boardID),
		schema:   fmt.Sprintf(`{"object":"data_source","title":[{"plain_text":"Tasks"}],"properties":{%s}}`, strings.Join(columns, ",")),
		page:     page(0xb1f),
		rows:     `{"object":"list","results":[` + strings.Join(rows, ",") + `],"has_more":false,"next_cursor":null}`,
	}
}

func (b board) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}
	body := b.page
	switch {
	case strings.HasSuffix(req.URL.Path, "/query"):
		body = b.rows
	case strings.HasPrefix(req.URL.Path, "/v1/databases/"):
		body = b.database
	case strings.HasPrefix(req.URL.Path, "/v1/data_sources/"):
		body = b.schema
	}
	return &http.Response{
		StatusCode: http.StatusOK, ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
		Header: http.Header{"Date": {"Wed, 18 Nov 2026 17:56:00 GMT"}, "Content-Type": {"application/json"}},
	}, nil
}

// BenchmarkRequest measures what a request costs from the caller to the network and
// back: everything but the network.
func BenchmarkRequest(b *testing.B) {
	client, err := notion.New(notion.Options{
		Token: "ntn_0123456789abcdefghijklmnopqrstuv", Transport: newBoard(), Rate: 1e9, Burst: 1e9,
	})
	if err != nil {
		b.Fatal(err)
	}
	tasks, err := client.Tasks(b.Context(), boardID, notion.TaskSchema{})
	if err != nil {
		b.Fatal(err)
	}
	log, err := client.Log(b.Context(), boardID)
	if err != nil {
		b.Fatal(err)
	}
	write := claimed("Sandman", dawn)
	for name, request := range map[string]func() error{
		"get a page":   func() error { _, err := tasks.Get(b.Context(), cardID); return err },
		"patch a page": func() error { _, err := tasks.Write(b.Context(), cardID, write); return err },
		"post a page":  func() error { return log.Create(b.Context(), wording.Entry{ID: "1", Title: "Done"}) },
		"post a query": func() error { _, _, err := tasks.Query(b.Context(), notion.Query{}); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := request(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
