package emulator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxMarkdown is how many blocks one answer shows, unless SetMarkdownLimit changes it. Clients ask
// for the others by their ids.
const maxMarkdown = 20000

// markdownText writes blocks in Notion's dialect of Markdown. It ignores annotations and escapes
// nothing.
type markdownText struct {
	*world
	out     strings.Builder
	left    int      // how many blocks may still be shown
	unknown []string // the ids of blocks that are not shown
}

// pagesBelow returns the pages directly on a page, in the order of their creation.
func (w *world) pagesBelow(id string) []*page {
	var below []*page
	for _, p := range w.Pages {
		if p.Parent == (parent{Page: id}) && p.live() {
			below = append(below, p)
		}
	}
	slices.SortFunc(below, func(a, b *page) int { return cmp.Compare(a.Seq, b.Seq) })
	return below
}

// below writes the children of an object.
func (w *markdownText) below(id string, depth int) {
	number := 0
	for _, child := range w.Children[id] {
		b := w.Blocks[child]
		if number++; b.Type != "numbered_list_item" {
			number = 0
		}
		if w.left == 0 {
			w.unloaded(b.ID, b.Type, depth)
			continue
		}
		w.left--
		w.block(b, depth, number)
	}
}

// unloaded writes a placeholder for a block that a further request can return.
func (w *markdownText) unloaded(id, kind string, depth int) {
	w.unshown(id, kind, depth)
	w.unknown = append(w.unknown, id)
}

// unshown writes a placeholder for a block that Markdown cannot express.
func (w *markdownText) unshown(id, kind string, depth int) {
	fmt.Fprintf(&w.out, "%s<unknown url=%q alt=%q/>\n", strings.Repeat("\t", depth), pageURL("", id), kind)
}

// block writes a block, each line after as many tabs as the block is deep.
func (w *markdownText) block(b *block, depth, number int) {
	var rest struct {
		Checked    bool   `json:"checked"`
		Language   string `json:"language"`
		Expression string `json:"expression"`
	}
	data, _ := json.Marshal(b.Rest)
	_ = json.Unmarshal(data, &rest)
	text, tabs := plainText(b.Text), strings.Repeat("\t", depth)
	line := func(format string, args ...any) {
		for l := range strings.Lines(fmt.Sprintf(format, args...)) {
			w.out.WriteString(tabs + strings.TrimSuffix(l, "\n") + "\n")
		}
	}
	switch b.Type {
	case "paragraph", "template":
		line("%s\n", text)
	case "heading_1", "heading_2", "heading_3", "heading_4":
		line("%s %s\n", strings.Repeat("#", int(b.Type[len(b.Type)-1]-'0')), text)
	case "bulleted_list_item":
		line("- %s\n", text)
	case "numbered_list_item":
		line("%d. %s\n", number, text)
	case "to_do":
		box := " "
		if rest.Checked {
			box = "x"
		}
		line("- [%s] %s\n", box, text)
	case "quote":
		line("> %s\n", text)
	case "toggle", "callout":
		tag, summary := "details", "<summary>"+text+"</summary>"
		if b.Type == "callout" {
			tag, summary = "callout", "\t"+text
		}
		line("<%s>\n%s\n", tag, summary)
		w.below(b.ID, depth+1)
		line("</%s>\n", tag)
		return
	case "code":
		line("```%s\n%s\n```\n", rest.Language, text)
	case "divider":
		line("---\n")
	case "equation":
		line("$$\n%s\n$$\n", rest.Expression)
	default:
		w.unshown(b.ID, b.Type, depth)
	}
	w.below(b.ID, depth+1)
}

// markdownBlocks parses the common part of the dialect: headings, lists, to-dos, quotes, code,
// dividers and paragraphs. A block with one tab more than the block above it becomes its child.
func markdownBlocks(text string) []newBlock {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	blocks, _ := markdownLevel(lines, 0)
	return blocks
}

