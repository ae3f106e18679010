// Package notify tells people where they are wanted: an agent asks something, a task stands still,
// work waits for a decision, a claim was lost. A notice is an intent in the outbox (package outbox),
// stored with the fact behind it. Each Receiver, an address or a command, gets its own.
//
// A notice arrives at least once: if an answer is lost, it is sent again under the same id. Those
// of one minute go into one message. No address leaves the package, and no text of others is markup
// or a command.
package notify

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"dibs/config"
	"dibs/internal/claim"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

// Of returns which kinds of notices a fact is.
func Of(f claim.Fact) []config.Notice {
	var kinds []config.Notice
	if f.Asked {
		kinds = append(kinds, config.NoticeAsk)
	}
	if f.Kind == claim.KindLost || f.Kind == claim.KindOverridden || f.Kind == claim.KindSwept && f.Claim != "" { // else of a copied page
		kinds = append(kinds, config.NoticeLost)
	}
	blocked := f.Kind == claim.KindFailed && f.Tried != claim.TriedAgain || f.Kind == claim.KindSwept && f.Tried == claim.TriedOver
	if blocked || f.Kind == claim.KindBlocked && f.By == "" { // who did it knows
		kinds = append(kinds, config.NoticeBlock)
	}
	if f.Kind == claim.KindReview {
		kinds = append(kinds, config.NoticeReview)
	}
	if f.Kind == claim.KindPaused {
		kinds = append(kinds, config.NoticePaused)
	}
	if wording.Stuck(f) {
		kinds = append(kinds, config.NoticeStuck)
	}
	return kinds
}

// Notice is what a receiver is told of one fact. Its texts are one line each, without control
// characters.
type Notice struct {
	ID    string        `json:"id"`
	Event config.Notice `json:"event"`
	At    time.Time     `json:"at"`
	Agent string        `json:"agent,omitempty"`
	Task  task.ID       `json:"task,omitempty"`
	Title string        `json:"title,omitempty"`
	URL   string        `json:"url,omitempty"` // opens the task
	Text  string        `json:"text"`
}

// longestText is the most characters in the text of a notice.
const longestText = 400

func cut(text string) string { return task.Brief(text, longestText) }

// link returns an address that may be put into a message, or "".
func link(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || len(text) > longestText {
		return ""
	}
	return u.String()
}

// longestMessage is the most bytes in the text of a message. ntfy takes 4,096, and makes more an
// attachment.
const longestMessage = 3900

// message is a list of notices that are sent together; there is at least one.
type message []Notice

// lines joins what line returns for each notice. If that is too long, it ends with how many are
// left out.
func (m message) lines(line func(Notice) string) string {
	const end = "\n… and %d more: dibs log has them"
	var text string
	for i, n := range m {
		next := text + line(n)
		if i > 0 && len(next)+len(end) > longestMessage {
			return strings.TrimSuffix(text, "\n") + fmt.Sprintf(end, len(m)-i)
		}
		text = next + "\n"
	}
	return strings.TrimSuffix(text, "\n")
}

// text returns the message as plain text.
func (m message) text() string {
	return m.lines(func(n Notice) string { return strings.TrimSpace(n.Text + "\n" + n.URL) })
}

// escaped keeps Slack from taking a text for a mention, a link or a command: these begin with <.
var escaped = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func (m message) slack() string {
	return m.lines(func(n Notice) string {
		if n.URL == "" {
			return escaped.Replace(n.Text)
		}
		address := strings.NewReplacer("|", "%7C", "<", "%3C", ">", "%3E", "&", "&amp;").Replace(n.URL)
		return fmt.Sprintf("%s <%s|open>", escaped.Replace(n.Text), address)
	})
}

// titles are the titles of messages with one notice.
var titles = map[config.Notice]string{
	config.NoticeAsk: "a question", config.NoticeBlock: "blocked", config.NoticeReview: "to review", config.NoticeLost: "a claim was lost",
	config.NoticeStuck: "stands still",
}

// title is in ASCII: it goes into a header.
func (m message) title() string {
	switch title := titles[m[0].Event]; {
	case len(m) > 1:
		return fmt.Sprintf("dibs: %d notices", len(m))
	case title != "":
		return "dibs: " + title
	}
	return "dibs"
}

// body returns the message in a form, and its headers. Its id is that of the first notice: a
// message that is sent again begins with the same one. ntfy shows the latter in place of the former.
func (m message) body(form config.Form) (string, http.Header) {
	h := http.Header{"User-Agent": {"dibs"}, "Idempotency-Key": {m[0].ID}, "Content-Type": {"application/json"}}
	var value any
	switch form {
	case config.FormText:
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("Title", m.title())
		h.Set("X-Sequence-ID", m[0].ID)
		if m[0].URL != "" {
			h.Set("Click", m[0].URL)
		}
		return m.text(), h
	case config.FormSlack:
		value = map[string]any{"text": m.slack(), "unfurl_links": false, "unfurl_media": false}
	default:
		value = map[string]any{"text": m.text(), "notices": []Notice(m)}
	}
	data, _ := json.Marshal(value) // cannot fail on texts
	return string(data), h
}

// variables returns the message as environment variables of a command. Those that stand for one
// notice have a word for each.
func (m message) variables() []string {
	words := func(of func(Notice) string) string {
		all := make([]string, len(m))
		for i, n := range m {
			all[i] = of(n)
		}
		return strings.Join(all, " ")
	}
	return []string{
		"DIBS_EVENT=" + words(func(n Notice) string { return string(n.Event) }),
		"DIBS_TASK=" + words(func(n Notice) string { return string(n.Task) }),
		"DIBS_TASK_URL=" + words(func(n Notice) string { return n.URL }),
		"DIBS_TEXT=" + m.text(),
	}
}
