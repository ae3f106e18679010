package connect

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tailscale/hujson"
)

// server returns the edit of a list of MCP servers.
func (p Place) server(entry map[string]any) func([]byte, bool) ([]byte, error) {
	return func(before []byte, undo bool) ([]byte, error) {
		d, err := parse(before)
		if err != nil {
			return nil, err
		}
		servers, err := object(d.object, "mcpServers")
		if err != nil {
			return nil, err
		}
		var there *hujson.Value
		if servers != nil {
			if there, err = member(servers, "dibs"); err != nil {
				return nil, err
			}
		}
		var has struct {
			Command string   `json:"command"`
			Args    []string `json:"args"`
		}
		ours := there != nil && decode(there, &has) == nil && p.isOurs(has.Command, has.Args)
		switch {
		case undo && !ours:
			return before, nil
		case undo:
			if drop(servers, "dibs") && drop(d.object, "mcpServers") {
				return d.without(), nil
			}
		case ours && has.Command == p.Dibs && slices.Equal(has.Args, p.args(has.Args)):
			return before, nil // additions by others stay
		case ours:
			args := d.value(p.args(has.Args), 3)
			if slices.Equal(has.Args, p.args(has.Args)) {
				args.Value = nil
			}
			if err := errors.Join(replace(there, "command", hujson.String(p.Dibs)), replace(there, "args", args.Value)); err != nil {
				return nil, err
			}
		case there != nil:
			return nil, errAnother
		case servers == nil:
			d.set(d.object, 0, "mcpServers", d.value(map[string]any{"dibs": entry}, 1))
		default:
			d.set(servers, 1, "dibs", d.value(entry, 2))
		}
		return d.root.Pack(), nil
	}
}

// replace changes the value of an object's member; nil leaves it.
func replace(v *hujson.Value, name string, to hujson.ValueTrimmed) error {
	m, err := member(v.Value.(*hujson.Object), name)
	if err == nil && m != nil && to != nil {
		m.Value = to
	}
	return err
}

// hookEntry is an entry for an event's list.
type hookEntry struct {
	event string
	value any
}

// setting is a further member of a hooks file; none if name is empty.
type setting struct {
	name  string
	value any
}

// hooks returns the edit of a file with hooks. If we add the list of hooks, we add the further
// setting after it.
func (p Place) hooks(beside setting, entries ...hookEntry) func([]byte, bool) ([]byte, error) {
	return func(before []byte, undo bool) ([]byte, error) {
		d, err := parse(before)
		if err != nil {
			return nil, err
		}
		hooks, err := object(d.object, "hooks")
		switch {
		case err != nil:
			return nil, err
		case undo && hooks == nil:
			return before, nil
		case undo:
			return p.takeHooks(d, hooks, before, beside, entries)
		}
		changed := false
		if hooks == nil {
			hooks, changed = new(hujson.Object), true
			d.made[hooks] = true
			d.set(d.object, 0, "hooks", hujson.Value{Value: hooks})
			there, err := member(d.object, beside.name)
			if err != nil {
				return nil, err
			}
			if beside.name != "" && there == nil {
				d.set(d.object, 0, beside.name, d.value(beside.value, 1))
			}
		}
		for _, e := range entries {
			made, err := p.putHook(d, hooks, e)
			if err != nil {
				return nil, err
			}
			changed = changed || made
		}
		if !changed {
			return before, nil
		}
		return d.root.Pack(), nil
	}
}

// takeHooks removes our hooks, and with the last of them the further setting.
func (p Place) takeHooks(d *document, hooks *hujson.Object, before []byte, beside setting, entries []hookEntry) ([]byte, error) {
	changed, gone := false, false
	for _, e := range slices.Backward(entries) { // in reverse
		list, err := hookList(hooks, e.event)
		if err != nil {
			return nil, err
		}
		if list == nil {
			continue
		}
		empty := false
		for i := len(list.Elements) - 1; i >= 0; i-- {
			if p.isOurHook(&list.Elements[i], e.event) {
				empty, changed = dropElement(list, i), true
			}
		}
		if empty {
			gone = drop(hooks, e.event)
		}
	}
	switch {
	case !changed:
		return before, nil
	case !gone:
		return d.root.Pack(), nil
	}
	// The setting right after the hooks was added with them.
	if i := index(d.object, "hooks") + 1; i < len(d.object.Members) && i == index(d.object, beside.name) {
		drop(d.object, beside.name)
	}
	if drop(d.object, "hooks") {
		return d.without(), nil
	}
	return d.root.Pack(), nil
}

// hookList returns the list of an event, or nil.
func hookList(hooks *hujson.Object, event string) (*hujson.Array, error) {
	v, err := member(hooks, event)
	if v == nil || err != nil {
		return nil, err
	}
	if list, ok := v.Value.(*hujson.Array); ok {
		return list, nil
	}
	return nil, fmt.Errorf("\"hooks\".%q in it is not a list: mend it, or connect by hand", event)
}

