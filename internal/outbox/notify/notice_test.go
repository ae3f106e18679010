package notify_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"dibs/config"
	"dibs/internal/claim"
	"dibs/internal/outbox"
	"dibs/internal/outbox/notify"

	"github.com/google/go-cmp/cmp"
)

// A person is wanted where nothing goes on without one, and where an agent lost its task.
func TestOf(t *testing.T) {
	for name, tt := range map[string]struct {
		fact claim.Fact
		want []config.Notice
	}{
		"asked":                    {claim.Fact{Kind: claim.KindBlocked, Asked: true}, []config.Notice{config.NoticeAsk, config.NoticeBlock}},
		"blocked":                  {claim.Fact{Kind: claim.KindBlocked}, []config.Notice{config.NoticeBlock}},
		"failed for good":          {claim.Fact{Kind: claim.KindFailed, Tried: claim.TriedOver}, []config.Notice{config.NoticeBlock}},
		"failed, to be tried":      {claim.Fact{Kind: claim.KindFailed, Tried: claim.TriedAgain}, nil},
		"up for review":            {claim.Fact{Kind: claim.KindReview}, []config.Notice{config.NoticeReview}},
		"lost":                     {claim.Fact{Kind: claim.KindLost}, []config.Notice{config.NoticeLost}},
		"stale, and taken":         {claim.Fact{Kind: claim.KindOverridden}, []config.Notice{config.NoticeLost}},
		"stale, and opened":        {claim.Fact{Kind: claim.KindSwept, Claim: "c", Tried: claim.TriedAgain}, []config.Notice{config.NoticeLost}},
		"stale once too often":     {claim.Fact{Kind: claim.KindSwept, Claim: "c", Tried: claim.TriedOver}, []config.Notice{config.NoticeLost, config.NoticeBlock}},
		"swept off a copied page":  {claim.Fact{Kind: claim.KindSwept, Tried: claim.TriedAgain}, nil},
		"can never become ready":   {claim.Fact{Kind: claim.KindCommented, By: claim.Sweeper}, []config.Notice{config.NoticeStuck}},
		"completed":                {claim.Fact{Kind: claim.KindCompleted, Tried: claim.TriedOver}, nil},
		"refused a task":           {claim.Fact{Kind: claim.KindDenied}, nil},
		"given back by the agent":  {claim.Fact{Kind: claim.KindReleased}, nil},
		"said something in Notion": {claim.Fact{Kind: claim.KindCommented}, nil},
	} {
		if diff := cmp.Diff(tt.want, notify.Of(tt.fact)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// taker takes messages, unless it answers otherwise.
type taker struct {
	bodies  []string
	headers []http.Header
	answer  func(*http.Request) (*http.Response, error)
}

func (k *taker) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	k.bodies, k.headers = append(k.bodies, string(body)), append(k.headers, req.Header)
	if k.answer != nil {
		return k.answer(req)
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, err
}

func open(t *testing.T, o notify.Options, c config.Receiver) *notify.Receiver {
	t.Helper()
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	all, err := notify.Open([]config.Receiver{c}, o)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// intent is a notice that is owed, with others that go along.
func intent(facts ...claim.Fact) outbox.Intent {
	in := outbox.Intent{ID: facts[0].ID, Fact: facts[0]}
	for _, f := range facts[1:] {
		in.With = append(in.With, outbox.Intent{ID: f.ID, Fact: f})
	}
	return in
}

var (
	question = claim.Fact{ID: "F", Kind: claim.KindBlocked, Asked: true, Agent: "Sandman", Task: "a", Title: "Alpha <!here>", URL: "https://notion.example/a?b=c&d|e", Summary: "which & <!channel>\x1b[31m\nof | two?"}
	review   = claim.Fact{ID: "G", Kind: claim.KindReview, Agent: "Oracle", Task: "b", Title: "Beta", URL: "https://notion.example/b", Summary: "have a look"}
)

// Each receiver gets its own form, in which others' words ring no bells.
func TestForms(t *testing.T) {
	for name, tt := range map[string]struct {
		receiver     config.Receiver
		of           outbox.Intent
		body, header string // of the header: Title, Click
	}{
		"slack": {config.Receiver{URL: "https://hooks.slack.com/services/T0/B0/hush"}, intent(question, review),
			`{"text":"Sandman asks about “Alpha \u0026lt;!here\u0026gt;”: which \u0026amp; \u0026lt;!channel\u0026gt;[31m of | two? \u003chttps://notion.example/a?b=c\u0026amp;d%7Ce|open\u003e\n` +
				`Oracle finished “Beta”, for a person to review: have a look \u003chttps://notion.example/b|open\u003e","unfurl_links":false,"unfurl_media":false}`, ""},
		"text, of one": {config.Receiver{URL: "https://ntfy.example/hush"}, intent(review),
			"Oracle finished “Beta”, for a person to review: have a look\nhttps://notion.example/b", "dibs: to review https://notion.example/b"},
		"text, of two": {config.Receiver{URL: "https://ntfy.example/hush"}, intent(question, review),
			"Sandman asks about “Alpha <!here>”: which & <!channel>[31m of | two?\nhttps://notion.example/a?b=c&d|e\nOracle finished “Beta”, for a person to review: have a look\nhttps://notion.example/b",
			"dibs: 2 notices https://notion.example/a?b=c&d|e"},
		"json": {config.Receiver{URL: "http://127.0.0.1/hook", Form: config.FormJSON}, intent(review),
			`{"notices":[{"id":"G","event":"review","at":"0001-01-01T00:00:00Z","agent":"Oracle","task":"b","title":"Beta","url":"https://notion.example/b","text":"Oracle finished “Beta”, for a person to review: have a look"}],` +
				`"text":"Oracle finished “Beta”, for a person to review: have a look\nhttps://notion.example/b"}`, ""},
	} {
		var took taker
		if _, err := open(t, notify.Options{Transport: &took}, tt.receiver).Send(t.Context(), tt.of); err != nil {
			t.Fatal(err)
		}
		h := took.headers[0]
		if diff := cmp.Diff(tt.body, took.bodies[0]); diff != "" || h.Get("Idempotency-Key") != tt.of.ID || strings.TrimSpace(h.Get("Title")+" "+h.Get("Click")) != tt.header {
			t.Errorf("%s: %v (-want +got):\n%s", name, h, diff)
		}
	}
}

// What a receiver answers decides when it is asked again; a redirection is not followed, and silence
// ends. The errors do not have the address.
func TestAnswers(t *testing.T) {
	status := func(code int, header ...string) func(*http.Request) (*http.Response, error) {
		return func(req *http.Request) (*http.Response, error) {
			h := http.Header{}
			if len(header) > 0 {
				h.Set(header[0], header[1])
			}
			return &http.Response{StatusCode: code, Header: h, Body: http.NoBody, Request: req}, nil
		}
	}
	for says, tt := range map[string]struct {
		answer func(*http.Request) (*http.Response, error)
		again  time.Duration
		kind   claim.StoreErrorKind
	}{
		"it answered 429 Too Many Requests":    {status(429, "Retry-After", "1200"), 20 * time.Minute, claim.Refused},
		"it answered 503 Service Unavailable":  {status(503, "Retry-After", "86400"), time.Hour, claim.Refused},
		"it answered 404 Not Found":            {status(404), 0, claim.Refused},
		"a redirection, which is not followed": {status(302, "Location", "https://elsewhere.example/"), 0, claim.Unavailable},
		"connection refused":                   {func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }, 0, claim.Unavailable},
		"no answer within 10s": {func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, 0, claim.Unavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			took := taker{answer: tt.answer}
			began := time.Now()
			_, err := open(t, notify.Options{Transport: &took}, config.Receiver{URL: "https://ntfy.example/hush"}).Send(t.Context(), intent(review))
			failed, ok := errors.AsType[*claim.StoreError](err)
			if !ok || failed.Kind != tt.kind || failed.Landed != claim.LandedNo || failed.RetryAfter != tt.again || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hush") ||
				len(took.bodies) != 1 || time.Since(began) > 10*time.Second {
				t.Errorf("%+v after %v and %d requests, want %q, to be tried again in %v", err, time.Since(began), len(took.bodies), says, tt.again)
			}
		})
	}
}

// A receiver wants what it is told of, its kind is that of its address, and no secret is in its name.
func TestReceivers(t *testing.T) {
	all, err := notify.Open([]config.Receiver{
		{URL: "https://ntfy.example/hush"}, {URL: "https://ntfy.example/hush2", On: []config.Notice{config.NoticeReview}}, {Command: "TOKEN=hush /bin/tell hush"},
	}, notify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	names := fmt.Sprint(all[0], "; ", all[1], "; ", all[2])
	if names != "https://ntfy.example; https://ntfy.example (2); command tell" || all[0].Kind() == all[1].Kind() || strings.Contains(fmt.Sprint(all[0].Kind()), "hush") {
		t.Errorf("they are %s, and of the kinds %s, %s", names, all[0].Kind(), all[1].Kind())
	}
	if !all[0].Wants(question) || all[1].Wants(question) || !all[1].Wants(review) || all[0].Wants(claim.Fact{Kind: claim.KindCompleted}) {
		t.Error("they want what they are not told of, or not what they are")
	}
	if terms := all[0].Terms(); terms.Gather != time.Minute || terms.Keep != 24*time.Hour || terms.Name != "https://ntfy.example" {
		t.Errorf("the terms are %+v", terms)
	}
}

// A command gets the text on its standard input and the rest in its environment, without secrets.
// Its exit code decides.
func TestCommandIsTold(t *testing.T) {
	var out strings.Builder
	o := notify.Options{Output: &out, Environment: []string{"PATH=" + os.Getenv("PATH")}}
	t.Setenv("NOTION_TOKEN", "hush")
	hostile := review
	hostile.Summary = "'; touch evil $(touch evil)"
	r := open(t, o, config.Receiver{Command: `cat; echo "$DIBS_EVENT|$DIBS_TASK|$DIBS_TASK_URL|$DIBS_TEXT|$NOTION_TOKEN"; exit 3`})
	_, err := r.Send(t.Context(), intent(hostile, question))
	const first, second = "Oracle finished “Beta”, for a person to review: '; touch evil $(touch evil)\nhttps://notion.example/b", "Sandman asks about “Alpha <!here>”: which & <!channel>[31m of | two?\nhttps://notion.example/a?b=c&d|e"
	want := first + "\n" + second + "\nreview ask|b a|https://notion.example/b https://notion.example/a?b=c&d|e|" + first + "\n" + second + "|\n"
	if diff := cmp.Diff(want, out.String()); diff != "" || err == nil || err.Error() != "exit status 3" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := open(t, o, config.Receiver{Command: "true"}).Send(t.Context(), intent(review)); err != nil {
		t.Error(err)
	}
}

// A message is never longer than ntfy takes, and says how many notices it leaves out. Links that
// are none are left out, too.
func TestLongMessage(t *testing.T) {
	var took taker
	r := open(t, notify.Options{Transport: &took}, config.Receiver{URL: "https://ntfy.example/topic"})
	fact := claim.Fact{ID: "F", Kind: claim.KindBlocked, Agent: "Sandman", Title: strings.Repeat("Ä", 5000), URL: "javascript:alert(1)", Summary: "no"}
	in := outbox.Intent{ID: "F", Fact: fact}
	for range 30 {
		in.With = append(in.With, outbox.Intent{ID: "G", Fact: fact})
	}
	if _, err := r.Send(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	body := took.bodies[0]
	if len(body) > 4096 || len(body) < 2000 || strings.Contains(body, "javascript") || !strings.HasSuffix(body, "\n… and 27 more: dibs log has them") {
		t.Errorf("%d bytes: %s", len(body), body)
	}
}

// A command that takes too long is killed with all that it started.
func TestCommandIsKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "alive")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	r := open(t, notify.Options{}, config.Receiver{Command: "exec 3>" + path + "; sleep 300 & echo >&3; sleep 300"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tested := make(chan error)
	go func() { tested <- r.Test(ctx) }()
	alive, err := os.Open(path) // waits until the command has opened it, too
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	if _, err := alive.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-tested; !errors.Is(err, context.Canceled) {
		t.Errorf("the command that was killed: %v", err)
	}
	if err := alive.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(alive); err != nil { // the end comes once nobody has it open
		t.Errorf("something that the command started is alive: %v", err)
	}
}
