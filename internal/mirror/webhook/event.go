// Package webhook understands the events that Notion sends to a subscribed address: who sent one,
// and which pages are worth reading because of it. An event is a hint and never a value: it names
// what has changed, not how, it may come late, twice or not at all, and there is no replay. So
// nothing here changes a task; the mirror reads Notion and decides.
//
// The facts about Notion's webhooks are from its reference (webhooks, webhooks-events-delivery) and
// from its JavaScript SDK.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"dibs/internal/kit/loose"
	"dibs/internal/task"
)

// SignatureHeader is the header with the signature of a body.
const SignatureHeader = "X-Notion-Signature"

// scheme begins the value of SignatureHeader. The HMAC follows in hexadecimal digits.
const scheme = "sha256="

// Sign returns the signature of a body under a verification token.
func Sign(token string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write(body)
	return scheme + hex.EncodeToString(mac.Sum(nil))
}

// Verify reports whether signature is that of body under token. It takes the same time wherever the
// two differ. Like the SDK, it takes capital digits.
func Verify(token string, body []byte, signature string) bool {
	digits, ok := strings.CutPrefix(signature, scheme)
	if !ok || token == "" {
		return false
	}
	return hmac.Equal([]byte(scheme+strings.ToLower(digits)), []byte(Sign(token, body)))
}

// Event is what is used of one of Notion's events. Every field may be empty: kinds of events that
// are not known here come, too.
type Event struct {
	Type string `json:"type"`
	// At is when it happened, by Notion's clock; zero if that is not understood.
	At loose.Value[time.Time] `json:"timestamp"`
	// Authors are who did it; empty if that is not understood.
	Authors loose.Value[[]Object] `json:"authors"`
	Entity  Object                `json:"entity"`
	Data    struct {
		// Parent is what the entity lies in.
		Parent struct {
			Object
			Source string `json:"data_source_id"`
		} `json:"parent"`
		// Page is the page that a comment is on.
		Page string `json:"page_id"`
	} `json:"data"`
}

// Object is a thing or a user of Notion.
type Object struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// page returns the id of the page that the event is about; false if it is about none.
func (e Event) page() (task.ID, bool) {
	page := id(e.Data.Page)
	if e.Entity.Type == "page" {
		page = id(e.Entity.ID)
	}
	return page, page != ""
}

// parse reads an event.
func parse(body []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(body, &e); err != nil {
		return Event{}, fmt.Errorf("an event that is not as Notion describes them: %w", err)
	}
	return e, nil
}
