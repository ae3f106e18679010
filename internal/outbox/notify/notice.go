// Package notify tells people where they are wanted: an agent asks something, a task stands still,
// work waits for a decision, a claim was lost. A notice is an intent in the outbox (package outbox),
// stored with the fact behind it. Each Receiver, an address or a command, gets its own.
//
// A notice arrives at least once: if an answer is lost, it is sent again under the same id. Those
// of one minute go into one message. No address leaves the package, and no text of others is markup
// or a command.
package notify

import (
	"net/url"
	"slices"
	"time"

	"dibs/config"
	"dibs/internal/claim"
	"dibs/internal/outbox"
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

// of returns the notice of an intent.
func (r *Receiver) of(in outbox.Intent) Notice {
	f := in.Fact
	title := task.OneLine(f.Title, -1)
	kinds := slices.DeleteFunc(Of(f), func(k config.Notice) bool { return !r.on(k) })
	n := Notice{ID: f.ID, At: f.At, Agent: f.Agent, Task: f.Task, Title: task.Brief(title, longestText), URL: link(f.URL), Text: task.Brief(wording.Notice(f), longestText)}
	if len(kinds) > 0 {
		n.Event = kinds[0]
	}
	return n
}

// link returns an address that may be put into a message, or "".
func link(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || len(text) > longestText {
		return ""
	}
	return u.String()
}
