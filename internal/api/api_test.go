package api_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/testkit"
)

// TestCodes pins the table of codes, which scripts rely on.
func TestCodes(t *testing.T) {
	for want, codes := range map[[2]int][]api.Code{
		{409, 3}: {
			api.Code(claim.CodeHeld), api.Code(claim.CodeNotOpen), api.Code(claim.CodeLostRace), api.Code(claim.CodeBlockedByDependency),
			api.Code(claim.CodeReserved), api.Code(claim.CodeNothingReady), api.Code(claim.CodeLimitReached),
		},
		{404, 3}: {api.Code(claim.CodeNotFound)}, {502, 6}: {api.CodeNotionRefused}, {409, 4}: {api.CodeClaimLost}, {404, 4}: {api.CodeUnknownClaim},
		{503, 6}: {api.Code(claim.CodeNotionUnavailable), api.Code(claim.CodeJournalUnavailable)},
		{409, 2}: {api.CodeAmbiguousClaim}, {422, 2}: {api.CodeInvalidRequest, api.CodeKeyReused}, {403, 1}: {api.CodeForbiddenAgent},
		{413, 2}: {api.CodeTooLarge}, {405, 2}: {api.CodeWrongMethod}, {415, 2}: {api.CodeWrongMediaType}, {404, 2}: {api.CodeNoRoute},
		{421, 2}: {api.CodeWrongHost}, {503, 5}: {api.CodeBusy, api.CodeStopping}, {500, 1}: {api.CodeInternal}, {0, 5}: {api.CodeUnreachable},
		{0, 2}: {api.CodeUsage}, {0, 1}: {api.CodeFailed, "from_the_future"},
	} {
		for _, code := range codes {
			got := [2]int{code.Status(), code.Exit()}
			testkit.Check(t, got == want, "%s: status and exit code %v, want %v", code, got, want)
		}
	}
}

func TestProblem(t *testing.T) {
	p := api.NewProblem(api.CodeTooLarge, "that is much")
	p.RetryIn(1001 * time.Millisecond)
	got := testkit.Got(json.Marshal(p))(t)
	const want = `{"type":"urn:dibs:problem:too_large","title":"The request is too large","status":413,"detail":"that is much","code":"too_large","retry_after":2}`
	testkit.Same(t, want, string(got), "problem")
	var asError error = p
	back, ok := errors.AsType[*api.Problem](asError)
	testkit.Check(t, ok && back.Error() == "that is much", "as an error it says %q", asError)
}

func TestTime(t *testing.T) {
	kathmandu := time.FixedZone("", 5*3600+45*60)
	for _, tt := range []struct {
		time time.Time
		want string
	}{
		{time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), `"2026-11-20T12:00:00.000Z"`},
		{time.Date(2026, 11, 20, 17, 45, 0, 999999999, kathmandu), `"2026-11-20T12:00:00.999Z"`},
	} {
		got, err := json.Marshal(api.Time{Time: tt.time})
		testkit.Check(t, err == nil && string(got) == tt.want, "Marshal(%v) = %s, %v; want %s", tt.time, got, err, tt.want)
		var back api.Time
		if err := json.Unmarshal(got, &back); err != nil || !back.Equal(tt.time.Truncate(time.Millisecond)) {
			t.Errorf("Unmarshal(%s) = %v, %v", got, back, err)
		}
	}
	got, _ := json.Marshal(api.Claim{})
	testkit.Check(t, !strings.Contains(string(got), "_at"), "times that are not known are written: %s", got)
}

func TestValidateKey(t *testing.T) {
	for key, ok := range map[string]bool{
		"k": true, "a b~!": true, strings.Repeat("k", 200): true,
		"": false, strings.Repeat("k", 201): false, "a\nb": false, "\x7f": false, "é": false,
	} {
		err := api.ValidateKey(key)
		testkit.Check(t, (err == nil) == ok, "ValidateKey(%q) = %v, want accepted: %v", key, err, ok)
	}
}

