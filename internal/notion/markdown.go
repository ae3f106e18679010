package notion

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"dibs/internal/notion/transport"
	"dibs/internal/task"
)

// Markdown is the content of a page.
type Markdown struct {
	// Text is in Notion's dialect of Markdown, without control characters, see task.Plain.
	Text string
	// Missing names the parts that Text does not show, one line each: blocks without a form in
	// Markdown, and parts that could not be loaded.
	Missing []string
	// Unloaded counts the parts that could not be loaded, and may hold anything.
	Unloaded int
}

// maxParts limits the parts of a long page that are loaded after its first answer.
const maxParts = 20

// Markdown reads the content of a page. It takes one request, and one more for each part of a long
// page that Notion leaves out, up to twenty, in the lowest lane unless ctx says otherwise. The
// error is a *claim.StoreError. A part that cannot be loaded is listed as missing; that is not an
// error.
func (c *Client) Markdown(ctx context.Context, id task.ID) (Markdown, error) {
	ctx = transport.InLaneUnlessChosen(ctx, transport.LaneSync)
	text, open, err := c.markdown(ctx, string(id))
	if err != nil {
		return Markdown{}, storeError(err)
	}
	var md Markdown
	asked := map[string]bool{string(id): true}
	for parts := 0; len(open) > 0; open = open[1:] {
		part := open[0]
		if asked[part] {
			continue
		}
		asked[part] = true
		tag := unknownTag(text, part)
		if parts == maxParts {
			md.Unloaded++
			if tag == nil {
				md.Missing = append(md.Missing, task.OneLine("a part of the page, "+part, -1))
			}
			continue
		}
		parts++
		more, further, err := c.markdown(ctx, part)
		switch {
		case err == nil:
			text = insertPart(text, tag, more)
			open = append(open, further...)
		case ctx.Err() != nil:
			return Markdown{}, storeError(err)
		default:
			md.Unloaded++
			if tag == nil {
				md.Missing = append(md.Missing, task.OneLine("a part of the page, "+part, -1))
			}
		}
	}
	md.Text = task.Plain(text)
	md.Missing = append(md.Missing, unshown(md.Text)...)
	return md, nil
}

// markdown reads a page, or an omitted block, and the ids of the blocks that the answer omits.
func (c *Client) markdown(ctx context.Context, id string) (text string, open []string, err error) {
	var answer struct {
		Markdown *string  `json:"markdown"`
		Unknown  []string `json:"unknown_block_ids"`
	}
	if err := c.get(ctx, "/v1/pages/"+id+"/markdown", nil, &answer); err != nil {
		return "", nil, err
	}
	if answer.Markdown == nil {
		return "", nil, errNoMarkdown
	}
	for _, id := range answer.Unknown {
		if id, err := task.ParseID(id); err == nil {
			open = append(open, string(id))
		}
	}
	return *answer.Markdown, open, nil
}

var errNoMarkdown = errors.New("an answer without Markdown")

// unknownBlock matches the line that stands for an omitted block.
var unknownBlock = regexp.MustCompile(`(?m)^(\t*)<unknown\b([^\n>]*)>[ \t]*(?:\n|\z)`)

// unknownTag finds the line that stands for a block; nil if there is none.
func unknownTag(text, id string) []int {
	bare := strings.ReplaceAll(id, "-", "")
	for _, at := range unknownBlock.FindAllStringSubmatchIndex(text, -1) {
		if strings.Contains(strings.ReplaceAll(text[at[4]:at[5]], "-", ""), bare) {
			return at
		}
	}
	return nil
}

// insertPart puts an omitted part in its place, with its indentation, or else at the end.
func insertPart(text string, tag []int, more string) string {
	if more != "" && !strings.HasSuffix(more, "\n") {
		more += "\n"
	}
	if tag == nil {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return text + more
	}
	var part strings.Builder
	for line := range strings.Lines(more) {
		part.WriteString(text[tag[2]:tag[3]] + line)
	}
	return text[:tag[0]] + part.String() + text[tag[1]:]
}

// attribute matches an attribute of a tag.
var attribute = regexp.MustCompile(`\b(url|alt)="([^"]*)"`)

// maxMissing limits the listed missing parts.
const maxMissing = 50

// unshown lists the blocks that the text only stands for, such as "bookmark, https://…".
func unshown(text string) []string {
	var names []string
	tags := unknownBlock.FindAllStringSubmatch(text, -1)
	for i, tag := range tags {
		if i == maxMissing {
			return append(names, fmt.Sprintf("%d more", len(tags)-i))
		}
		attributes := make(map[string]string)
		for _, a := range attribute.FindAllStringSubmatch(tag[2], -1) {
			attributes[a[1]] = a[2]
		}
		name := attributes["alt"]
		if name == "" {
			name = "a block"
		}
		if attributes["url"] != "" {
			name += ", " + attributes["url"]
		}
		names = append(names, task.OneLine(name, -1))
	}
	return names
}
