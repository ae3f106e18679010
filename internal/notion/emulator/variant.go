package emulator

import "time"

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
