package connect

import (
	"fmt"
	"strings"
)

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
