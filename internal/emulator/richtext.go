package emulator

import (
	"encoding/json"
	"strings"
)

// span is one piece of rich text, as answers show it.
type span struct {
	Type        string          `json:"type"`
	Text        *spanText       `json:"text,omitempty"`
	Mention     json.RawMessage `json:"mention,omitempty"`
	Equation    *equation       `json:"equation,omitempty"`
	Annotations annotations     `json:"annotations"`
	PlainText   string          `json:"plain_text"`
	Href        *string         `json:"href"`
}

type spanText struct {
	Content string `json:"content"`
	Link    *link  `json:"link"`
}

type link struct {
	URL string `json:"url"`
}

type equation struct {
	Expression string `json:"expression"`
}

type annotations struct {
	Bold          bool   `json:"bold"`
	Italic        bool   `json:"italic"`
	Strikethrough bool   `json:"strikethrough"`
	Underline     bool   `json:"underline"`
	Code          bool   `json:"code"`
	Color         string `json:"color"`
}

// plainText returns the text that people read.
func plainText(spans []span) string {
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.PlainText)
	}
	return b.String()
}

// textSpans returns s as plain rich text, in spans of at most maxContent.
func textSpans(s string) []span {
	var out []span
	for s != "" {
		size, cut := 0, len(s)
		for i, r := range s {
			size += utf16Len(string(r))
			if size > maxContent {
				cut = i
				break
			}
		}
		out = append(out, span{
			Type: "text", Text: &spanText{Content: s[:cut]}, PlainText: s[:cut],
			Annotations: annotations{Color: "default"},
		})
		s = s[cut:]
	}
	return out
}

// decodeSpans decodes rich text. Empty spans are dropped, as in Notion.
func (tx *tx) decodeSpans(n node) ([]span, error) {
	elements, err := n.array()
	if err != nil {
		return nil, err
	}
	spans := []span{}
	for _, e := range elements {
		s, err := tx.decodeSpan(e)
		if err != nil {
			return nil, err
		}
		if s.PlainText != "" {
			spans = append(spans, s)
		}
	}
	return spans, nil
}

func (tx *tx) decodeSpan(n node) (span, error) {
	if _, err := n.object(); err != nil {
		return span{}, err
	}
	s := span{Type: "text"}
	switch {
	case n.get("mention").present:
		s.Type = "mention"
	case n.get("equation").present:
		s.Type = "equation"
	case !n.get("text").present:
		return s, n.get("text").should("defined")
	}
	var err error
	switch s.Type {
	case "text":
		err = s.decodeText(n.get("text"))
	case "mention":
		err = tx.decodeMention(&s, n.get("mention"))
	case "equation":
		expression := n.get("equation").get("expression")
		s.PlainText, err = expression.text(1000)
		s.Equation = &equation{s.PlainText}
	}
	if err != nil {
		return s, err
	}
	return s, s.decodeAnnotations(n.get("annotations"))
}

func (s *span) decodeText(n node) error {
	content, err := n.get("content").text(maxContent)
	if err != nil {
		return err
	}
	s.Text, s.PlainText = &spanText{Content: content}, content
	if l := n.get("link"); !l.absent() {
		to, err := l.get("url").text(maxURL)
		if err != nil {
			return err
		}
		s.Text.Link, s.Href = &link{to}, &to
	}
	return nil
}

// decodeMention keeps the mention as sent, and adds its plain text.
func (tx *tx) decodeMention(s *span, n node) error {
	if _, err := n.object(); err != nil {
		return err
	}
	s.Mention = compact(n.value)
	switch {
	case n.get("user").present:
		id, err := n.get("user").get("id").id()
		if err != nil {
			return err
		}
		s.PlainText = "@Anonymous"
		if u, ok := tx.world.Users[id]; ok {
			s.PlainText = "@" + u.Name
		}
	case n.get("page").present:
		id, err := n.get("page").get("id").id()
		if err != nil {
			return err
		}
		s.PlainText = "Untitled"
		if p, ok := tx.world.Pages[id]; ok {
			s.PlainText = tx.world.title(p)
			href := pageURL(s.PlainText, id)
			s.Href = &href
		}
	case n.get("date").present:
		d, err := decodeDate(n.get("date"))
		if err != nil {
			return err
		}
		if d == nil {
			return n.get("date").should("an object")
		}
		s.PlainText = d.Start
	default:
		s.PlainText = "mention"
	}
	return nil
}

func (s *span) decodeAnnotations(n node) error {
	s.Annotations.Color = "default"
	if n.absent() {
		return nil
	}
	if _, err := n.object(); err != nil {
		return err
	}
	for name, to := range map[string]*bool{
		"bold": &s.Annotations.Bold, "italic": &s.Annotations.Italic, "strikethrough": &s.Annotations.Strikethrough,
		"underline": &s.Annotations.Underline, "code": &s.Annotations.Code,
	} {
		if m := n.get(name); m.present {
			v, err := m.boolean()
			if err != nil {
				return err
			}
			*to = v
		}
	}
	if c := n.get("color"); c.present {
		color, err := c.text(maxShort)
		if err != nil {
			return err
		}
		s.Annotations.Color = color
	}
	return nil
}
