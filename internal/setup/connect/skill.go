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

// signature matches the last line of a skill that we wrote. It has a hash of the text above it, so
// that a later dibs can tell whether somebody changed the skill.
var signature = regexp.MustCompile(`(?m)^<!-- dibs connect wrote this: ([0-9a-f]{32}) -->\n?`)

// unsigned are the hashes of skills from before they were signed.
var unsigned = []string{"bf297b8bce373c29f02b5105429b9fa8"}

// author says who wrote a SKILL.md.
type author int

const (
	another author = iota // we did not write it
	ours                  // we wrote it, maybe long ago
	changed               // we wrote it, and somebody changed it
)

// authorOf returns who wrote a skill.
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

// plain normalizes the line ends of a text, which an editor or git may have changed.
func plain(text []byte) []byte {
	return append(bytes.TrimRight(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), " \t\n"), '\n')
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(plain(text))
	return hex.EncodeToString(sum[:16])
}

// skill returns the file of the skill, below a settings directory.
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
