package connect

import (
	"errors"
	"slices"

	"github.com/tailscale/hujson"
)

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
	case client == "claude" && p.Socket == "":
		return "on Linux, Claude Code's sandbox allows all unix sockets or none, so nothing was allowed: in it the tools work, and dibs in the shell does not; allowAllUnixSockets, which opens every socket of yours to every command, is for you to decide"
	case client == "codex":
		return "Codex's sandbox has no setting for a single unix socket, so nothing was allowed: in it the tools work, and dibs in the shell does not; network_access, which opens the network to every command, is for you to decide"
	}
	return ""
}
