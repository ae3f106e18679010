package mailbox

import (
	"encoding/json"
	"strings"

	"dibs/internal/inbox"
)

// record is a trigger as it is stored.
type record struct {
	inbox.Trigger
	Key string `json:"key,omitempty"`
}

// The most that a record has, in bytes of JSON, and of each part of it once it is shortened:
// etcd takes no more than 1.5 MB at once.
const (
	maxRecord = 256 << 10
	maxPart   = 32 << 10
)

// shortened is what the agent is told of a trigger that was too large.
const shortened = "[shortened here, as it was too large to be passed on; Notion has all of it]"

// encode encodes a trigger. Of one that is too large the longest parts are cut, and its text
// says so: else it would keep back those behind it.
func encode(t inbox.Trigger) ([]byte, error) {
	body, err := json.Marshal(record{t, t.Key})
	if err != nil || len(body) <= maxRecord {
		return body, err
	}
	for _, s := range []*string{&t.Text, &t.From, &t.Task.Title, &t.Task.Note, &t.Task.ClaimedBy, &t.Task.URL} {
		*s = cut(*s)
	}
	if size(t.Task.Fields) > maxPart {
		t.Task.Fields = nil
	}
	if size(t.Task.DependsOn) > maxPart {
		t.Task.DependsOn = nil
	}
	t.Text = strings.TrimLeft(t.Text+"\n"+shortened, "\n")
	return json.Marshal(record{t, t.Key})
}

// cut returns the beginning of a text, of maxPart bytes of JSON at most.
func cut(s string) string {
	n := size(s)
	if n <= maxPart {
		return s
	}
	for n > maxPart {
		s = s[:len(s)*maxPart/(n+1)]
		n = size(s)
	}
	return strings.ToValidUTF8(s, "") + "…"
}

// size is how many bytes of JSON a value has.
func size(v any) int {
	body, err := json.Marshal(v)
	if err != nil {
		return 0 // it cannot be encoded, of which whoever encodes the whole is told
	}
	return len(body)
}
