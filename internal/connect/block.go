package connect

import (
	"fmt"
	"strings"
)

// Our part of a file of lines stands between these.
const (
	blockBegins = "# >>> dibs: dibs connect made this, and takes it out with --undo"
	blockEnds   = "# <<< dibs"
)

// parts are a file of lines around our part, and our part. Nothing of ours leaves all in before.
type parts struct {
	found  bool // our part is there
	before string
	lead   string // the end of a line that was put between before and our part
	ours   string
	after  string
}

// rest is the file without our part, but with what others put into it.
func (p parts) rest(theirs string) string {
	rest := theirs + p.after
	if rest != "" && p.before != "" && !strings.HasSuffix(p.before, "\n") {
		return p.before + p.lead + rest
	}
	return p.before + rest
}

// cutBlock takes our part out of a file, with the end of a line before it. An editor may
// have changed how lines end, and the last line may have no end.
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
