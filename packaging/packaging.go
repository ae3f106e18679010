// Package packaging has the files that are shipped with the program and that it also prints.
package packaging

import _ "embed"

// Skill tells agents how to work with dibs. It has the front matter for clients that read
// skills, and is part of the plugin for Claude Code.
//
//go:embed claude-code/skills/dibs/SKILL.md
var Skill []byte
