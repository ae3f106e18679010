package chaos_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"dibs/internal/claim"
)

// pageWrite is what a request writes to a page: its properties go by their ids.
type pageWrite struct {
	Properties map[string]struct {
		Text *[]struct {
			Text struct{ Content string } `json:"text"`
		} `json:"rich_text"`
	} `json:"properties"`
}

// token is the claim token that is written, and whether what a page says of its claim is
// written at all.
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

// checkPages checks, by what Notion was asked to write, that no page showed a claim that was
// granted in the place of another one whose lease went on.
func (tr *trial) checkPages() {
	type shown struct {
		claim claim.ID
		at    time.Time // when it was written last
	}
	bound, pages, claims := tr.bindings(), make(map[string]shown), 0
	for _, r := range tr.requests { // in the order in which they arrived; no page has two at a time that count
		id, ok := strings.CutPrefix(r.Path, "/v1/pages/")
		cut := r.Status == 0 // before its answer; it may have been done
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
		tr.Errorf("%d claims were written to pages, want at least %d", claims, tr.claims)
	}
}
