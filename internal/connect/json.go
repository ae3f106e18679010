package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// document is a file of JSON, perhaps with comments, that is changed in places.
type document struct {
	root   hujson.Value
	indent string
}

// parse reads a document; of no file or an empty one it makes an empty object.
func parse(data []byte) (*document, error) {
	d := &document{indent: "  "}
	if len(bytes.TrimSpace(data)) == 0 {
		d.root = hujson.Value{Value: &hujson.Object{}, AfterExtra: []byte("\n")}
		return d, nil
	}
	var err error
	if d.root, err = hujson.Parse(data); err != nil {
		return nil, fmt.Errorf("it is not JSON (%w): mend it, or connect by hand", err)
	}
	if _, ok := d.root.Value.(*hujson.Object); !ok {
		return nil, errors.New("it is not a JSON object: mend it, or connect by hand")
	}
	for line := range strings.Lines(string(data)) {
		if rest := strings.TrimLeft(line, " \t"); rest != line && strings.HasPrefix(rest, `"`) {
			d.indent = line[:len(line)-len(rest)]
			break
		}
	}
	return d, nil
}

// pack returns the document's text; nil if nothing is left in it.
func (d *document) pack() []byte {
	if o := d.root.Value.(*hujson.Object); len(o.Members) == 0 && len(bytes.TrimSpace(o.AfterExtra)) == 0 {
		return nil
	}
	return d.root.Pack()
}

// object returns the member of o of that name, which has to be an object; it is nil if
// there is none.
func object(o *hujson.Object, name string) (*hujson.Object, error) {
	v := member(o, name)
	if v == nil {
		return nil, nil
	}
	if child, ok := v.Value.(*hujson.Object); ok {
		return child, nil
	}
	return nil, fmt.Errorf("%q in it is not an object: mend it, or connect by hand", name)
}

func member(o *hujson.Object, name string) *hujson.Value {
	for i := range o.Members {
		if o.Members[i].Name.Value.(hujson.Literal).String() == name {
			return &o.Members[i].Value
		}
	}
	return nil
}

// value makes a value of JSON as it is written that deep in the document.
func (d *document) value(v any, depth int) hujson.Value {
	text, err := json.MarshalIndent(v, strings.Repeat(d.indent, depth), d.indent)
	if err != nil {
		panic(err) // nothing but texts and numbers is written
	}
	made, err := hujson.Parse(text)
	if err != nil {
		panic(err)
	}
	return made
}

func (d *document) line(depth int) hujson.Extra {
	return hujson.Extra("\n" + strings.Repeat(d.indent, depth))
}

// set gives o, at that depth, a member.
func (d *document) set(o *hujson.Object, depth int, name string, v any) {
	m := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name)}, Value: d.value(v, depth+1)}
	m.Name.BeforeExtra, m.Value.BeforeExtra = d.line(depth+1), hujson.Extra(" ")
	o.Members = append(o.Members, m)
	if len(o.Members) == 1 {
		o.AfterExtra = append(o.AfterExtra, d.line(depth)...)
	}
}

// drop takes a member out of o.
func drop(o *hujson.Object, name string) {
	o.Members = slices.DeleteFunc(o.Members, func(m hujson.ObjectMember) bool {
		return m.Name.Value.(hujson.Literal).String() == name
	})
}

// server returns the edit of a list of MCP servers.
func (p Place) server(entry map[string]any) func([]byte, bool) ([]byte, error) {
	return func(before []byte, undo bool) ([]byte, error) {
		d, err := parse(before)
		if err != nil {
			return nil, err
		}
		root := d.root.Value.(*hujson.Object)
		servers, err := object(root, "mcpServers")
		if err != nil {
			return nil, err
		}
		var there struct {
			Command string   `json:"command"`
			Args    []string `json:"args"`
		}
		if servers != nil {
			if v := member(servers, "dibs"); v != nil {
				plain := v.Clone()
				plain.Standardize()
				err := json.Unmarshal(plain.Pack(), &there)
				switch ours := err == nil && isDibs(there.Command) && len(there.Args) > 0 && there.Args[0] == "mcp"; {
				case ours && !undo:
					return before, nil // with what somebody may have added to it
				case ours:
					drop(servers, "dibs")
					if len(servers.Members) == 0 {
						drop(root, "mcpServers")
					}
					return d.pack(), nil
				case undo:
					return before, nil
				default:
					return nil, errors.New("it has an MCP server \"dibs\" that is another one: take it out, or give it another name")
				}
			}
		}
		switch {
		case undo:
			return before, nil
		case servers == nil:
			d.set(root, 0, "mcpServers", map[string]any{"dibs": entry})
		default:
			d.set(servers, 1, "dibs", entry)
		}
		return d.pack(), nil
	}
}

