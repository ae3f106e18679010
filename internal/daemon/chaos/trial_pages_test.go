package chaos_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"dibs/internal/claim"
)

// pageWrite has the properties that a request writes to a page, by id.
type pageWrite struct {
	Properties map[string]struct {
		Text *[]struct {
			Text struct{ Content string } `json:"text"`
		} `json:"rich_text"`
	} `json:"properties"`
}

// token returns the written claim token, and whether the request writes any part of a claim.
func (w pageWrite) token() (token claim.Token, any bool) {
	for _, p := range w.Properties {
		if p.Text == nil {
			continue
		}
		any = true
		for _, span := range *p.Text {
			if t := claim.ParseToken(span.Text.Content); t.ID != "" {
				token = t
			}
		}
	}
	return token, any
}

// checkPages checks, from the writes to Notion, that no page showed a granted claim over another
// one whose lease had not ended.
func (tr *trial) checkPages() {
	type shown struct {
		claim claim.ID
		at    time.Time // the last write
	}
	bound, pages, claims := tr.bindings(), make(map[string]shown), 0
	for _, r := range tr.requests { // in the order of arrival; no page has two relevant ones at a time
		id, ok := strings.CutPrefix(r.Path, "/v1/pages/")
		cut := r.Status == 0 // before its answer; it may have taken effect
		if !ok || r.Method != http.MethodPatch || r.Status != http.StatusOK && !cut {
			continue
		}
		var w pageWrite
		if err := json.Unmarshal(r.Body, &w); err != nil {
			tr.Error(err)
		}
		token, any := w.token()
		if !any || cut && token.ID != "" && !bound[token.ID] {
			continue
		}
		before := pages[id]
		switch {
		case token.ID == "" || token.Void || token.Done: // it ends, or is withdrawn
			delete(pages, id)
			continue
		case token.ID != before.claim:
			claims++
			if bound[before.claim] && bound[token.ID] && r.Time.Sub(before.at) < chaosLease {
				tr.doubles = append(tr.doubles, fmt.Sprintf("task %s was given to %s at %v, while it was that of %s:\n%s", id, token.ID, r.Time.Sub(tr.began), before.claim, tr.requestsTo(id)))
			}
		}
		pages[id] = shown{token.ID, r.Time}
	}
	if claims < tr.claims {
		tr.complain("%d claims were written to pages, want at least %d", claims, tr.claims)
	}
}