// What others wrote is text in a spreadsheet and in Markdown, and nothing more.
func TestReportOfHostileTexts(t *testing.T) {
	r := api.Report{
		Agents:  []api.AgentWork{{Agent: "-a,b", Work: api.Work{Lost: 2}}, {Agent: `=HYPERLINK("x")`, Work: api.Work{Completed: 1, MedianSeconds: new(1.5), Tokens: 7}}},
		Blocked: []api.Blocked{{Task: api.TaskRef{Title: "a | b\n# c"}, Why: `<img src=x> [x](javascript:y) &lt;`}},
	}
	var csv, md strings.Builder
	testkit.Must(t, r.Table().CSV(&csv))
	want := "agent,completed,failed,lost,median_seconds,usd,tokens\n\"'=HYPERLINK(\"\"x\"\")\",1,0,0,1.5,0,7\n\"'-a,b\",0,0,2,,0,0\n"
	testkit.Check(t, csv.String() == want, "CSV:\n%s\nwant\n%s", csv.String(), want)
	testkit.Must(t, r.Markdown(&md))
	testkit.Says(t, "the Markdown", md.String(), `| a \| b \# c | `, `| &lt;img src=x\> \[x\](javascript:y) &amp;lt; |`, "## Questions\n\nNone.\n")
}

// A report's first table has the agents, the values of the field, or the tasks, as was asked; for people
// with a total of several and a dash for nothing, for programs without.
func TestReportTables(t *testing.T) {
	half := api.Work{Completed: 1, MedianSeconds: new(1.5), USD: 0.5, Tokens: 7}
	all := api.Report{Total: api.Work{Completed: 2, MedianSeconds: new(1.5), USD: 1, Tokens: 14}, Agents: []api.AgentWork{{Agent: "a"}, {Agent: "b", Work: half}, {Agent: "c", Work: half}}}
	by, tasks, none := all, all, all
	by.By, by.Values = "Area", []api.ValueWork{{Value: "", Work: half}}
	tasks.Tasks = []api.TaskWork{
		{Task: api.TaskRef{ID: "id", Title: "one", Key: "T-1"}, Agent: "b", Outcome: claim.EndFailed, At: api.Time{Time: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)}, Claims: 2, Seconds: 90.5, USD: 0.5, Tokens: 7},
		{Task: api.TaskRef{ID: "id", Title: "held"}, Agent: "c", USD: 1},
	}
	none.Tasks = []api.TaskWork{}
	const head = ",completed,failed,lost,median_seconds,usd,tokens\n"
	const taskHead = "task,title,agent,outcome,at,claims,seconds,usd,tokens\n"
	for name, c := range map[string]struct {
		api.Report
		csv, md string
	}{
		"agents": {all, "agent" + head + "b,1,0,0,1.5,0.5,7\nc,1,0,0,1.5,0.5,7\na,0,0,0,,0,0\n", "## Agents\n\n| agent |"},
		"dashes": {all, "agent", "| a | 0 | 0 | 0 | – | – | – |\n| total | 2 | 0 | 0 | 1.5 | 1 | 14 |\n\n"},
		"values": {by, "Area" + head + ",1,0,0,1.5,0.5,7\n", "## Area\n\n"},
		"tasks":  {tasks, taskHead + "T-1,one,b,failed,2026-03-01T09:00:00Z,2,90.5,0.5,7\nid,held,c,,,0,0,1,0\n", "## Tasks\n\n| task | title |"},
		"none":   {none, taskHead, "## Tasks\n\nNone.\n"},
	} {
		var csv, md strings.Builder
		testkit.Must(t, c.Table().CSV(&csv))
		testkit.Must(t, c.Markdown(&md))
		testkit.Check(t, strings.HasPrefix(csv.String(), c.csv) && (c.csv == "agent" || csv.String() == c.csv), "%s: CSV\n%s\nwant\n%s", name, csv.String(), c.csv)
		testkit.Says(t, name, md.String(), c.md)
	}
	one := all
	one.Agents = one.Agents[:1]
	var md strings.Builder
	testkit.Must(t, one.Markdown(&md))
	testkit.Check(t, !strings.Contains(md.String(), "total"), "a total of one agent:\n%s", md.String())
}