// isDibs reports whether a command is this program, wherever it is.
func isDibs(command string) bool {
	name := command[strings.LastIndexAny(command, `/\`)+1:]
	return name == "dibs" || name == "dibs.exe"
}

// hookEntry is what is added to the list of an event.
type hookEntry struct {
	event string
	value any
}

// hooks returns the edit of a file with hooks. A new file also gets what base has.
func (p Place) hooks(base map[string]any, entries ...hookEntry) func([]byte, bool) ([]byte, error) {
	return func(before []byte, undo bool) ([]byte, error) {
		d, err := parse(before)
		if err != nil {
			return nil, err
		}
		root := d.root.Value.(*hujson.Object)
		if !undo {
			for name, v := range base {
				if member(root, name) == nil {
					d.set(root, 0, name, v)
				}
			}
		}
		hooks, err := object(root, "hooks")
		if err != nil {
			return nil, err
		}
		if hooks == nil {
			if undo {
				return before, nil
			}
			d.set(root, 0, "hooks", map[string]any{})
			hooks, _ = object(root, "hooks")
		}
		changed := false
		for _, e := range entries {
			made, err := d.edit(hooks, e, undo)
			if err != nil {
				return nil, err
			}
			changed = changed || made
		}
		if !changed {
			return before, nil
		}
		if undo && len(hooks.Members) == 0 {
			drop(root, "hooks")
			// What a new file got beside the hooks means nothing without them.
			if len(root.Members) == len(base) && !slices.ContainsFunc(root.Members, func(m hujson.ObjectMember) bool {
				_, ours := base[m.Name.Value.(hujson.Literal).String()]
				return !ours
			}) {
				return nil, nil
			}
		}
		return d.pack(), nil
	}
}

// edit puts an entry into the list of its event, if it is not there, or takes it out.
func (d *document) edit(hooks *hujson.Object, e hookEntry, undo bool) (changed bool, err error) {
	v := member(hooks, e.event)
	if v == nil {
		if undo {
			return false, nil
		}
		d.set(hooks, 1, e.event, []any{e.value})
		return true, nil
	}
	list, ok := v.Value.(*hujson.Array)
	if !ok {
		return false, fmt.Errorf("\"hooks\".%q in it is not a list: mend it, or connect by hand", e.event)
	}
	isOurs := func(v hujson.Value) bool { return callsHook(v, e.event) }
	if undo {
		n := len(list.Elements)
		list.Elements = slices.DeleteFunc(list.Elements, isOurs)
		if len(list.Elements) == 0 {
			drop(hooks, e.event)
		}
		return len(list.Elements) < n, nil
	}
	if slices.ContainsFunc(list.Elements, isOurs) {
		return false, nil
	}
	added := d.value(e.value, 3)
	added.BeforeExtra = d.line(3)
	list.Elements = append(list.Elements, added)
	if len(list.Elements) == 1 {
		list.AfterExtra = append(list.AfterExtra, d.line(2)...)
	}
	return true, nil
}

// callsHook reports whether all that an entry calls is dibs, for that event.
func callsHook(v hujson.Value, event string) bool {
	plain := v.Clone()
	plain.Standardize()
	var e struct {
		Command string    `json:"command"`
		Hooks   []handler `json:"hooks"`
	}
	if json.Unmarshal(plain.Pack(), &e) != nil {
		return false
	}
	ours := func(command string) bool {
		before, flags, ok := strings.Cut(command, " hook "+event)
		return ok && (flags == "" || flags[0] == ' ') && isDibs(strings.Trim(before, "'"))
	}
	return ours(e.Command) || len(e.Hooks) > 0 && !slices.ContainsFunc(e.Hooks, func(h handler) bool { return !ours(h.Command) })
}
