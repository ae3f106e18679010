package board

import (
	"cmp"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// shown is what a form showed of its task. It travels in the form.
type shown struct {
	At       int64       `json:"at"` // when, in milliseconds
	Status   task.Status `json:"status"`
	Standing string      `json:"standing"`
	Who      string      `json:"who"`
	Claim    claim.ID    `json:"claim,omitempty"`
	Title    string      `json:"title"`
	Priority string      `json:"priority"`
	Note     string      `json:"note"`
	Needs    string      `json:"needs"`
	Edited   int64       `json:"edited"`
}

func shownOf(t api.Task) shown { return cardOf(t).shown() }

func (c card) shown() shown {
	who := cmp.Or(c.Agent, "nobody")
	if c.OfferedTo != "" {
		who = "offered to " + c.OfferedTo
	}
	return shown{
		At: time.Now().UnixMilli(), Status: c.Status, Standing: c.Standing, Who: who, Claim: c.Claim,
		Title: c.Title, Priority: cmp.Or(c.Word, "none"), Note: c.Note, Needs: c.Needs, Edited: c.Edited,
	}
}

// String returns the value of the form's field.
func (s shown) String() string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // texts and numbers only
	}
	return string(data)
}

// parseShown is the inverse of String. A field that cannot be read differs from every task.
func parseShown(field string) shown {
	var s shown
	_ = json.Unmarshal([]byte(field), &s)
	return s
}

// difference is what somebody has changed.
type difference struct{ What, Was, Is string }

// differences lists the parts of a task that changed since the form was shown. The edit time counts
// only on a task that nobody holds, since renewals change it.
func (s shown) differences(t api.Task) (all []difference) {
	now := shownOf(t)
	add := func(what, was, is string) {
		if was != is {
			all = append(all, difference{what, cmp.Or(was, "–"), cmp.Or(is, "–")})
		}
	}
	if s.Status != now.Status {
		add("Status", cmp.Or(s.Standing, string(s.Status)), now.Standing)
	}
	if s.Who == now.Who && s.Claim != now.Claim {
		now.Who += ", by another claim"
	}
	add("Who has it", s.Who, now.Who)
	add("Title", s.Title, now.Title)
	add("Priority", s.Priority, now.Priority)
	add("Note", s.Note, now.Note)
	if s.Needs != now.Needs {
		add("What it waits for", count(card{Needs: s.Needs}), count(card{Needs: now.Needs})+", perhaps others")
	}
	if len(all) == 0 && t.ClaimID == "" && s.Edited != now.Edited {
		add("Edited", day(s.Edited), cmp.Or(day(now.Edited), "–")+" or again since")
	}
	return all
}

func count(c card) string { return fmt.Sprintf("%d tasks", len(c.needs())) }

// day writes a moment with its date.
func day(ms int64) string {
	if ms == 0 {
		return ""
	}
	return time.UnixMilli(ms).Format(dayLayout)
}

// finished remembers by their keys the forms that were done, and where they led. Its zero value is
// empty.
type finished struct {
	mu   sync.Mutex
	to   map[string]string
	keys []string // the oldest first
}

func (f *finished) of(key string) (to string, done bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	to, done = f.to[key]
	return to, done
}

func (f *finished) add(key, to string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.to == nil {
		f.to = make(map[string]string)
	}
	if len(f.keys) == maxFinished {
		delete(f.to, f.keys[0])
		f.keys = f.keys[1:]
	}
	f.to[key] = to
	f.keys = append(f.keys, key)
}

// maxFinished is how many forms are remembered that were done.
const maxFinished = 1000
