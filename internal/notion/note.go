package notion

import (
	"encoding/json"

	"dibs/internal/claim"
)

// noteText is the text of a page's note, as spans that can be sent back unchanged.
type noteText []noteSpan

// noteSpan is a part of a note.
type noteSpan struct {
	plain string // as people read it
	// sent is the span in the form of a request. It is nil if that form is unknown: then writing
	// the note would damage it.
	sent map[string]any
}

// with returns the note's spans with line in place of our own lines, see claim.Noted. ok is false
// if some spans cannot be sent.
func (n noteText) with(line string) (spans []map[string]any, ok bool) {
	all := ""
	for _, s := range n {
		all += s.plain
	}
	ours := claim.NoteLines(all)
	rest := "" // the text without our own lines
	at := 0
	for _, s := range n {
		left := s.plain
		for i := len(ours) - 1; i >= 0; i-- {
			from, to := max(ours[i][0]-at, 0), min(ours[i][1]-at, len(s.plain))
			if from < to {
				left = left[:from] + left[to:]
			}
		}
		at += len(s.plain)
		if left == "" && s.plain != "" {
			continue
		}
		if s.sent == nil || left != s.plain && s.sent["text"] == nil {
			return nil, false
		}
		spans = append(spans, s.cut(left))
		rest += left
	}
	for _, span := range new(spanWriter).write(claim.NoteBreak(rest) + line) {
		spans = append(spans, map[string]any{"text": map[string]any{"content": span.Text.Content}})
	}
	return spans, len(spans) <= spansLimit
}

// cut returns the span for a request, with only left of its text.
func (s noteSpan) cut(left string) map[string]any {
	text, ok := s.sent["text"].(map[string]any)
	if !ok || left == s.plain {
		return s.sent
	}
	return map[string]any{"text": map[string]any{"content": left, "link": text["link"]}, "annotations": s.sent["annotations"]}
}

// newNoteSpan reads a span as Notion sends it.
func newNoteSpan(data json.RawMessage) noteSpan {
	var raw struct {
		PlainText   string         `json:"plain_text"`
		Type        string         `json:"type"`
		Annotations map[string]any `json:"annotations"`
		Text        struct {
			Content string `json:"content"`
			Link    *struct {
				URL string `json:"url"`
			} `json:"link"`
		} `json:"text"`
		Mention  map[string]json.RawMessage `json:"mention"`
		Equation struct {
			Expression string `json:"expression"`
		} `json:"equation"`
	}
	if json.Unmarshal(data, &raw) != nil {
		return noteSpan{}
	}
	s := noteSpan{plain: raw.PlainText}
	switch raw.Type {
	case "text":
		var link any
		if raw.Text.Link != nil {
			link = map[string]any{"url": raw.Text.Link.URL}
		}
		// The visible text is what is cut, so it must be the whole text.
		if raw.Text.Content == raw.PlainText {
			s.sent = map[string]any{"text": map[string]any{"content": raw.Text.Content, "link": link}}
		}
	case "equation":
		s.sent = map[string]any{"equation": map[string]any{"expression": raw.Equation.Expression}}
	case "mention":
		if mention := mentioned(raw.Mention); mention != nil {
			s.sent = map[string]any{"mention": mention}
		}
	}
	if s.sent != nil && len(raw.Annotations) > 0 {
		s.sent["annotations"] = raw.Annotations
	}
	return s
}

// mentioned returns a mention in the form of a request; nil if it has none.
func mentioned(raw map[string]json.RawMessage) map[string]any {
	for _, kind := range []string{"user", "page", "database"} {
		var object struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(raw[kind], &object) == nil && object.ID != "" {
			return map[string]any{"type": kind, kind: map[string]any{"id": object.ID}}
		}
	}
	var date map[string]any
	if json.Unmarshal(raw["date"], &date) == nil && date["start"] != nil {
		return map[string]any{"type": "date", "date": date}
	}
	return nil
}
