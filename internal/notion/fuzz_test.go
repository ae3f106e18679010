package notion

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/notion/transport"
	"dibs/internal/notion/transport/transporttest"
	"dibs/internal/task"
)

// secret is a token that a server repeats.
const secret = "ntn_0123456789abcdefghijklmnopqrstuv"

// FuzzWriteIsReadBack writes claims to an emulated database and reads them back,
// both where claimed_by is a text and where it is a select.
func FuzzWriteIsReadBack(f *testing.F) {
	texts, selects := newTable(f, "rich_text"), newTable(f, "select")
	now := time.Date(2026, 11, 20, 9, 30, 17, 123e6, time.UTC).UnixMilli()
	f.Add(false, uint8(1), "Sandman", now, "01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", int64(1800))
	f.Add(true, uint8(1), "claude-chat-7K9X", now, "void 01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", int64(90))
	f.Add(false, uint8(3), "Zoë ☂ 🦊", now, "done 01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", int64(1))
	f.Add(true, uint8(0), "", int64(0), "", int64(0))
	f.Add(true, uint8(4), "a, b", int64(1), " ", int64(-60))
	f.Add(false, uint8(2), strings.Repeat("🦊", 100), int64(253402300799999), strings.Repeat("x", 1999), int64(365*24*3600))
	f.Fuzz(func(t *testing.T, choice bool, status uint8, agent string, millis int64, token string, seconds int64) {
		at, timeout := time.UnixMilli(millis).UTC(), time.Duration(seconds)*time.Second
		const year = 365 * 24 * 3600
		switch {
		case agent != "" && task.ValidateAgent(agent) != nil,
			!utf8.ValidString(token) || !fits(token, spanLimit),
			at.Year() < 1970 || at.Year() > 9999,
			seconds > year || seconds < -year:
			return // not what the protocol writes
		}
		in := texts
		if choice {
			in = selects
		}
		want := task.Task{
			Status: task.Statuses[int(status)%len(task.Statuses)], ClaimedBy: agent, ClaimedAt: at.Truncate(time.Minute),
			Token: strings.TrimSpace(token), Timeout: max(0, (timeout + time.Minute - 1).Truncate(time.Minute)),
		}
		before := need(in.Get(t.Context(), in.page))(t)
		written, err := in.Write(t.Context(), in.page, claim.Write{
			Status: &want.Status, ClaimedBy: &agent, ClaimedAt: &at, Token: &token, Timeout: &timeout,
		})
		refused, ok := errors.AsType[*claim.StoreError](err)
		switch {
		case ok && choice && (strings.Contains(agent, ",") || !fits(agent, 100)):
			// No option can have that name, so nothing may have been written.
			if refused.Kind != claim.Refused || refused.Landed != claim.LandedNo {
				t.Errorf("error of kind %d, landed %s: %v", refused.Kind, refused.Landed, err)
			}
			want = claimed(before.Task)
		case err != nil:
			t.Fatal(err)
		default:
			same(t, want, claimed(written.Task), "the answer shows")
		}
		read := need(in.Get(t.Context(), in.page))(t)
		same(t, want, claimed(read.Task), "the page shows")
	})
}

// table is a tasks database with one page.
type table struct {
	*Tasks
	page task.ID
}

// newTable makes a tasks database whose claimed_by is of the given type.
func newTable(f *testing.F, claimedBy string) table {
	f.Helper()
	type object = map[string]any
	em := need(emulator.New(emulator.Options{}))(f)
	f.Cleanup(func() { em.Close() })
	id := need(em.Seed("empty"))(f).Tasks
	must(f, em.EditSchema(id, object{"claimed_by": object{claimedBy: object{}}}))
	client := need(New(Options{Token: em.Token(), Transport: em.Client().Transport, Rate: 1e6, Burst: 1e6}))(f)
	tasks := need(client.Tasks(f.Context(), id, TaskSchema{}))(f)
	return table{tasks, task.ID(need(em.CreatePage(id, nil))(f))}
}

// claimed is the part of a task that a claim writes.
func claimed(t task.Task) task.Task {
	return task.Task{Status: t.Status, ClaimedBy: t.ClaimedBy, ClaimedAt: t.ClaimedAt, Token: t.Token, Timeout: t.Timeout}
}

