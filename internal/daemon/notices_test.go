package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/daemon"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// outside is the place where receivers of notices are.
type outside struct {
	began time.Time

	mu sync.Mutex
	// answer decides on a POST; nil takes it.
	answer func(ctx context.Context) (status int, header http.Header, err error)
	posts  []post // all that came, failed ones, too
}

// post is a POST to a receiver.
type post struct {
	at     time.Duration // since the beginning
	to     string
	header http.Header
	body   string
}

func (o *outside) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil { // as in the request that follows a redirection
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	o.mu.Lock()
	answer := o.answer
	o.posts = append(o.posts, post{time.Since(o.began).Truncate(time.Second), req.URL.String(), req.Header, string(body)})
	o.mu.Unlock()
	status, header, err := http.StatusOK, http.Header(nil), error(nil)
	if answer != nil {
		status, header, err = answer(req.Context())
	}
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Header: header, Body: http.NoBody, Request: req}, nil
}

func (o *outside) answers(answer func(context.Context) (int, http.Header, error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answer = answer
}

// came returns the POSTs since it was last called.
func (o *outside) came() []post {
	o.mu.Lock()
	defer o.mu.Unlock()
	posts := o.posts
	o.posts = nil
	return posts
}

func refuses(context.Context) (int, http.Header, error) {
	return 0, nil, errors.New("connection refused")
}

const (
	slackURL = "https://hooks.slack.com/services/T0/B0/hush"
	ntfyURL  = "https://ntfy.example/hush-topic"
)

// telling returns the options of a daemon on a board with a status for review, and the place where
// its receivers are.
func (w *world) telling(receivers ...config.Receiver) (daemon.Options, *outside) {
	w.Helper()
	mustDo(w, w.notion.AddOption(w.tasks, "status", "REVIEW"))
	o, out := w.options(func(c *config.Config) {
		quiet(c)
		c.Tasks.Statuses.Review = "REVIEW"
		c.Notify = receivers
		mustDo(w, c.Validate())
	}), &outside{began: time.Now()}
	o.Outside = out
	return o, out
}

// asks has an agent claim a new task and ask about it.
func (n *node) asks(title, text string) (task string) {
	n.w.Helper()
	task = n.w.add(title, nil)
	n.sync()
	n.mustClaim("Sandman", task)
	_, err := n.ask("Sandman", task, text, "")
	mustDo(n.w, err)
	return task
}

// Each receiver is told of what it is to be told, once, in its own form: what happens within a
// minute in one message. Nothing shows the addresses, and others' words ring no bells.
func TestNotices(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		o, out := w.telling(
			config.Receiver{URL: slackURL},
			config.Receiver{URL: ntfyURL, On: []config.Notice{config.NoticeReview}},
			config.Receiver{URL: "http://127.0.0.1/hook", Form: config.FormJSON, On: []config.Notice{config.NoticeLost, config.NoticeReview}},
		)
		var log bytes.Buffer
		o.Log = slog.New(slog.NewTextHandler(io.MultiWriter(&log, w.Output()), nil))
		n := w.start(o)
		asked := n.asks("Alpha <!here>", "which & <!channel>\x1b[31m\nof | two?")
		time.Sleep(2 * time.Minute)
		link := n.task(asked).URL
		want := fmt.Sprintf("Sandman asks about “Alpha &lt;!here&gt;”: which &amp; &lt;!channel&gt;[31m of | two? <%s|open>", link)
		posts := out.came()
		if len(posts) != 1 || posts[0].to != slackURL || slackText(w, posts[0]) != want || posts[0].header.Get("Idempotency-Key") == "" {
			w.Fatalf("a question was told as %+v, want once\n%s", posts, want)
		}

		blocked, reviewed, lost := w.add("Beta", nil), w.add("Gamma", nil), w.add("Delta", nil)
		n.sync()
		cl := n.mustClaim("Oracle", lost)
		_, err := client.Do(w.Context(), n.Client, api.OpBlock, api.On(string(n.mustClaim("Sandman", blocked).ID), "", api.BlockRequest{Reason: "no key"}))
		mustDo(w, err)
		time.Sleep(20 * time.Second)
		_, err = client.Do(w.Context(), n.Client, api.OpReview, api.On(string(n.mustClaim("Sandman", reviewed).ID), "", api.ReviewRequest{Note: "have a look"}))
		mustDo(w, err)
		w.edit(lost, map[string]any{"claimed_by": text("rich_text", "Ada")})
		n.sync()
		if err := n.complete(cl); code(err) != "claim_lost" {
			w.Fatalf("the claim that a person ended: %v", err)
		}
		time.Sleep(2 * time.Minute)
		byReceiver := make(map[string]post)
		for _, p := range out.came() {
			if byReceiver[p.to].to != "" {
				w.Errorf("%s got two messages: %q", p.to, p.body)
			}
			byReceiver[p.to] = p
		}
		if lines := strings.Split(slackText(w, byReceiver[slackURL]), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "Sandman is blocked on “Beta”: no key <https:") ||
			!strings.HasPrefix(lines[1], "Sandman finished “Gamma”, for a person to review: have a look <") || !strings.HasPrefix(lines[2], "Oracle lost “Delta”: ") {
			w.Errorf("three notices in a minute became %q", lines)
		}
		ntfy, url := byReceiver[ntfyURL], n.task(reviewed).URL
		if ntfy.body != "Sandman finished “Gamma”, for a person to review: have a look\n"+url || ntfy.header.Get("Title") != "dibs: to review" || ntfy.header.Get("Click") != url {
			w.Errorf("ntfy got %+v", ntfy)
		}
		var document struct {
			Notices []struct{ ID, Event, Agent, Title, URL string }
		}
		mustDo(w, json.Unmarshal([]byte(byReceiver["http://127.0.0.1/hook"].body), &document))
		if got := document.Notices; len(got) != 2 || got[0].Event != "review" || got[1].Event != "lost" || got[1].Agent != "Oracle" || got[1].Title != "Delta" || got[1].ID == got[0].ID {
			w.Errorf("the receiver of JSON got %+v", got)
		}
		time.Sleep(time.Hour)
		if posts := out.came(); len(posts) > 0 {
			w.Errorf("and then %+v", posts)
		}
		status, err := json.Marshal(n.status())
		mustDo(w, err)
		if shown := log.String() + string(status) + n.get("/metrics") + fmt.Sprintf("%+v", o.Config); strings.Contains(shown, "hush") {
			w.Errorf("an address is shown in %s", shown)
		}
		if s := n.status(); len(s.Warnings) > 0 || s.Outbox.Depth > 0 {
			w.Errorf("the status has %q, and %d owed to Notion", s.Warnings, s.Outbox.Depth)
		}
	})
}

