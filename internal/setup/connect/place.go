package connect

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

// settings returns the folder of a client's settings.
func (p Place) settings(client string) string {
	if dir := p.Getenv(map[string]string{"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"}[client]); dir != "" && p.Project == "" {
		return dir
	}
	return filepath.Join(cmp.Or(p.Project, p.Home), "."+client)
}

// hookTimeout is how many seconds a client waits for a hook. Hooks take milliseconds, and this is
// enough for a busy machine.
const hookTimeout = 5

// group and handler are hooks in the form of Claude Code and Codex.
type group struct {
	Matcher string    `json:"matcher,omitempty"`
	Hooks   []handler `json:"hooks"`
}

type handler struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Timeout int    `json:"timeout"`
}

// shellValue matches the value of a flag in a shell's command, as ShellWord writes it.
const shellValue = `[ =](?:'(?:[^']|'\\'')*'|\S+)`

// hook returns the command that a client runs for an event. has are its flags so far.
func (p Place) hook(event, has string) string {
	for _, flag := range p.Flags {
		now, there := " "+flag[0]+" "+ShellWord(flag[1]), regexp.MustCompile(" "+flag[0]+shellValue)
		if flag[1] == "" {
			has = there.ReplaceAllLiteralString(has, "")
		} else if there.MatchString(has) {
			has = there.ReplaceAllLiteralString(has, now)
		} else {
			has += now
		}
	}
	return ShellWord(p.Dibs) + " hook " + event + has
}

// args returns the arguments of the MCP server. has are those so far; nil for a new one.
func (p Place) args(has []string) []string {
	args := append([]string{}, has...)
	if len(args) == 0 {
		args = append(args, "mcp")
	}
	for _, flag := range p.Flags {
		at := slices.IndexFunc(args, func(arg string) bool { return arg == flag[0] || strings.HasPrefix(arg, flag[0]+"=") })
		switch {
		case at < 0 && flag[1] == "":
		case flag[1] == "" && args[at] == flag[0]:
			args = slices.Delete(args, at, min(at+2, len(args)))
		case flag[1] == "":
			args = slices.Delete(args, at, at+1)
		case at < 0:
			args = append(args, flag[:]...)
		case args[at] != flag[0]:
			args[at] = flag[0] + "=" + flag[1]
		case at+1 < len(args):
			args[at+1] = flag[1]
		default:
			args = append(args, flag[1])
		}
	}
	return args
}

// plainWord matches what a shell takes as it is.
var plainWord = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[\pL\pN._:/@+,%-]+$`)
})

// ShellWord quotes a word for a POSIX shell, if need be.
func ShellWord(s string) string {
	if plainWord().MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// calls splits a command that runs an event's hook into the program and the flags after the event.
func calls(command, event string) (program, flags string, ok bool) {
	program, flags, ok = strings.Cut(command, " hook "+event)
	if !ok || flags != "" && flags[0] != ' ' {
		return "", "", false
	}
	if bare, quoted := strings.CutPrefix(program, "'"); quoted {
		program = strings.ReplaceAll(strings.TrimSuffix(bare, "'"), `'\''`, "'")
	}
	return program, flags, true
}

// named matches the file names of dibs, perhaps with a version or a system at the end.
var named = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^dibs([^a-z].*)?$`)
})

