package emulator

import (
	"encoding/json"
	"fmt"
	"strings"
)

// maxMarkdown is how many blocks one answer shows at the most. Those below a block that
// is left out are asked for by its id.
const maxMarkdown = 1000

// markdown writes blocks in Notion's dialect of Markdown.
type markdown struct {
	*world
	out     strings.Builder
	left    int      // how many blocks may still be shown
	cut     bool     // some were not
	unknown []string // the ids of blocks that are not shown
}

// getMarkdown shows a page, or a block with what is below it.
func (c *call) getMarkdown() (render, error) {
	id := c.params["page_id"]
	if _, err := c.holder(id); err != nil {
		return nil, err
	}
	w := &markdown{world: c.world, left: maxMarkdown}
	if b, ok := c.world.Blocks[id]; ok {
		w.block(b, 0, 1)
	} else {
		w.below(id, 0)
	}
	body := map[string]any{
		"object": "page_markdown", "id": id, "markdown": w.out.String(),
		"truncated": w.cut, "unknown_block_ids": orEmpty(w.unknown),
	}
	return func() map[string]any { return body }, nil
}

// below writes the children of an object.
func (w *markdown) below(id string, depth int) {
	number := 0
	for _, child := range w.Children[id] {
		b := w.Blocks[child]
		if number++; b.Type != "numbered_list_item" {
			number = 0
		}
		if w.left == 0 {
			w.cut = true
			w.unknown = append(w.unknown, b.ID)
			continue
		}
		w.left--
		w.block(b, depth, number)
	}
}

// block writes a block, a line of it behind as many tabs as it is deep.
func (w *markdown) block(b *block, depth, number int) {
	var rest struct {
		Checked    bool   `json:"checked"`
		Language   string `json:"language"`
		URL        string `json:"url"`
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
		mark := " "
		if rest.Checked {
			mark = "x"
		}
		line("- [%s] %s\n", mark, text)
	case "quote":
		line("> %s\n", text)
	case "toggle":
		line("<details>\n<summary>%s</summary>\n", text)
		w.below(b.ID, depth+1)
		line("</details>\n")
		return
	case "callout":
		line("<callout>\n\t%s\n</callout>\n", text)
	case "code":
		line("```%s\n%s\n```\n", rest.Language, text)
	case "divider":
		line("---\n")
	case "equation":
		line("$$\n%s\n$$\n", rest.Expression)
	case "bookmark", "embed":
		line("[%s](%[1]s)\n", rest.URL)
	default:
		line("<unknown url=\"https://www.notion.so/%s\" alt=\"%s\"/>\n", strings.ReplaceAll(b.ID, "-", ""), b.Type)
		w.unknown = append(w.unknown, b.ID)
	}
	w.below(b.ID, depth+1)
}

// markdownBlocks reads Markdown as blocks, in the part of the dialect that is written
// most: headings, lists, to-dos, quotes, code, dividers and paragraphs.
func markdownBlocks(text string) []newBlock {
	var blocks []newBlock
	add := func(kind, text string, rest map[string]any) {
		b := newBlock{kind: kind, text: textSpans(text), rest: map[string]json.RawMessage{}}
		for key, value := range rest {
			data, _ := json.Marshal(value)
			b.rest[key] = data
		}
		blocks = append(blocks, b)
	}
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		l := strings.TrimRight(lines[i], " ")
		switch trimmed := strings.TrimLeft(l, "\t"); {
		case trimmed == "":
		case strings.HasPrefix(trimmed, "```"):
			var code []string
			for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
				code = append(code, lines[i])
			}
			add("code", strings.Join(code, "\n"), map[string]any{"language": strings.TrimPrefix(trimmed, "```")})
		case trimmed == "---":
			add("divider", "", nil)
		case headed(trimmed) > 0:
			add(fmt.Sprintf("heading_%d", headed(trimmed)), trimmed[headed(trimmed)+1:], nil)
		case strings.HasPrefix(trimmed, "- [ ] "), strings.HasPrefix(trimmed, "- [x] "):
			add("to_do", trimmed[6:], map[string]any{"checked": trimmed[3] == 'x'})
		case strings.HasPrefix(trimmed, "- "):
			add("bulleted_list_item", trimmed[2:], nil)
		case numbered(trimmed) > 0:
			add("numbered_list_item", trimmed[numbered(trimmed):], nil)
		case strings.HasPrefix(trimmed, "> "):
			add("quote", trimmed[2:], nil)
		default:
			add("paragraph", trimmed, nil)
		}
	}
	return blocks
}

// headed is the level of a heading; 0 if the line is none.
func headed(line string) int {
	for level := 1; level <= 4; level++ {
		if strings.HasPrefix(line, strings.Repeat("#", level)+" ") {
			return level
		}
	}
	return 0
}

// numbered is where the text of a numbered item begins; 0 if the line is none.
func numbered(line string) int {
	digits := len(line) - len(strings.TrimLeft(line, "0123456789"))
	if digits > 0 && strings.HasPrefix(line[digits:], ". ") {
		return digits + 2
	}
	return 0
}

// content reads what a request has as the content of a page: blocks or Markdown.
func (c *call) content() ([]newBlock, error) {
	written := c.body.get("markdown")
	if written.absent() {
		return c.decodeBlocks(c.body.get("children"))
	}
	if children := c.body.get("children"); children.present {
		return nil, children.should("not present")
	}
	text, err := written.text(maxBody)
	return markdownBlocks(text), err
}