// everyKind is a page with properties of every kind, as Notion shows them.
const everyKind = `{"object":"page","id":"2f835e81-2bbb-81b6-9700-e18108a40b1f","created_time":"2026-11-18T17:51:00.000Z",
"last_edited_time":"2026-11-18T17:56:00.000Z","created_by":{"object":"user","id":"00000000-0000-4000-8000-0000000000f1"},
"cover":null,"icon":null,"parent":{"type":"data_source_id","data_source_id":"2f835e81-2bbb-81b6-9700-e18108a40b10","database_id":"2f835e81-2bbb-81b6-9700-e18108a40b12"},
"in_trash":false,"is_archived":false,"archived":false,"is_locked":false,"url":"https://www.notion.so/x","public_url":null,"properties":{
"Name":{"id":"title","type":"title","title":[{"type":"text","text":{"content":"Ship it","link":null},"annotations":{"bold":false},"plain_text":"Ship it","href":null}]},
"status":{"id":"U%60%3BC","type":"status","status":{"id":"c58aef64","name":"IN_PROGRESS","color":"green"}},
"claimed_by":{"id":"by","type":"rich_text","rich_text":[{"type":"mention","plain_text":"@Oracle"},{"plain_text":" "}]},
"claimed_at":{"id":"at","type":"date","date":{"start":"2026-11-18T17:51:00.000+01:00","end":null,"time_zone":null}},
"claim_token":{"id":"to","type":"rich_text","rich_text":[]},"claim_timeout_minutes":{"id":"ti","type":"number","number":90.5},
"priority":{"id":"pr","type":"select","select":{"id":"1","name":"High","color":"red"}},
"depends_on":{"id":"de","type":"relation","relation":[{"id":"2f835e81-2bbb-81b6-9700-e18108a40b11"}],"has_more":true},
"Owner":{"id":"ow","type":"people","people":[{"object":"user","id":"00000000-0000-4000-8000-0000000000f1","name":"Maria"}]},
"Place":{"id":"pl","type":"place","place":null},"Go":{"id":"bu","type":"button","button":{}},"Sum":{"id":"ro","type":"rollup","rollup":{"type":"unsupported"}},
"Is":{"id":"fo","type":"formula","formula":{"type":"string","string":"✅"}},"No type":{"id":"no"},"Key":{"id":"ke","type":"unique_id","unique_id":{"prefix":"X","number":7}}}}`

// FuzzAnswer reads good answers as the client does. Whatever the answer, there is a task, or an error
// that says so in one line.
func FuzzAnswer(f *testing.F) {
	column := func(id, kind string) Column { return Column{ID: id, Name: id, Type: kind} }
	codec, err := newCodec(Database{Source: "2f835e81-2bbb-81b6-9700-e18108a40b10"}, TaskSchema{}, taskColumns{
		title: column("title", typeTitle), status: column("U%60%3BC", typeStatus), claimedBy: column("by", typeRichText),
		claimedAt: column("at", typeDate), timeout: column("ti", typeNumber), token: column("to", typeRichText),
		priority: column("pr", typeSelect), dependsOn: column("de", typeRelation),
	}, nil)
	if err != nil {
		f.Fatal(err)
	}
	const pageKind, queryKind, sourceKind = 0, 1, 2
	f.Add(uint8(pageKind), everyKind)
	for _, date := range []string{`"2026-11-18"`, `"2026-11-18T17:51"`, `"2026-11-18T17:51:00"`, `"soon"`, `null`} {
		f.Add(uint8(pageKind), strings.Replace(everyKind, `"2026-11-18T17:51:00.000+01:00"`, date, 1))
	}
	f.Add(uint8(pageKind), strings.NewReplacer(`"type":"status"`, `"type":"select"`, `:90.5`, `:1e300`, `"in_trash":false`, `"in_trash":true`).Replace(everyKind))
	f.Add(uint8(pageKind), `null`)
	f.Add(uint8(queryKind), `{"object":"list","type":"page_or_database","page_or_database":{},"has_more":true,"next_cursor":"c","results":[`+everyKind+
		`],"request_status":{"type":"incomplete","incomplete_reason":"query_result_limit_reached"}}`)
	f.Add(uint8(queryKind), `{"object":"list","type":"block","results":[{"object":"page","properties":{"":{}}}]}`)
	f.Add(uint8(sourceKind), `{"object":"data_source","id":"2f835e81-2bbb-81b6-9700-e18108a40b10","title":[{"plain_text":"Tasks"}],"in_trash":false,"url":"u","properties":{
"Name":{"id":"title","name":"Name","type":"title","title":{}},"status":{"id":"s","type":"status","status":{"options":[{"name":"OPEN"}],"groups":[]}},
"place":{"id":"p","type":"place","place":{}},"r":{"id":"r","type":"relation","relation":{"data_source_id":"x","single_property":{}}},"odd":{},"null":null}}`)
	f.Fuzz(func(t *testing.T, kind uint8, body string) {
		var pages []rawPage
		switch kind % 3 {
		case pageKind:
			shown := notedPage{property: "by"}
			if read([]byte(body), "page", &shown) == nil {
				pages = append(pages, shown.rawPage)
			}
		case queryKind:
			var answer rawRows
			if read([]byte(body), "list", &answer) == nil {
				pages = answer.Results
			}
		case sourceKind:
			var shown rawSchema
			if read([]byte(body), "data_source", &shown) == nil {
				shown.columns() // must not panic
			}
		}
		for i := range pages {
			for _, p := range pages[i].Properties {
				p.value() // must not panic
			}
			read, err := codec.task(&pages[i])
			if err != nil {
				oneShortLine(t, storeError(err))
				continue
			}
			if read.ID == "" || read.Timeout < 0 || read.Timeout > longestTimeout || strings.TrimSpace(read.ClaimedBy) != read.ClaimedBy {
				t.Errorf("a task that cannot be: %+v", read)
			}
		}
	})
}

