package connect

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
)

// skillName is the name of the skill, and of its directory.
const skillName = "dibs"

// signature is the last line of a skill that we wrote, with the sum of what is above it:
// so a later dibs knows which ones are ours as they are, and which somebody changed.
var signature = regexp.MustCompile(`(?m)^<!-- dibs connect wrote this: ([0-9a-f]{32}) -->\n?`)

// unsigned are the sums of skills that were written before they were signed.
var unsigned = []string{"bf297b8bce373c29f02b5105429b9fa8"}

// authors of a SKILL.md.
type author int

const (
	another author = iota // we did not write it
	ours                  // we wrote it, maybe long ago
	changed               // we wrote it, and somebody changed it
)

// authorOf says who wrote a skill.
func (p Place) authorOf(skill []byte) author {
	skill = plain(skill)
	at := signature.FindSubmatchIndex(skill)
	if at == nil {
		if sum := sumOf(skill); sum == sumOf(p.Skill) || slices.Contains(unsigned, sum) {
			return ours
		}
		return another
	}
	if text := slices.Concat(skill[:at[0]], skill[at[1]:]); sumOf(text) != string(skill[at[2]:at[3]]) {
		return changed
	}
	return ours
}

// plain is a text whatever an editor or git made of the ends of its lines.
func plain(text []byte) []byte {
	return append(bytes.TrimRight(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), " \t\n"), '\n')
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(plain(text))
	return hex.EncodeToString(sum[:16])
}

// skill is the file of the skill, below a directory of settings.
func (p Place) skill(settings string) file {
	return file{
		path: filepath.Join(settings, "skills", skillName, "SKILL.md"),
		mode: 0o644,
		kept: func(before []byte, undo bool) string {
			switch {
			case before == nil || p.authorOf(before) != changed:
				return ""
			case undo:
				return "it was changed since dibs wrote it: delete it if you want it no longer"
			}
			return "it was changed since dibs wrote it: move it away and connect again to have the one of this dibs"
		},
		edit: func(before []byte, undo bool) ([]byte, error) {
			if before != nil && p.authorOf(before) == another {
				if undo {
					return before, nil
				}
				return nil, errors.New("it is a skill \"dibs\" that is another one: move it away, or give it another name")
			}
			switch {
			case undo:
				return nil, nil
			case before != nil && sumOf(signature.ReplaceAll(plain(before), nil)) == sumOf(p.Skill):
				return before, nil
			}
			return slices.Concat(plain(p.Skill), []byte("\n<!-- dibs connect wrote this: "+sumOf(p.Skill)+" -->\n")), nil
		},
	}
}
