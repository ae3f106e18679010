// Package packaging has what is shipped beside the program and also printed by it.
package packaging

import _ "embed"

// Skill is the text that tells agents how to work with dibs, with the front matter that
// clients of skills read. It is part of the plugin for Claude Code.
//
//go:embed claude-code/skills/dibs/SKILL.md
var Skill []byte
