package connect

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// codexConfig edits Codex's config.toml. TOML allows tables to be appended to any file, so nothing
// else in it is touched.
func (p Place) codexConfig(before []byte, undo bool) ([]byte, error) {
	cut, err := cutBlock(string(before))
	if err != nil {
		return nil, err
	}
	_, theirs := sortTables(cut.ours)
	text, lead := cut.rest(theirs), "\n"
	if undo {
		if cut.found && cut.lead == "" && strings.TrimSpace(text) == "" {
			return nil, nil
		}
		return []byte(text), nil
	}
	if ours := p.repoint(cut.ours); p.hasAll(ours) {
		return []byte(strings.Replace(string(before), cut.ours, ours, 1)), nil // additions by others stay
	}
	if before == nil || cut.found && text == "" {
		lead = cut.lead
	}
	var there struct {
		Servers map[string]codexServer `toml:"mcp_servers"`
	}
	if err := toml.Unmarshal([]byte(text), &there); err != nil {
		return nil, fmt.Errorf("it is not TOML (%w): mend it, or connect by hand", err)
	}
	server, other := there.Servers["dibs"]
	if other && !p.isOurs(server.Command, server.Args) {
		return nil, errAnother
	}
	var b strings.Builder
	if args := p.args(server.Args); other && !slices.Equal(args, server.Args) {
		return nil, fmt.Errorf("it has an MCP server \"dibs\" of your own: give it the args %s, or take it out, and connect again", tomlStrings(args))
	}
	if !other {
		fmt.Fprintf(&b, "[mcp_servers.dibs]\ncommand = %s\nargs = [%s]\n\n", tomlString(p.Dibs), tomlStrings(p.args(readPart(cut.ours).Servers["dibs"].Args)))
	}
	for i, e := range codexHooks {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "[[hooks.%s]]\n", e.event)
		if e.matcher != "" {
			fmt.Fprintf(&b, "matcher = %s\n", tomlString(e.matcher))
		}
		fmt.Fprintf(&b, "\n[[hooks.%s.hooks]]\ntype = \"command\"\ncommand = %s\ntimeout = %d\n", e.event, tomlString(p.hook(e.event, "")), hookTimeout)
	}
	after := text + lead + block(b.String())
	var whole map[string]any
	if err := toml.Unmarshal([]byte(after), &whole); err != nil {
		return nil, fmt.Errorf("our tables cannot be added to it (%w): connect by hand, see docs/clients.md", err)
	}
	return []byte(after), nil
}

type codexHook struct{ event, matcher string }

var codexHooks = []codexHook{
	{"SessionStart", "startup|resume|clear|compact"}, {"PreToolUse", "apply_patch|Edit|Write"}, {"Stop", ""},
}

type codexServer struct {
	Command string
	Args    []string
}

// codexPart is the content of our part.
type codexPart struct {
	Servers map[string]codexServer `toml:"mcp_servers"`
	Hooks   map[string][]struct {
		Hooks []struct{ Command string }
	}
}

func readPart(part string) (has codexPart) {
	ours, _ := sortTables(part)
	if toml.Unmarshal([]byte(ours), &has) != nil {
		return codexPart{}
	}
	return has
}

// hasAll reports whether our part is complete and up to date.
func (p Place) hasAll(part string) bool {
	has := readPart(part)
	// The caller finds a server of that name outside our part.
	if s := has.Servers["dibs"]; s.Command != p.Dibs || !p.isOurs(s.Command, s.Args) || !slices.Equal(s.Args, p.args(s.Args)) {
		return false
	}
	for _, h := range codexHooks {
		if len(has.Hooks[h.event]) == 0 || len(has.Hooks[h.event][0].Hooks) == 0 {
			return false
		}
		was := has.Hooks[h.event][0].Hooks[0].Command
		if _, flags, ok := calls(was, h.event); !ok || was != p.hook(h.event, flags) {
			return false
		}
	}
	return true
}

// repoint changes the path of dibs in our part to where it is now, and its flags. Additions by others stay.
func (p Place) repoint(part string) string {
	has := readPart(part)
	if s := has.Servers["dibs"]; p.isOurs(s.Command, s.Args) {
		part = strings.Replace(part, "command = "+tomlString(s.Command), "command = "+tomlString(p.Dibs), 1)
		part = strings.Replace(part, "args = ["+tomlStrings(s.Args)+"]", "args = ["+tomlStrings(p.args(s.Args))+"]", 1)
	}
	for _, e := range codexHooks {
		for _, g := range has.Hooks[e.event] {
			for _, h := range g.Hooks {
				if program, flags, ok := calls(h.Command, e.event); ok && p.isDibs(program) {
					part = strings.Replace(part, tomlString(h.Command), tomlString(p.hook(e.event, flags)), 1)
				}
			}
		}
	}
	return part
}

func tomlString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s) + `"`
}

// tomlStrings returns the elements of a list.
func tomlStrings(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = tomlString(text)
	}
	return strings.Join(quoted, ", ")
}

// table matches the first line of a table in TOML.
var table = regexp.MustCompile(`^\s*\[\[?\s*([A-Za-z0-9_."'-]+)`)

// sortTables separates the tables within our part into ours and others'. Codex appends what it
// remembers, such as trusted projects, after the last table: before our last line.
func sortTables(part string) (ours, theirs string) {
	var own, out strings.Builder
	others := false
	for line := range strings.Lines(part) {
		if m := table.FindStringSubmatch(line); m != nil {
			name, _, _ := strings.Cut(strings.TrimPrefix(m[1], "hooks."), ".")
			others = m[1] != "mcp_servers.dibs" && !strings.HasPrefix(m[1], "mcp_servers.dibs.") &&
				!slices.ContainsFunc(codexHooks, func(h codexHook) bool { return h.event == name })
		}
		if others {
			out.WriteString(line)
		} else {
			own.WriteString(line)
		}
	}
	return own.String(), out.String()
}