// isDibs reports whether a program is dibs: by its name, the only clue to a removed program, or
// because it was built from the same package as this one.
func (p Place) isDibs(program string) bool {
	if program == p.Dibs || named().MatchString(cutName(program)) {
		return true
	}
	self, ok := debug.ReadBuildInfo()
	path, err := exec.LookPath(program)
	if err != nil || !ok || self.Path == "" {
		return false
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	built, err := buildinfo.ReadFile(path)
	return err == nil && built.Path == self.Path
}

// Clients are the clients that can be set up.
var Clients = []string{"claude", "codex", "cursor", "git"}

// Place says where a client's files are and what goes into them.
type Place struct {
	// Home is the user's home directory.
	Home string
	// Project is the directory of a project: only files in it are changed. Empty means the user's
	// own files, which apply to all projects.
	Project string
	// Getenv is os.Getenv or a substitute.
	Getenv func(string) string
	// Dibs is the command for dibs, an absolute path: clients may have another PATH.
	Dibs string
	// Flags are names of flags and their values, for every call of dibs. They replace those of the
	// same name that are there, an empty value takes them out, and others stay.
	Flags [][2]string
	// Remote says that the daemon is on another machine.
	Remote bool
	// Socket is the daemon's socket, for sandboxes that can allow a single one; empty on systems
	// where none can.
	Socket string
	// Skill is the text of the skill.
	Skill []byte
}

// runnable is the mode of a file that must be executable.
const runnable fs.FileMode = 0o755

// maxNested bounds the lists and objects in a file. The parsers recurse for each level, and Go ends
// a program at about a million.
const maxNested = 300_000

// file is one file of a client's.
type file struct {
	path string
	mode fs.FileMode // for a new file
	// within are directories: the file must be in one of them, links resolved. Nil allows any
	// place: users often link their own files into a repository of settings.
	within []string
	// edit returns the file's new content, with our part or, with undo, without it; nil for no
	// file.
	edit func(before []byte, undo bool) ([]byte, error)
	// kept, if set, returns why a file is not edited; empty if it is.
	kept func(before []byte, undo bool) string
}

var errAnother = errors.New("it has an MCP server \"dibs\" that is another one: take it out, or give it another name")

// isOurs reports whether an MCP server called dibs is dibs.
func (p Place) isOurs(command string, args []string) bool {
	return len(args) > 0 && args[0] == "mcp" && p.isDibs(command)
}

// skillName is the name of the skill, and of its directory.
const skillName = "dibs"

// cutName returns the last part of a path of any system.
func cutName(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }

// blank reports whether a text is only whitespace.
func blank[T ~[]byte](text T) bool { return len(bytes.TrimSpace(text)) == 0 }

// Lines around our part of a file.
const (
	blockBegins = "# >>> dibs: dibs connect made this, and takes it out with --undo"
	blockEnds   = "# <<< dibs"
)

// parts is a file split around our part. If there is none, before has everything.
type parts struct {
	found  bool // the file has our part
	before string
	lead   string // the line end that was inserted between before and our part
	ours   string
	after  string
}

// rest returns the file without our part, but with what others put into it (theirs).
func (p parts) rest(theirs string) string {
	rest := theirs + p.after
	if rest != "" && p.before != "" && !strings.HasSuffix(p.before, "\n") {
		return p.before + p.lead + rest
	}
	return p.before + rest
}

// cutBlock splits off our part, with the line end before it. An editor may have changed the line
// ends, and the last line may have none.
func cutBlock(text string) (p parts, err error) {
	begins, inside, ends, at := -1, 0, -1, 0
	for line := range strings.Lines(text) {
		switch strings.TrimRight(line, "\r\n") {
		case blockBegins:
			if begins < 0 {
				begins, inside = at, at+len(line)
			}
		case blockEnds:
			if begins >= 0 && ends < 0 {
				ends = at
				p.after = text[at+len(line):]
			}
		}
		at += len(line)
	}
	switch {
	case begins < 0:
		return parts{before: text}, nil
	case ends < 0:
		return parts{}, fmt.Errorf("the line %q is missing after %q: take our part out by hand", blockEnds, blockBegins)
	}
	p.found, p.before, p.ours = true, text[:begins], text[inside:ends]
	for _, end := range []string{"\r\n", "\n"} {
		if before, ok := strings.CutSuffix(p.before, end); ok {
			p.before, p.lead = before, end
			break
		}
	}
	return p, nil
}

func block(lines string) string { return blockBegins + "\n" + lines + blockEnds + "\n" }
