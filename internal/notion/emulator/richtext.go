package emulator

import (
	"cmp"
	"encoding/json"
	"slices"
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
	err := n.typed(s.Type)
	if err != nil {
		return s, err
	}
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
	return s, s.decodeAnnotations(n.opt("annotations"))
}

func (s *span) decodeText(n node) error {
	content, err := n.get("content").text(maxContent)
	if err != nil {
		return err
	}
	s.Text, s.PlainText = &spanText{Content: content}, content
	if l := n.get("link"); !l.unset() {
		to, err := l.get("url").text(maxURL)
		if err != nil {
			return err
		}
		s.Text.Link, s.Href = &link{to}, &to
	}
	return nil
}

// decodeMention decodes a mention to what answers show: with the whole user, and with all members
// of a date.
func (tx *tx) decodeMention(s *span, n node) error {
	titled := func(kind string, title func(id string) (string, bool)) variant {
		return variant{kind: kind, decode: func(n node) (any, error) {
			id, err := n.get("id").id()
			name, ok := title(id)
			s.PlainText = cmp.Or(name, "Untitled")
			if ok {
				href := pageURL(name, id)
				s.Href = &href
			}
			return map[string]any{"id": id}, err
		}}
	}
	shown, err := n.variant(
		variant{kind: "user", decode: func(n node) (any, error) {
			id, err := n.userID()
			s.PlainText = "@Anonymous"
			if u, ok := tx.world.Users[id]; ok {
				s.PlainText = "@" + u.Name
			}
			return tx.world.encodeUser(id), err
		}},
		variant{kind: "date", decode: func(n node) (any, error) {
			d, err := decodeDate(n)
			if err != nil || d == nil {
				return nil, cmp.Or(err, n.should("an object"))
			}
			s.PlainText = d.Start
			if d.End != "" {
				s.PlainText += " → " + d.End
			}
			return d.encode(), nil
		}},
		titled("page", func(id string) (string, bool) {
			p, ok := tx.world.Pages[id]
			if !ok {
				return "", false
			}
			return tx.world.title(p), true
		}),
		titled("database", func(id string) (string, bool) {
			d, ok := tx.world.Databases[id]
			if !ok {
				return "", false
			}
			return plainText(d.Title), true
		}),
		variant{kind: "template_mention", decode: func(n node) (any, error) {
			s.PlainText = "mention"
			return n.variant(
				variant{kind: "template_mention_date", decode: func(n node) (any, error) { return n.oneOf("today", "now") }},
				variant{kind: "template_mention_user", decode: func(n node) (any, error) { return n.oneOf("me") }},
			)
		}},
		variant{kind: "custom_emoji", decode: func(n node) (any, error) {
			s.PlainText = "mention"
			return customEmoji(n)
		}},
	)
	s.Mention = compact(shown)
	return err
}

// userID decodes a user in a request.
func (n node) userID() (string, error) {
	if err := n.called("user"); err != nil {
		return "", err
	}
	return n.get("id").id()
}

func (s *span) decodeAnnotations(n node) error {
	s.Annotations.Color = "default"
	if !n.present {
		return nil
	}
	if _, err := n.object(); err != nil {
		return err
	}
	for name, to := range map[string]*bool{
		"bold": &s.Annotations.Bold, "italic": &s.Annotations.Italic, "strikethrough": &s.Annotations.Strikethrough,
		"underline": &s.Annotations.Underline, "code": &s.Annotations.Code,
	} {
		if m := n.opt(name); m.present {
			v, err := m.boolean()
			if err != nil {
				return err
			}
			*to = v
		}
	}
	if c := n.opt("color"); c.present {
		color, err := c.textColor()
		if err != nil {
			return err
		}
		s.Annotations.Color = color
	}
	return nil
}

// textColor decodes the color of text, or of its background.
func (n node) textColor() (string, error) {
	all := slices.Clone(colors)
	for _, c := range colors {
		all = append(all, c+"_background")
	}
	return n.oneOf(all...)
}