// slackText returns the text of a message to Slack.
func slackText(w *world, p post) string {
	w.Helper()
	var message struct{ Text string }
	if err := json.Unmarshal([]byte(p.body), &message); err != nil {
		w.Errorf("%q: %v", p.body, err)
	}
	return message.Text
}

// A receiver that is down for an hour gets all of it in one message when it is back, and status
// and metrics say so meanwhile. What it did not take in a day is given up, and counted.
func TestReceiverThatIsDown(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		o, out := w.telling(config.Receiver{URL: slackURL})
		n := w.start(o)
		out.answers(refuses)
		n.asks("Alpha", "one?")
		time.Sleep(30 * time.Minute)
		n.asks("Beta", "two?")
		time.Sleep(30 * time.Minute)
		tries := len(out.came())
		if tries < 6 || tries > 12 {
			w.Errorf("tried %d times in an hour", tries)
		}
		wantWarnings(w, n, "https://hooks.slack.com takes no notices: connection refused: they are kept, and tried again in ")
		if depth := n.status().Outbox.Depth; depth > 0 {
			w.Errorf("%d notices are counted among what is owed to Notion", depth)
		}
		out.answers(nil)
		time.Sleep(15 * time.Minute)
		posts := out.came()
		if len(posts) != 1 || strings.Count(slackText(w, posts[0]), "\n") != 1 {
			w.Errorf("once it was back it got %+v", posts)
		}
		wantWarnings(w, n)

		out.answers(refuses)
		n.asks("Gamma", "three?")
		time.Sleep(20 * time.Hour)
		n.asks("Delta", "four?")
		time.Sleep(5 * time.Hour)
		wantWarnings(w, n, "notices given up since the daemon's start, because https://hooks.slack.com had not taken them after 24 hours: 1;", "takes no notices")
		out.came()
		out.answers(nil)
		time.Sleep(15 * time.Minute)
		if posts := out.came(); len(posts) != 1 || !strings.Contains(posts[0].body, "four?") || strings.Contains(posts[0].body, "three?") {
			w.Errorf("after a day it got %+v", posts)
		}
		metrics := n.get("/metrics")
		for outcome, want := range map[string]string{"sent": "3", "given_up": "1"} {
			if line := fmt.Sprintf(`dibs_notices_total{outcome="%s",receiver="https://hooks.slack.com"} %s`, outcome, want); !strings.Contains(metrics, line+"\n") {
				w.Errorf("the metrics lack %s", line)
			}
		}
	})
}