// putHook adds an entry to its event's list, or updates the path of dibs in an existing one.
func (p Place) putHook(d *document, hooks *hujson.Object, e hookEntry) (changed bool, err error) {
	list, err := hookList(hooks, e.event)
	switch {
	case err != nil:
		return false, err
	case list == nil:
		d.set(hooks, 1, e.event, d.value([]any{e.value}, 2))
		return true, nil
	}
	there := false
	for i := range list.Elements {
		if v := &list.Elements[i]; p.isOurHook(v, e.event) {
			moved, err := p.repointHook(v, e.event)
			if err != nil {
				return false, err
			}
			there, changed = true, changed || moved
		}
	}
	if there {
		return changed, nil
	}
	d.append(list, 3, e.value)
	return true, nil
}

// isOurHook reports whether an entry calls only dibs, for that event.
func (p Place) isOurHook(v *hujson.Value, event string) bool {
	var e struct {
		Command string    `json:"command"`
		Hooks   []handler `json:"hooks"`
	}
	if decode(v, &e) != nil {
		return false
	}
	ours := func(command string) bool {
		program, _, ok := calls(command, event)
		return ok && p.isDibs(program)
	}
	return ours(e.Command) || len(e.Hooks) > 0 && !slices.ContainsFunc(e.Hooks, func(h handler) bool { return !ours(h.Command) })
}

// repointHook updates the path of dibs in one of our entries. Additions by others stay.
func (p Place) repointHook(v *hujson.Value, event string) (changed bool, err error) {
	entry := v.Value.(*hujson.Object)
	command, err := member(entry, "command")
	if err != nil {
		return false, err
	}
	if command != nil {
		was := command.Value.(hujson.Literal).String()
		_, flags, ok := calls(was, event)
		if !ok || was == p.hook(event, flags) {
			return false, nil
		}
		command.Value = hujson.String(p.hook(event, flags))
		return true, nil
	}
	handlers, err := member(entry, "hooks")
	if handlers == nil || err != nil {
		return false, err
	}
	list := handlers.Value.(*hujson.Array)
	for i := range list.Elements {
		moved, err := p.repointHook(&list.Elements[i], event)
		if err != nil {
			return false, err
		}
		changed = changed || moved
	}
	return changed, nil
}

// allowed are the names under which Claude Code's settings list the unix sockets that commands in its
// sandbox may use: on macOS alone, since a seccomp filter on Linux does not see paths.
var allowed = []string{"sandbox", "network", "allowUnixSockets"}

// allow edits Claude Code's settings so that its sandbox allows the daemon's socket, and no other.
func (p Place) allow(before []byte, undo bool) ([]byte, error) {
	d, err := parse(before)
	if err != nil {
		return nil, err
	}
	within := []*hujson.Object{d.object} // of each name
	for _, name := range allowed[:2] {
		o, err := object(within[len(within)-1], name)
		if err != nil {
			return nil, err
		}
		if o == nil {
			break
		}
		within = append(within, o)
	}
	depth := len(within) - 1
	var sockets *hujson.Array
	if depth == 2 {
		v, err := member(within[2], allowed[2])
		if err != nil {
			return nil, err
		}
		if v != nil {
			var isList bool
			if sockets, isList = v.Value.(*hujson.Array); !isList {
				return nil, errors.New("\"sandbox\".\"network\".\"allowUnixSockets\" in it is not a list: mend it, or connect by hand")
			}
		}
	}
	at := -1
	if sockets != nil {
		at = slices.IndexFunc(sockets.Elements, func(v hujson.Value) bool {
			l, ok := v.Value.(hujson.Literal)
			return ok && l.Kind() == '"' && l.String() == p.Socket
		})
	}
	switch {
	case undo == (at < 0):
		return before, nil
	case undo:
		gone := dropElement(sockets, at)
		for ; gone && depth >= 0; depth-- {
			gone = drop(within[depth], allowed[depth])
		}
		if gone {
			return d.without(), nil
		}
	case sockets != nil:
		d.append(sockets, 4, p.Socket)
	default:
		var v any = []string{p.Socket}
		for _, name := range slices.Backward(allowed[depth+1:]) {
			v = map[string]any{name: v}
		}
		d.set(within[depth], depth, allowed[depth], d.value(v, depth+1))
	}
	return d.root.Pack(), nil
}

// both makes two edits of a file, and undoes them in reverse.
func both(first, second func([]byte, bool) ([]byte, error)) func([]byte, bool) ([]byte, error) {
	return func(text []byte, undo bool) ([]byte, error) {
		if undo {
			first, second = second, first
		}
		text, err := first(text, undo)
		if err != nil {
			return nil, err
		}
		return second(text, undo)
	}
}

// Sandbox returns what the sandbox of a connected client still keeps from the daemon, and what a
// person would have to decide about that; empty if nothing.
func (p Place) Sandbox(client string) string {
	switch {
	case p.Remote && (client == "claude" || client == "codex"):
		return "the client's sandbox keeps dibs in the shell from the network, unless you allow the daemon's host in its settings; the tools work in any case"
	case client == "claude" && p.Socket == "":
		return "on Linux, Claude Code's sandbox allows all unix sockets or none, so nothing was allowed: in it the tools work, and dibs in the shell does not; allowAllUnixSockets, which opens every socket of yours to every command, is for you to decide"
	case client == "codex":
		return "Codex's sandbox has no setting for a single unix socket, so nothing was allowed: in it the tools work, and dibs in the shell does not; network_access, which opens the network to every command, is for you to decide"
	}
	return ""
}