func TestParseUsage(t *testing.T) {
	for text, want := range map[string]claim.Usage{
		"tokens=12000,usd=0.42":           {Tokens: 12000, Micros: 420000},
		" usd=0.000001 \n":                {Micros: 1},
		"usd=1e-1, tokens = 3":            {Tokens: 3, Micros: 100000},
		"tokens=0":                        {},
		`{"tokens":12000,"usd":0.42}`:     {Tokens: 12000, Micros: 420000},
		"{\n  \"usd\": 1000000\n}\n":      {Micros: 1e12},
		`{"usd":0.1}`:                     {Micros: 100000},
		"tokens=1000000000000,usd=0.3333": {Tokens: 1e12, Micros: 333300},
	} {
		got, err := api.ParseUsage(text)
		testkit.Check(t, err == nil && got.Report() == want, "%q: %+v, %v", text, got, err)
	}
	for text, want := range map[string]string{
		"":                     `"": want tokens=N,usd=X`,
		"much":                 `"much": want tokens=N,usd=X`,
		"tokens=":              `"tokens=": want one number, as in tokens=12000,usd=0.42`,
		"tokens=1.5":           `"tokens=1.5": want one number, as in tokens=12000,usd=0.42`,
		"usd=1,usd=2":          `"usd=2": want one number, as in tokens=12000,usd=0.42`,
		"usd=1e999":            `"usd=1e999": want one number, as in tokens=12000,usd=0.42`,
		"tokens=-1":            "tokens=-1: want 0 to 1000000000000",
		"tokens=1000000000001": "tokens=1000000000001: want 0 to 1000000000000",
		"usd=-0.01":            "usd=-0.01: want 0 to 1000000",
		"usd=NaN":              "usd=NaN: want 0 to 1000000",
		"usd=+Inf":             "usd=+Inf: want 0 to 1000000",
		"usd=1000001":          "usd=1000001: want 0 to 1000000",
		`{"usd":-1}`:           "usd=-1: want 0 to 1000000",
		`{"usd":1,"cost":2}`:   `want {"tokens":N,"usd":X}: json: unknown field "cost"`,
		`{"usd":1} 2`:          `want {"tokens":N,"usd":X}, and nothing after it`,
		`{"usd":"1"}`:          `want {"tokens":N,"usd":X}: json: cannot unmarshal string into Go struct field Usage.usd of type float64`,
	} {
		got, err := api.ParseUsage(text)
		testkit.Check(t, got == nil && err != nil && err.Error() == want, "%q: %+v, %v; want %s", text, got, err, want)
	}
}

func TestUsageIsShown(t *testing.T) {
	for want, u := range map[string]api.Usage{
		"12000 tokens, 0.42 USD": {Tokens: 12000, USD: 0.42},
		"3 tokens":               {Tokens: 3},
		"0.000001 USD":           {USD: 0.000001},
		"7.00 USD":               {USD: 7},
		"0.50 USD":               {USD: 0.5},
	} {
		got := u.String()
		testkit.Check(t, got == want, "%+v: %q, want %q", u, got, want)
	}
	for _, micros := range []int64{1, 333333, 420000, 999999999999} {
		got := api.Micros(api.USD(micros))
		testkit.Check(t, got == micros, "%d becomes %d", micros, got)
	}
	got := api.Micros(math.Nextafter(0.29, 0))
	testkit.Check(t, got == 290000, "0.29 becomes %d", got)
}

