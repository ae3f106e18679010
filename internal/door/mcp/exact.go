package mcp

import (
	"crypto/rand"
	"encoding/json"
	"regexp"
	"strconv"
)

// exact carries the numbers by which a client names its requests, and their progress, through the
// SDK unchanged. The SDK reads them as float64 and rounds them to int64, and so answers 2^53+1 and
// 1.5 under other ids (https://github.com/modelcontextprotocol/go-sdk/issues/1253). Inside, such a
// number is a text that begins with a mark, which nobody else knows.
type exact struct {
	mark   string
	hidden *regexp.Regexp
}

func newExact() exact {
	mark := rand.Text() + " "
	return exact{mark, regexp.MustCompile(`"` + mark + `([-+.0-9Ee]+)"`)}
}

// isID reports whether JSON can be an id: a number that programs can read, or a text.
func isID(raw json.RawMessage) bool {
	_, err := strconv.ParseFloat(string(raw), 64)
	return err == nil || len(raw) > 0 && raw[0] == '"'
}

// hide replaces those numbers of a request that the SDK would change.
func (e exact) hide(raw json.RawMessage) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || m["method"] == nil {
		return raw // an answer has an id of ours
	}
	changed := e.hideIn(m, "id")
	var params, meta map[string]json.RawMessage
	if json.Unmarshal(m["params"], &params) == nil && params != nil {
		within := e.hideIn(params, "requestId") // of notifications/cancelled
		if json.Unmarshal(params["_meta"], &meta) == nil && e.hideIn(meta, "progressToken") {
			within = true
			params["_meta"], _ = json.Marshal(meta)
		}
		if within {
			changed = true
			m["params"], _ = json.Marshal(params)
		}
	}
	if !changed {
		return raw
	}
	raw, _ = json.Marshal(m) // cannot fail on what was read
	return raw
}

// hideIn replaces the member of an object, and reports whether it had to.
func (e exact) hideIn(m map[string]json.RawMessage, name string) bool {
	text := string(m[name])
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || strconv.FormatInt(int64(n), 10) == text && int64(n) < 1<<53 && int64(n) > -1<<53 {
		return false
	}
	m[name], _ = json.Marshal(e.mark + text)
	return true
}

// show puts the numbers back.
func (e exact) show(data []byte) []byte { return e.hidden.ReplaceAll(data, []byte("$1")) }
