package claim

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Settings are the settings that every daemon on a board must share. Each grant names the ones
// it was made under.
type Settings struct {
	Timeout, WriteWindow, Settle time.Duration
}

// Settings returns the policy's Settings.
func (p Policy) Settings() Settings {
	return Settings{Timeout: p.Timeout, WriteWindow: p.WriteWindow, Settle: p.Settle}
}

// SettingsMark is the beginning of the text that Settings.String returns.
const SettingsMark = "claimed under timeout "

// String returns the text that ParseSettings reads.
func (s Settings) String() string {
	return fmt.Sprintf(SettingsMark+"%v, write_window %v, settle %v", s.Timeout, s.WriteWindow, s.Settle)
}

var settingsForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(SettingsMark + `(\S+), write_window (\S+), settle ((?:[0-9.]+[a-zµ]+)+)`)
})

// ParseSettings finds the settings in a text; false if there are none.
func ParseSettings(text string) (s Settings, ok bool) {
	m := settingsForm().FindStringSubmatch(text)
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

// Against says in one line how daemons with the settings s and here endanger each other's
// claims; empty if they do not. Different settings may be harmless: write windows may differ if
// every settle wait is longer than each of them.
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
