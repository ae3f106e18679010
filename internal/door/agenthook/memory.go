package agenthook

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Reminders remembers the claims of which a stopping agent was reminded: it is a directory of the
// user, with an empty file for each. Files older than a week are removed.
type Reminders string

// reminded is how long a reminder is remembered: longer than claims live.
const reminded = 7 * 24 * time.Hour

// Remind reports whether to remind of a claim: true once for each. If it cannot remember, it returns
// false: an agent that is reminded for ever never stops.
func (r Reminders) Remind(claim string) bool {
	if claim == "" || strings.ContainsAny(claim, `/\.`) {
		return false
	}
	if err := os.MkdirAll(string(r), 0o700); err != nil {
		return false
	}
	f, err := os.OpenFile(filepath.Join(string(r), claim), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	f.Close()
	r.forget()
	return true
}

func (r Reminders) forget() {
	entries, err := os.ReadDir(string(r))
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > reminded {
			os.Remove(filepath.Join(string(r), e.Name()))
		}
	}
}
