package emulator

import "encoding/json"

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