// TestFit makes what programs send fit, and nothing else of it.
func TestFit(t *testing.T) {
	type inner struct {
		Tokens int64 `json:"tokens,omitempty"`
	}
	type request struct {
		api.Filter
		Task    string         `json:"task"`
		Minutes int            `json:"minutes,omitempty"`
		Seconds float64        `json:"seconds,omitempty"`
		Done    bool           `json:"done,omitempty"`
		Usage   *inner         `json:"usage,omitempty"`
		Fields  map[string]any `json:"fields,omitempty"`
		Body    string         `json:"body,omitempty" fit:"exact"`
		At      api.Time       `json:"at"`
	}
	for given, want := range map[string]string{
		`{"task":"T-2 ","minutes":45.0}`:                             `{"minutes":45,"task":"T-2"}`,
		`{"minutes":"3","seconds":"1.5","done":"true"}`:              `{"done":true,"minutes":3,"seconds":1.5}`,
		`{"minutes":1e2}`:                                            `{"minutes":100}`,
		`{"minutes":"3.0"}`:                                          `{"minutes":3}`,
		`{"minutes":null,"seconds":"","done":"","where":"","at":""}`: `{}`,
		`{"usage":"null","fields":" ","task":null}`:                  `{}`,
		`{"where":"[\"a=b \"]","usage":"{\"tokens\":7.0}"}`:          `{"usage":{"tokens":7},"where":["a=b"]}`,
		`"{\"task\":\"T-2\"}"`:                                       `{"task":"T-2"}`,
		`{"fields":"{\"n\":1.0,\"t\":\" x \",\"u\":null}"}`:          `{"fields":{"n":1.0,"t":" x ","u":null}}`,
		`{"where":"a=b "}`:                                           `{"where":["a=b"]}`,
		`{"where":{"b":"x ","a":1.5,"c":true}}`:                      `{"where":["a=1.5","b=x","c=true"]}`,
		`{"where":{}}`:                                               `{"where":[]}`,
		// these stay
		`{"where":{"a":"x","b":["y"]}}`: ``, `{"where":{"a":null}}`: ``, `{"where":{"a=b":"c"}}`: ``,
		`{"task":"3","minutes":3}`:                                      ``,
		`{"task":"","body":"    code\n","text":" ","fields":{"a":" "}}`: ``,
		`{"minutes":1.5,"seconds":2.0}`:                                 ``,
		`{"minutes":"many","done":"yes","where":7}`:                     ``,
		`{"minutes":9007199254740993.0}`:                                ``,
		`{"more":null,"at":"2026-11-25T15:00:00Z"}`:                     ``,
		`{"task":"a "`: ``, `{"task":"a "}{}`: ``, `null`: ``, `[]`: ``, `7`: ``, ``: ``,
	} {
		if want == "" {
			want = given
		}
		got := string(api.Fit([]byte(given), reflect.TypeFor[request]()))
		testkit.Check(t, got == want, "%s becomes %s, want %s", given, got, want)
	}
}

// TestFitKeepsTexts sends what people read: how it is indented is part of it.
func TestFitKeepsTexts(t *testing.T) {
	for _, given := range []struct {
		op    *api.Operation
		field string
	}{
		{api.OpSend.Operation, "text"}, {api.OpComment.Operation, "text"}, {api.OpAsk.Operation, "text"},
		{api.OpOffer.Operation, "text"}, {api.OpAccept.Operation, "note"}, {api.OpDecline.Operation, "reason"},
		{api.OpComplete.Operation, "summary"}, {api.OpReview.Operation, "note"}, {api.OpRelease.Operation, "reason"},
		{api.OpBlock.Operation, "reason"}, {api.OpFail.Operation, "reason"}, {api.OpRenew.Operation, "progress"},
		{api.OpReopen.Operation, "note"}, {api.OpReopenFailed.Operation, "note"}, {api.OpSweep.Operation, "note"},
		{api.OpPause.Operation, "reason"}, {api.OpAddTask.Operation, "body"},
	} {
		sent := `{"` + given.field + `":"    indented\n  more\n"}`
		got := string(given.op.Fit([]byte(sent)))
		testkit.Check(t, got == sent, "%s: %s becomes %s", given.op.Name, sent, got)
	}
	evidence := `{"evidence":["  + indented"]}`
	got := string(api.OpComplete.Fit([]byte(evidence)))
	testkit.Check(t, got == evidence, "%s becomes %s", evidence, got)
}

// TestCanonical has bodies that this program sends stay: keys may be in use when it is replaced.
func TestCanonical(t *testing.T) {
	sent := testkit.Got(json.Marshal(api.AddRequest{
		Agent: "Sandman", Title: "<a> & b ", Body: "  x\n", Fields: map[string]any{"n": json.Number("9007199254740993"), "a": []string{"b"}},
	}))(t)
	for _, body := range []string{string(sent), `{"title":"x","more":1}`, `{"title":7}`, `{"title":"x"}{}`, ``} {
		got := string(api.OpAddTask.Canonical([]byte(body)))
		testkit.Check(t, got == body, "%s becomes %s", body, got)
	}
	got := string(api.OpAddTask.Canonical([]byte(`{"for":"Jo\u0308rg","title":"x"}`)))
	testkit.Check(t, got == "{\"title\":\"x\",\"for\":\"J\u00f6rg\"}", "the name becomes %s", got)
}
