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
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/daemon"
	"dibs/internal/testkit"
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
// minute in one message. Nothing shows the addresses.
func TestNotices(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		o, out := w.telling(
			config.Receiver{URL: slackURL},
			config.Receiver{URL: ntfyURL, On: []config.Notice{config.NoticeReview}},
			config.Receiver{URL: "http://127.0.0.1/hook", Form: config.FormJSON, On: []config.Notice{config.NoticeLost, config.NoticeReview, config.NoticeStuck}},
		)
		var log bytes.Buffer
		o.Log = slog.New(slog.NewTextHandler(io.MultiWriter(&log, w.Output()), nil))
		n := w.start(o)
		asked := n.asks("Alpha", "which of two?")
		time.Sleep(2 * time.Minute)
		want := fmt.Sprintf("Sandman asks about “Alpha”: which of two? <%s|open>", n.task(asked).URL)
		if posts := out.came(); len(posts) != 1 || posts[0].to != slackURL || slackText(w, posts[0]) != want {
			w.Fatalf("a question was told as %+v, want once\n%s", posts, want)
		}

		reviewed, lost := n.mustClaim("Sandman", w.addSynced(n, "Gamma")), n.mustClaim("Oracle", w.addSynced(n, "Delta"))
		time.Sleep(20 * time.Second)
		_, err := client.Do(w.Context(), n.Client, api.OpReview, api.On(string(reviewed.ID), "", api.ReviewRequest{Note: "have a look"}))
		mustDo(w, err)
		w.edit(string(lost.Task.ID), map[string]any{"claimed_by": text("rich_text", "Ada")})
		n.sync()
		time.Sleep(2 * time.Minute)
		posts := out.came()
		got := make(map[string]string)
		for _, p := range posts {
			got[p.to] = p.body
		}
		if lines := strings.Split(got[slackURL], `\n`); len(posts) != 3 || len(lines) != 2 || !strings.Contains(lines[0], "Sandman finished “Gamma”") || !strings.Contains(lines[1], "Oracle lost “Delta”: ") ||
			!strings.HasPrefix(got[ntfyURL], "Sandman finished “Gamma”, for a person to review: have a look\nhttps:") || strings.Contains(got[ntfyURL], "Delta") {
			w.Errorf("two notices in a minute became %q", got)
		}
		var document struct {
			Notices []struct{ ID, Event, Agent, Title, URL string }
		}
		mustDo(w, json.Unmarshal([]byte(got["http://127.0.0.1/hook"]), &document))
		if got := document.Notices; len(got) != 2 || got[0].Event != "review" || got[1].Event != "lost" || got[1].Agent != "Oracle" || got[1].Title != "Delta" || got[1].ID == got[0].ID {
			w.Errorf("the receiver of JSON got %+v", got)
		}
		w.add("waits", map[string]any{"depends_on": relation(w.add("dropped", map[string]any{"status": option("status", "CANCELLED")}))})
		time.Sleep(time.Hour)
		if posts := out.came(); len(posts) != 2 || !strings.Contains(posts[0].body, "“waits” stands still: it can never become ready: it waits for “dropped”, which is CANCELLED") {
			w.Errorf("and then %+v", posts)
		}
		status, err := json.Marshal(n.status())
		mustDo(w, err)
		if shown := log.String() + string(status) + n.get("/metrics") + fmt.Sprintf("%+v", o.Config); strings.Contains(shown, "hush") {
			w.Errorf("an address is shown in %s", shown)
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
		for _, line := range []string{`{outcome="sent",receiver="https://hooks.slack.com"} 3`, `{outcome="given_up",receiver="https://hooks.slack.com"} 1`} {
			if !strings.Contains(n.get("/metrics"), "dibs_notices_total"+line+"\n") {
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
