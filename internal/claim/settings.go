package claim

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Settings are those that every daemon on a board must share. Each grant
// tells under which it was made.
type Settings struct {
	Timeout, WriteWindow, Settle time.Duration
}

// Settings returns those of the policy.
func (p Policy) Settings() Settings {
	return Settings{Timeout: p.Timeout, WriteWindow: p.WriteWindow, Settle: p.Settle}
}

// SettingsMark is how the text of settings begins, see Settings.String.
const SettingsMark = "claimed under timeout "

// String is the text that ParseSettings reads.
func (s Settings) String() string {
	return fmt.Sprintf(SettingsMark+"%v, write_window %v, settle %v", s.Timeout, s.WriteWindow, s.Settle)
}

var settingsForm = regexp.MustCompile(SettingsMark + `(\S+), write_window (\S+), settle ((?:[0-9.]+[a-zµ]+)+)`)

// ParseSettings finds the settings in a text; false if it tells of none.
func ParseSettings(text string) (s Settings, ok bool) {
	m := settingsForm.FindStringSubmatch(text)
	if m == nil {
		return Settings{}, false
	}
	for i, into := range []*time.Duration{&s.Timeout, &s.WriteWindow, &s.Settle} {
		var err error
		if *into, err = time.ParseDuration(m[i+1]); err != nil || *into < 0 {
			return Settings{}, false
		}
	}
	return s, true
}

// Against says in a line how daemons with the settings s and here are a danger to each
// other's claims; empty if they are none. Settings that differ may be harmless: no write
// window needs to be the same as another, if every settle wait is longer than each.
func (s Settings) Against(here Settings) string {
	var differ []string
	if s.Timeout != here.Timeout {
		differ = append(differ, fmt.Sprintf("claim.timeout %v, and %v here, so that one takes what the other still counts on", s.Timeout, here.Timeout))
	}
	if s.Settle <= here.WriteWindow {
		differ = append(differ, fmt.Sprintf("claim.settle %v, no longer than claim.write_window %v here, so that two agents may both be granted a task", s.Settle, here.WriteWindow))
	}
	if here.Settle <= s.WriteWindow {
		differ = append(differ, fmt.Sprintf("claim.write_window %v, no shorter than claim.settle %v here, so that two agents may both be granted a task", s.WriteWindow, here.Settle))
	}
	return strings.Join(differ, "; ")
}
