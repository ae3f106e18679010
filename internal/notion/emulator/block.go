package emulator

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// newBlock is a block of a request, with its children.
type newBlock struct {
	kind     string
	text     []span
	rest     map[string]json.RawMessage
	children []newBlock
}

// textBlocks are the types with rich_text.
var textBlocks = []string{
	"paragraph", "heading_1", "heading_2", "heading_3", "heading_4", "bulleted_list_item", "numbered_list_item",
	"to_do", "toggle", "quote", "callout", "code", "template",
}

// otherBlocks are the types without.
var otherBlocks = []string{
	"divider", "breadcrumb", "table_of_contents", "bookmark", "embed", "equation", "image", "video", "file", "pdf",
	"audio", "link_to_page", "table", "table_row", "column_list", "column", "synced_block",
}

// maxBlockDepth is how many levels of blocks a request may have.
const maxBlockDepth = 3

// decodeBlocks decodes the children of a request; nil if there are none.
func (tx *tx) decodeBlocks(n node) ([]newBlock, error) { return tx.decodeLevel(n, 1) }

func (tx *tx) decodeLevel(n node, depth int) ([]newBlock, error) {
	if !n.present {
		return nil, nil
	}
	if depth > maxBlockDepth {
		return nil, n.should("not present")
	}
	elements, err := n.array()
	if err != nil {
		return nil, err
	}
	var blocks []newBlock
	for _, e := range elements {
		b, err := tx.decodeBlock(e, depth)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

func (tx *tx) decodeBlock(n node, depth int) (newBlock, error) {
	m, err := n.object()
	if err != nil {
		return newBlock{}, err
	}
	kinds := slices.Concat(textBlocks, otherBlocks)
	i := slices.IndexFunc(kinds, func(k string) bool { _, ok := m[k]; return ok })
	if i < 0 {
		return newBlock{}, n.get("paragraph").should("defined")
	}
	b := newBlock{kind: kinds[i]}
	if err := cmp.Or(n.typed(b.kind), n.called("block")); err != nil {
		return b, err
	}
	content := n.get(b.kind)
	if b.rest, err = tx.decodeContent(b.kind, content); err != nil {
		return b, err
	}
	if slices.Contains(textBlocks, b.kind) {
		if b.text, err = tx.decodeSpans(content.get("rich_text")); err != nil {
			return b, err
		}
	}
	for _, children := range []node{content.opt("children"), n.opt("children")} {
		below, err := tx.decodeLevel(children, depth+1)
		if err != nil {
			return b, err
		}
		b.children = append(b.children, below...)
	}
	return b, nil
}

func countBlocks(blocks []newBlock) int {
	n := len(blocks)
	for _, b := range blocks {
		n += countBlocks(b.children)
	}
	return n
}

// appendBlocks inserts blocks below the object with the id to, at an index among its children, and
// returns their ids.
func (tx *tx) appendBlocks(to string, p parent, blocks []newBlock, at int) []string {
	var ids []string
	for _, nb := range blocks {
		b := &block{
			ID: newID(), Parent: p, Type: nb.kind, Text: nb.text, Rest: nb.rest, Seq: tx.seq(),
			Created: tx.now, Edited: tx.now, CreatedBy: tx.user, EditedBy: tx.user,
		}
		put(tx, tx.world.Blocks, b.ID, b)
		tx.appendBlocks(b.ID, parent{Block: b.ID}, nb.children, 0)
		ids = append(ids, b.ID)
	}
	if len(ids) > 0 {
		put(tx, tx.world.Children, to, slices.Insert(slices.Clone(tx.world.Children[to]), at, ids...))
	}
	return ids
}

// container returns a page or block as the parent of blocks.
func (c *call) container(id string) (parent, error) {
	if _, ok := c.world.Pages[id]; ok {
		_, err := c.page(id)
		return parent{Page: id}, err
	}
	if _, err := c.block(id); err != nil {
		return parent{}, err
	}
	return parent{Block: id}, nil
}

func (c *call) block(id string) (*block, error) {
	b, ok := c.world.Blocks[id]
	if ok {
		if p := c.world.pageOf(b); p != nil && !c.world.hidden(p) {
			return b, nil
		}
	}
	return nil, notFound("block", id)
}

// pageOf returns the page that a block is on; nil if there is none.
func (w *world) pageOf(b *block) *page {
	for b != nil && b.Parent.Page == "" {
		b = w.Blocks[b.Parent.Block]
	}
	if b == nil {
		return nil
	}
	return w.Pages[b.Parent.Page]
}

func (c *call) getBlock() (render, error) {
	id := c.params["block_id"]
	if p, ok := c.world.Pages[id]; ok {
		if c.world.hidden(p) {
			return nil, notFound("block", id)
		}
		return func() map[string]any { return c.encodePageBlock(p) }, nil
	}
	b, err := c.block(id)
	if err != nil {
		return nil, err
	}
	return func() map[string]any { return c.encodeBlock(b) }, nil
}

func (c *call) listChildren() (render, error) {
	id := c.params["block_id"]
	if _, err := c.container(id); err != nil {
		return nil, err
	}
	return c.list("block", append(c.encodeBlocks(c.world.Children[id]), c.encodeBelow(id)...), c.param)
}

func (c *call) appendChildren() (render, error) {
	known := []string{"children", "position"}
	if c.version < version2026 {
		known = append(known, "after")
	}
	if err := c.body.only(known...); err != nil {
		return nil, err
	}
	id := c.params["block_id"]
	to, err := c.container(id)
	if err != nil {
		return nil, err
	}
	if p, ok := c.world.Pages[id]; ok && p.Trashed {
		return nil, trashed()
	}
	if err := c.body.get("children").defined(); err != nil {
		return nil, err
	}
	blocks, err := c.decodeBlocks(c.body.get("children"))
	if err != nil {
		return nil, err
	}
	at, err := c.position(id)
	if err != nil {
		return nil, err
	}
	if err := c.takeBlocks(countBlocks(blocks)); err != nil {
		return nil, err
	}
	ids := c.appendBlocks(id, to, blocks, at)
	if p, ok := c.world.Pages[id]; ok {
		c.edit(p, func(*page) {})
	}
	// Encoded here, because a rollback removes the blocks before rendering.
	results := c.encodeBlocks(ids)
	return func() map[string]any { return listBody("block", results, "") }, nil
}

// trashBlock moves a block to the trash. It is not among its parent's any more.
func (c *call) trashBlock() (render, error) {
	b, err := c.block(c.params["block_id"])
	if err != nil {
		return nil, err
	}
	if b.Trashed && !c.again || c.world.inTrash(c.world.pageOf(b)) {
		return nil, trashed()
	}
	next := *b
	next.Trashed, next.Edited, next.EditedBy = true, c.now, c.user
	put(c.tx, c.world.Blocks, b.ID, &next)
	of := cmp.Or(b.Parent.Page, b.Parent.Block)
	left := slices.DeleteFunc(slices.Clone(c.world.Children[of]), func(id string) bool { return id == b.ID })
	put(c.tx, c.world.Children, of, left)
	c.edit(c.world.pageOf(b), func(*page) {})
	return func() map[string]any { return c.encodeBlock(&next) }, nil
}

// position returns the index for new children: the end, unless the body says otherwise.
func (c *call) position(id string) (int, error) {
	children := c.world.Children[id]
	if c.first {
		return 0, nil
	}
	n := c.body.opt("after")
	if p := c.body.opt("position"); p.present {
		kind, err := p.get("type").oneOf("start", "end", "after_block")
		switch {
		case err != nil:
			return 0, err
		case kind == "start":
			return 0, nil
		case kind == "end":
			return len(children), nil
		}
		n = p.get("after_block").get("id")
	}
	if !n.present {
		return len(children), nil
	}
	after, err := n.id()
	if err != nil {
		return 0, err
	}
	i := slices.Index(children, after)
	if i < 0 {
		return 0, notFound("block", after)
	}
	return i + 1, nil
}

func (c *call) encodeBlocks(ids []string) []any {
	out := []any{}
	for _, id := range ids {
		out = append(out, c.encodeBlock(c.world.Blocks[id]))
	}
	return out
}

func (c *call) encodeBlock(b *block) map[string]any {
	content := map[string]any{}
	for _, m := range contentOf(b.Type) {
		if m.unset != nil {
			content[m.name] = m.unset
		}
	}
	for key, v := range b.Rest {
		content[key] = v
	}
	if slices.Contains(textBlocks, b.Type) {
		content["rich_text"] = orEmpty(b.Text)
	}
	m := map[string]any{
		"object":           "block",
		"id":               b.ID,
		"parent":           c.encodeParent(b.Parent),
		"created_time":     stamp(b.Created),
		"last_edited_time": stamp(b.Edited),
		"created_by":       partialUser(b.CreatedBy),
		"last_edited_by":   partialUser(b.EditedBy),
		"has_children":     len(c.world.Children[b.ID]) > 0,
		"in_trash":         b.Trashed,
		"type":             b.Type,
		b.Type:             content,
	}
	if !c.version.trashOnly() {
		m["archived"] = b.Trashed
	}
	return m
}

// encodePageBlock encodes a page as a child_page block.
func (c *call) encodePageBlock(p *page) map[string]any {
	m := c.encodePage(p, nil)
	for _, key := range []string{"cover", "icon", "is_archived", "is_locked", "properties", "url", "public_url"} {
		delete(m, key)
	}
	maps.Copy(m, map[string]any{
		"object":       "block",
		"type":         "child_page",
		"child_page":   map[string]any{"title": c.world.title(p)},
		"has_children": len(c.world.Children[p.ID]) > 0,
	})
	return m
}

// blockLines returns the plain text of the blocks below an object, one line for each.
func (w *world) blockLines(id string) []string {
	var lines []string
	for _, child := range w.Children[id] {
		lines = append(lines, plainText(w.Blocks[child].Text))
		lines = append(lines, w.blockLines(child)...)
	}
	return lines
}

// member is a member of a block's content other than its text and its children.
type member struct {
	name   string
	decode func(*tx, node) (any, error)
	// unset is what answers show if a request leaves the member out; nil for nothing.
	unset    any
	required bool
}

// as makes a member's decoder of one for plain values.
func as[T any](decode func(node) (T, error)) func(*tx, node) (any, error) {
	return func(_ *tx, n node) (any, error) { return decode(n) }
}

func richTextOf(tx *tx, n node) (any, error) { return tx.decodeSpans(n) }

// syncedFrom decodes the block that another one is synced with, null for the original.
func syncedFrom(n node) (map[string]any, error) {
	if n.null() {
		return nil, nil
	}
	return n.variant(idOf("block_id"))
}

func anIcon(n node) (map[string]any, error) { return n.variant(icons...) }

func textOf(n node) (string, error) { return n.text(maxContent) }

// contentOf returns the members of a block's content.
func contentOf(kind string) []member {
	color := member{name: "color", decode: as(node.textColor), unset: "default"}
	icon := member{name: "icon", decode: as(anIcon), unset: json.RawMessage("null")}
	caption := member{name: "caption", decode: richTextOf, unset: []span{}}
	address := member{name: "url", decode: as(textOf), required: true}
	flag := func(name string) member { return member{name: name, decode: as(node.boolean), unset: false} }
	switch kind {
	case "paragraph", "callout":
		return []member{color, icon}
	case "heading_1", "heading_2", "heading_3", "heading_4":
		return []member{color, flag("is_toggleable")}
	case "to_do":
		return []member{color, flag("checked")}
	case "bulleted_list_item", "numbered_list_item", "toggle", "quote", "table_of_contents":
		return []member{color}
	case "code":
		return []member{caption, {name: "language", decode: as(language), required: true}}
	case "equation":
		return []member{{name: "expression", decode: as(textOf), required: true}}
	case "bookmark", "embed":
		return []member{address, caption}
	case "image", "video", "pdf", "audio":
		return []member{caption}
	case "file":
		return []member{caption, {name: "name", decode: as(textOf), unset: ""}}
	case "table":
		return []member{flag("has_column_header"), flag("has_row_header"), {name: "table_width", decode: as(node.number), required: true}}
	case "table_row":
		return []member{{name: "cells", decode: cells, required: true}}
	case "column":
		return []member{{name: "width_ratio", decode: as(node.number)}}
	case "synced_block":
		return []member{{name: "synced_from", decode: as(syncedFrom), required: true}}
	}
	return nil // divider, breadcrumb, template, column_list
}

// decodeContent decodes the members of a block's content that a request names. Others are ignored.
func (tx *tx) decodeContent(kind string, n node) (map[string]json.RawMessage, error) {
	if _, err := n.object(); err != nil {
		return nil, err
	}
	rest := map[string]json.RawMessage{}
	for _, m := range contentOf(kind) {
		v := n.get(m.name)
		v.optional = !m.required
		if v.optional && !v.present {
			continue
		}
		shown, err := m.decode(tx, v)
		if err != nil {
			return nil, err
		}
		rest[m.name] = compact(shown)
	}
	var forms []variant
	switch kind {
	case "image", "video", "pdf", "audio", "file":
		forms = covers
	case "link_to_page":
		forms = []variant{idOf("page_id"), idOf("database_id"), idOf("comment_id")}
	default:
		return rest, nil
	}
	shown, err := n.variant(forms...)
	for key, v := range shown {
		rest[key] = compact(v)
	}
	return rest, err
}

// cells decodes the cells of a row of a table.
func cells(tx *tx, n node) (any, error) {
	elements, err := n.array()
	all := [][]span{}
	for _, e := range elements {
		text, err := tx.decodeSpans(e)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, err
}

// language decodes the language of a code block.
func language(n node) (string, error) { return n.oneOf(languages...) }

// languages of code blocks.
var languages = []string{
	"abap", "abc", "agda", "arduino", "ascii art", "assembly", "bash", "basic", "bnf", "c", "c#", "c++",
	"clojure", "coffeescript", "coq", "css", "dart", "dhall", "diff", "docker", "ebnf", "elixir", "elm",
	"erlang", "f#", "flow", "fortran", "gherkin", "glsl", "go", "graphql", "groovy", "haskell", "hcl",
	"html", "idris", "java", "javascript", "json", "julia", "kotlin", "latex", "less", "lisp", "livescript",
	"llvm ir", "lua", "makefile", "markdown", "markup", "matlab", "mathematica", "mermaid", "nix",
	"notion formula", "objective-c", "ocaml", "pascal", "perl", "php", "plain text", "powershell", "prolog",
	"protobuf", "purescript", "python", "r", "racket", "reason", "ruby", "rust", "sass", "scala", "scheme",
	"scss", "shell", "smalltalk", "solidity", "sql", "swift", "toml", "typescript", "vb.net", "verilog",
	"vhdl", "visual basic", "webassembly", "xml", "yaml", "java/c/c++/c#",
}

// encodeBelow encodes the databases and pages directly on a page as blocks, in the order of their
// creation.
func (c *call) encodeBelow(pageID string) []any {
	below := parent{Page: pageID}
	type child struct {
		seq    int64
		encode func() map[string]any
	}
	var children []child
	for _, d := range c.world.Databases {
		if d.Parent == below && !d.Trashed && !c.world.Hidden[d.ID] {
			children = append(children, child{d.Seq, func() map[string]any { return c.encodeDatabaseBlock(d) }})
		}
	}
	for _, p := range c.world.Pages {
		if p.Parent == below && p.live() && !c.world.hidden(p) {
			children = append(children, child{p.Seq, func() map[string]any { return c.encodePageBlock(p) }})
		}
	}
	slices.SortFunc(children, func(a, b child) int { return cmp.Compare(a.seq, b.seq) })
	out := []any{}
	for _, ch := range children {
		out = append(out, ch.encode())
	}
	return out
}

// encodeDatabaseBlock encodes a database as a child_database block.
func (c *call) encodeDatabaseBlock(d *database) map[string]any {
	m := c.encodeDatabase(d)
	for _, key := range []string{"cover", "icon", "is_inline", "is_locked", "properties", "data_sources", "title", "description", "url", "public_url"} {
		delete(m, key)
	}
	maps.Copy(m, map[string]any{
		"object":         "block",
		"created_by":     partialUser(d.CreatedBy),
		"last_edited_by": partialUser(d.EditedBy),
		"type":           "child_database",
		"child_database": map[string]any{"title": plainText(d.Title)},
		"has_children":   false,
	})
	return m
}
