package emulator

import (
	"cmp"
	"slices"
	"time"
)

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
			d, err := tx.decodeDate(n)
			if err != nil || d == nil {
				return nil, cmp.Or(err, n.should("an object"))
			}
			s.PlainText = d.Start
			if d.End != "" {
				s.PlainText += " → " + d.End
			}
			return d.encode(), nil
		}},
		s.titled("page", func(id string) (string, bool) {
			p, ok := tx.world.Pages[id]
			if !ok {
				return "", false
			}
			return tx.world.title(p), true
		}),
		s.titled("database", func(id string) (string, bool) {
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

// titled is the mention of an object with a title, which the span shows, with a link.
func (s *span) titled(kind string, title func(id string) (string, bool)) variant {
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

// variant is one form of an object that Notion tells by the member it has, such as {"external":
// {"url": …}}. A request may name the member in type; answers always do.
type variant struct {
	kind   string
	decode func(node) (any, error)
	shown  string // the kind in answers, if it is another
}

// variant decodes an object of one of these forms to what answers show.
func (n node) variant(forms ...variant) (map[string]any, error) {
	if _, err := n.object(); err != nil {
		return nil, err
	}
	for _, form := range forms {
		member := n.get(form.kind)
		if !member.present {
			continue
		}
		if err := n.typed(form.kind); err != nil {
			return nil, err
		}
		v, err := form.decode(member)
		kind := form.kind
		if form.shown != "" {
			kind = form.shown
		}
		return map[string]any{"type": kind, kind: v}, err
	}
	return nil, n.get(forms[0].kind).should("defined")
}

// Where files, icons and covers are.
var (
	external = variant{kind: "external", decode: func(n node) (any, error) {
		url, err := n.get("url").text(maxURL)
		return map[string]any{"url": url}, err
	}}
	uploaded = variant{kind: "file_upload", shown: "file", decode: func(n node) (any, error) {
		id, err := n.get("id").id()
		return hosted("https://files.notion.invalid/" + id), err
	}}
	stored = variant{kind: "file", decode: func(n node) (any, error) {
		url, err := n.get("url").text(maxURL)
		return hosted(url), err
	}}
)

// hosted returns a file that Notion keeps, whose address expires.
func hosted(url string) map[string]any {
	return map[string]any{"url": url, "expiry_time": time.Now().UTC().Add(time.Hour).Format(stampLayout)}
}

// icons and covers are the forms of an icon and of a cover in a request.
var (
	icons = []variant{
		{kind: "emoji", decode: func(n node) (any, error) { return n.text(maxShort) }},
		external, uploaded,
		{kind: "custom_emoji", decode: customEmoji},
		{kind: "icon", decode: func(n node) (any, error) {
			name, err := n.get("name").text(maxShort)
			color := "gray"
			if c := n.opt("color"); c.present && err == nil {
				color, err = c.oneOf("gray", "lightgray", "brown", "yellow", "orange", "green", "blue", "purple", "pink", "red")
			}
			return map[string]any{"name": name, "color": color}, err
		}},
	}
	covers = []variant{external, uploaded}
)

func customEmoji(n node) (any, error) {
	id, err := n.get("id").id()
	m := map[string]any{"id": id, "name": "", "url": ""}
	for _, key := range []string{"name", "url"} {
		if s := n.opt(key); s.present && err == nil {
			m[key], err = s.text(maxURL)
		}
	}
	return m, err
}

// idOf is the form of a reference: its kind with an id.
func idOf(kind string) variant {
	return variant{kind: kind, decode: func(n node) (any, error) { return n.id() }}
}

// decodeFiles decodes the value of a files property.
func decodeFiles(n node) (value, error) {
	elements, err := n.array()
	if err != nil || len(elements) == 0 {
		return value{}, err
	}
	files := []any{}
	for _, e := range elements {
		file, err := e.variant(external, stored, uploaded)
		if err != nil {
			return value{}, err
		}
		name := e.get("name")
		name.optional = e.get(uploaded.kind).present
		file["name"] = ""
		if name.present || !name.optional {
			if file["name"], err = name.text(maxOption); err != nil {
				return value{}, err
			}
		}
		files = append(files, file)
	}
	return value{Raw: compact(files)}, nil
}