// markdownLevel parses the blocks with so many tabs, and returns the lines that follow.
func markdownLevel(lines []string, depth int) (blocks []newBlock, rest []string) {
	for len(lines) > 0 {
		text := strings.TrimRight(lines[0], " ")
		if strings.TrimSpace(text) == "" {
			lines = lines[1:]
			continue
		}
		tabs := len(text) - len(strings.TrimLeft(text, "\t"))
		if tabs < depth {
			return blocks, lines
		}
		if tabs > depth && len(blocks) > 0 {
			last := &blocks[len(blocks)-1]
			var below []newBlock
			below, lines = markdownLevel(lines, depth+1)
			last.children = append(last.children, below...)
			continue
		}
		text, lines = text[tabs:], lines[1:]
		if language, ok := strings.CutPrefix(text, "```"); ok {
			if !slices.Contains(languages, language) {
				language = "plain text"
			}
			var code []string
			for len(lines) > 0 && strings.TrimSpace(lines[0]) != "```" {
				code, lines = append(code, strings.TrimPrefix(lines[0], strings.Repeat("\t", tabs))), lines[1:]
			}
			lines = lines[min(1, len(lines)):]
			blocks = append(blocks, blockOf("code", strings.Join(code, "\n"), "language", language))
			continue
		}
		blocks = append(blocks, markdownLine(text))
	}
	return blocks, nil
}

// numbered matches the number of a numbered item.
var numbered = regexp.MustCompile(`^\d+\. `)

// markdownLine parses a line without its tabs.
func markdownLine(line string) newBlock {
	if line == "---" {
		return blockOf("divider", "", "", nil)
	}
	for level := 1; level <= 4; level++ {
		if text, ok := strings.CutPrefix(line, strings.Repeat("#", level)+" "); ok {
			return blockOf(fmt.Sprintf("heading_%d", level), text, "", nil)
		}
	}
	for _, form := range []struct {
		prefix, kind string
		checked      any
	}{
		{"- [ ] ", "to_do", false}, {"- [x] ", "to_do", true}, {"- ", "bulleted_list_item", nil}, {"> ", "quote", nil},
	} {
		text, ok := strings.CutPrefix(line, form.prefix)
		switch {
		case ok && form.checked != nil:
			return blockOf(form.kind, text, "checked", form.checked)
		case ok:
			return blockOf(form.kind, text, "", nil)
		}
	}
	if at := numbered.FindStringIndex(line); at != nil {
		return blockOf("numbered_list_item", line[at[1]:], "", nil)
	}
	return blockOf("paragraph", line, "", nil)
}

// blockOf returns a block with a text, and with one further member unless its name is empty.
func blockOf(kind, text, member string, value any) newBlock {
	b := newBlock{kind: kind, text: textSpans(text), rest: map[string]json.RawMessage{}}
	if member != "" {
		b.rest[member] = compact(value)
	}
	return b
}

// content decodes a page's content from a request: blocks or Markdown.
func (c *call) content() ([]newBlock, error) {
	written := c.body.opt("markdown")
	if !written.present {
		return c.decodeBlocks(c.body.opt("children"))
	}
	for _, other := range []string{"children", "content"} {
		if n := c.body.get(other); n.present {
			return nil, n.should("not present")
		}
	}
	text, err := written.text(maxBody)
	return markdownBlocks(text), err
}

// userMention matches a mention of a user.
var userMention = regexp.MustCompile(`<mention-user url="([^"]+)">[^<]*</mention-user>|<mention-user url="([^"]+)"/>`)

// saying decodes a comment's text: rich text, or Markdown, of which only mentions of users are
// parsed.
func (c *call) saying() ([]span, error) {
	written := c.body.opt("markdown")
	if !written.present {
		return c.decodeSpans(c.body.get("rich_text"))
	}
	if n := c.body.get("rich_text"); n.present {
		return nil, n.should("not present")
	}
	text, err := written.text(maxBody)
	if err != nil {
		return nil, err
	}
	var spans []span
	for at := userMention.FindStringSubmatchIndex(text); at != nil; at = userMention.FindStringSubmatchIndex(text) {
		found := userMention.FindStringSubmatch(text)
		user := strings.TrimPrefix(cmp.Or(found[1], found[2]), "user://")
		n, err := asNode("body.markdown", []any{map[string]any{"mention": map[string]any{"user": map[string]any{"id": user}}}})
		if err != nil {
			return nil, err
		}
		mention, err := c.decodeSpans(n)
		if err != nil {
			return nil, err
		}
		spans = append(append(spans, textSpans(text[:at[0]])...), mention...)
		text = text[at[1]:]
	}
	return append(spans, textSpans(text)...), nil
}