// wantWarnings fails the test unless the status has as many warnings, each with these words.
func wantWarnings(w *world, n *node, want ...string) {
	w.Helper()
	got := n.status().Warnings
	if len(got) != len(want) {
		w.Errorf("warnings %q, want %d", got, len(want))
		return
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			w.Errorf("warning %q does not say %q", got[i], want[i])
		}
	}
}

// What a receiver answers decides when it is asked again: a redirection is not followed, a
// Retry-After is heeded, and silence delays nothing else.
func TestReceiverThatRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer func(context.Context) (int, http.Header, error)
		says   string
		again  time.Duration // after the first time
	}{
		"for some time": {func(context.Context) (int, http.Header, error) { return 429, http.Header{"Retry-After": {"1200"}}, nil }, "it answered 429 Too Many Requests", 20 * time.Minute},
		"for good":      {func(context.Context) (int, http.Header, error) { return 404, nil, nil }, "it answered 404 Not Found", 15 * time.Second},
		"elsewhere": {func(context.Context) (int, http.Header, error) {
			return 302, http.Header{"Location": {"https://elsewhere.example/"}}, nil
		}, "a redirection, which is not followed", 15 * time.Second},
		"in silence": {func(ctx context.Context) (int, http.Header, error) {
			<-ctx.Done()
			return 0, nil, ctx.Err()
		}, "no answer within 10s", 25 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				o, out := w.telling(config.Receiver{URL: ntfyURL})
				n := w.start(o)
				out.answers(tt.answer)
				n.asks("Alpha", "one?")
				time.Sleep(70 * time.Second)
				n.mustClaim("Oracle", w.addSynced(n, "Beta"))
				time.Sleep(tt.again + 10*time.Second)
				posts := out.came()
				if len(posts) < 2 || posts[1].at-posts[0].at != tt.again || posts[0].header.Get("Idempotency-Key") != posts[1].header.Get("Idempotency-Key") {
					w.Errorf("it got %+v, want two that are alike, %v apart", posts, tt.again)
				}
				wantWarnings(w, n, tt.says)
				for _, p := range posts {
					if p.to != ntfyURL {
						w.Errorf("a notice went to %s", p.to)
					}
				}
			})
		})
	}
}

func (w *world) addSynced(n *node, title string) string {
	w.Helper()
	id := w.add(title, nil)
	n.sync()
	return id
}