// FuzzFailure reads answers that are failures. There is always an error of the
// store that says so in one line, without the token, and tells what may have
// become of a write.
func FuzzFailure(f *testing.F) {
	saved := map[string]any{"retry_guidance": []any{"The change was saved."}, "committed_resource_id": "x"}
	f.Add(401, transporttest.Failure("unauthorized", "API token is invalid.", nil), "", "", "")
	f.Add(400, transporttest.Failure("validation_error", "body failed validation.\nFix one:\n\tbody.x\u2028", nil), "", "", "")
	f.Add(400, transporttest.Failure("validation_error", "Can't edit block that is archived. You must unarchive the block before editing.", nil), "", "", "")
	f.Add(404, transporttest.Failure("object_not_found", "Could not find page with ID: "+secret, nil), "", "", "")
	f.Add(404, strings.Replace(transporttest.Failure("object_not_found", "For "+secret, nil), "ntn_", `\u006e\u0074n_`, 1), "", "", "")
	f.Add(409, transporttest.Failure("conflict_error", "Conflict occurred while saving. Please try again.", nil), "", "", "")
	f.Add(429, transporttest.Failure("rate_limited", "slow", map[string]any{"rate_limit_reason": "public_api_request_blocked", "retry_after": "7"}), "30", "", "")
	f.Add(529, transporttest.Failure("service_overload", "slow", nil), "Fri, 20 Nov 2026 08:01:30 GMT", "Fri, 20 Nov 2026 08:00:00 GMT", "")
	f.Add(503, transporttest.Failure("service_unavailable", "saved", saved), "-1e400", "x", "")
	f.Add(503, `{"object":"error","code":"a\nb","message":"m","request_id":"r\r\nr","additional_data":{"retry_guidance":[null,{}]}}`, "NaN", "", "a121da037c3863ed-LHR")
	f.Add(502, "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n</html>", "", "", "a121da037c3863ed-LHR")
	f.Add(502, "", "", "", secret)
	f.Add(200, "Bearer "+secret, "1", "", "")
	f.Add(301, `{"object":"error"}`, "", "", "")
	f.Fuzz(func(t *testing.T, status int, body, after, date, ray string) {
		if status < 200 || status > 599 {
			return // what net/http does not take for an answer, or not for the last one
		}
		server := transporttest.Server(func(*http.Request) (*http.Response, error) {
			return transporttest.Reply(status, body, "Retry-After", after, "Date", date, "Cf-Ray", ray, "X-Notion-Request-Id", ray), nil
		})
		req := transporttest.Request(t, t.Context(), http.MethodPatch, transporttest.PagePath, `{"properties":{}}`)
		carrier := need(transport.New(transport.Options{Token: secret, Transport: server}))(t)
		_, err := carrier.RoundTrip(req)
		if err == nil {
			if status != http.StatusOK || !json.Valid([]byte(body)) {
				t.Fatalf("status %d and body %q pass for a good answer", status, body)
			}
			return
		}
		failed := storeError(err)
		oneShortLine(t, failed)
		if strings.Contains(failed.Error(), secret) {
			t.Errorf("the error has the token: %s", failed)
		}
		if failed.RetryAfter < 0 || failed.RetryAfter > 15*time.Minute {
			t.Errorf("retry after %v", failed.RetryAfter)
		}
		refused := status == 529 || status >= 300 && status < 500 && status != http.StatusRequestTimeout && status != http.StatusConflict
		switch failed.Landed {
		case claim.LandedYes:
			if status < 500 {
				t.Errorf("status %d: landed", status)
			}
		default:
			if (failed.Landed == claim.LandedNo) != refused {
				t.Errorf("status %d: landed %s", status, failed.Landed)
			}
		}
	})
}

// oneShortLine checks an error that goes into logs and onto terminals.
func oneShortLine(t *testing.T, err error) {
	t.Helper()
	text := err.Error()
	if text == "" || strings.ContainsAny(text, "\n\r\v\f\u0085\u2028\u2029") || utf8.RuneCountInString(text) > 2000 {
		t.Errorf("not a line of bearable length: %q", text)
	}
}