// A notice survives a kill before it is sent. If that comes while it is being sent, nobody knows
// whether it arrived: it is sent again, under the same id.
func TestNoticesSurviveAKill(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		o, out := w.telling(config.Receiver{URL: ntfyURL})
		r := w.reap(o, 0, mutant{})
		r.n.asks("Alpha", "one?")
		r.kill()
		time.Sleep(10 * time.Minute)
		if posts := out.came(); len(posts) != 1 || !strings.Contains(posts[0].body, "one?") {
			w.Errorf("after a kill before it was sent: %+v", posts)
		}

		hangs := make(chan struct{})
		out.answers(func(context.Context) (int, http.Header, error) { <-hangs; return 0, nil, errors.New("cut off") })
		r.n.asks("Beta", "two?")
		time.Sleep(65 * time.Second)
		r.strike()
		close(hangs)
		out.answers(nil)
		r.back()
		time.Sleep(10 * time.Minute)
		posts := out.came()
		if len(posts) != 2 || posts[0].body != posts[1].body || posts[0].header.Get("Idempotency-Key") != posts[1].header.Get("Idempotency-Key") {
			w.Errorf("after a kill while it was sent: %+v, want the same one twice", posts)
		}
	})
}

// Notices to a receiver that is not listed any more are forgotten.
func TestReceiverThatIsNotListed(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		o, out := w.telling(config.Receiver{URL: slackURL}, config.Receiver{URL: ntfyURL})
		n := w.start(o)
		n.asks("Alpha", "one?")
		n.stop()
		for _, receivers := range [][]config.Receiver{{{URL: ntfyURL}}, {{URL: ntfyURL}, {URL: slackURL}}} {
			o.Config.Notify = receivers
			n = w.start(o)
			time.Sleep(5 * time.Minute)
			n.stop()
		}
		if posts := out.came(); len(posts) != 1 || posts[0].to != ntfyURL {
			w.Errorf("told %+v", posts)
		}
	})
}

// A command gets the text on its standard input and the rest in its environment, without secrets.
// Its exit code decides.
func TestCommandIsTold(t *testing.T) {
	t.Setenv("NOTION_TOKEN", "hush")
	dir := t.TempDir()
	inWorld(t, 0, func(w *world) {
		file := filepath.Join(dir, "told")
		o, _ := w.telling(config.Receiver{Command: fmt.Sprintf(`test -e %[1]s.ok || exit 3; { cat; echo "$DIBS_EVENT|$DIBS_TASK|$DIBS_URL|$DIBS_TEXT|$NOTION_TOKEN"; } >> %[1]s`, file)})
		n := w.start(o)
		id := n.asks("Alpha", "'; touch evil $(touch evil)")
		time.Sleep(2 * time.Minute)
		wantWarnings(w, n, "command test takes no notices: exit status 3: they are kept, and tried again in ")
		mustDo(w, os.WriteFile(file+".ok", nil, 0o600))
		time.Sleep(10 * time.Minute)
		got, err := os.ReadFile(file)
		mustDo(w, err)
		text, link := "Sandman asks about “Alpha”: '; touch evil $(touch evil)", n.task(id).URL
		if diff := cmp.Diff(fmt.Sprintf("%s\n%s\nask|%s|%s|%s\n%s|\n", text, link, id, link, text, link), string(got)); diff != "" {
			w.Errorf("the command was told (-want +got):\n%s", diff)
		}
		wantWarnings(w, n)
	})
}

// Nobody would look at a card on which nothing happens any more: people are told once.
func TestNoticeOfWhatIsStuck(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		o, out := w.telling(config.Receiver{URL: ntfyURL, On: []config.Notice{config.NoticeStuck}})
		dropped := w.add("dropped", map[string]any{"status": option("status", "CANCELLED")})
		w.add("waits", map[string]any{"depends_on": relation(dropped)})
		w.start(o)
		time.Sleep(time.Hour)
		posts := out.came()
		if len(posts) != 1 || !strings.Contains(posts[0].body, "“waits” stands still: it can never become ready: it waits for “dropped”, which is CANCELLED") {
			w.Errorf("people were told %+v", posts)
		}
	})
}
