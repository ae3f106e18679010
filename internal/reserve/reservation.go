package reserve

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
)

// Reservation is an agent's lease on its targets. Its times are Notion's.
type Reservation struct {
	ID    string `json:"id"`
	Agent string `json:"agent"`
	// UID is the user who asked for it, -1 for an unknown one.
	UID     int      `json:"uid"`
	Targets []Target `json:"targets"`
	// Folder is where the patterns were given, for people.
	Folder string `json:"folder,omitempty"`
	// Shared allows other shared reservations of the same things.
	Shared bool      `json:"shared,omitempty"`
	Made   time.Time `json:"made_at"`
	// Until is when it ends at the latest.
	Until time.Time `json:"until"`
	// Claim is the claim that it ends with; empty for none.
	Claim claim.ID `json:"claim,omitempty"`
	// Process is the process that it ends with; zero for none.
	Process keepers.Process `json:"process,omitzero"`
	// Member is the member of a cluster on whose machine it was made; empty without a cluster.
	Member string `json:"member,omitempty"`
}

// seenAt returns a reservation with only the places that a member's machine has.
func (r Reservation) seenAt(member string) Reservation {
	all := r.Targets
	r.Targets = nil
	for _, t := range all {
		t.At = slices.DeleteFunc(slices.Clone(t.At), func(s Spot) bool {
			return r.Member != member && !s.common()
		})
		if len(t.At) > 0 {
			r.Targets = append(r.Targets, t)
		}
	}
	return r
}

// Patterns returns the patterns as they were written.
func (r Reservation) Patterns() []string {
	out := make([]string, len(r.Targets))
	for i, t := range r.Targets {
		out[i] = t.Text
	}
	return out
}

// maxSaid is the length of the patterns in Says, in bytes.
const maxSaid = 200

// Says returns the patterns in one line, shortened.
func (r Reservation) Says() string {
	var out strings.Builder
	for i, t := range r.Targets {
		if i > 0 && out.Len()+len(t.Text) > maxSaid {
			fmt.Fprintf(&out, " and %d more", len(r.Targets)-i)
			break
		}
		if i > 0 {
			out.WriteString(", ")
		}
		out.WriteString(t.Text)
	}
	if r.Shared {
		out.WriteString(" (shared)")
	}
	return out.String()
}

// same reports whether r asks for the same as other: then it renews it.
func (r Reservation) same(other Reservation) bool {
	if r.Agent != other.Agent || r.Shared != other.Shared || r.Claim != other.Claim || len(r.Targets) != len(other.Targets) {
		return false
	}
	for i, t := range r.Targets {
		o := other.Targets[i]
		if t.Text != o.Text || t.Files != o.Files || len(t.At) != len(o.At) {
			return false
		}
		for k := range t.At {
			if t.At[k] != o.At[k] {
				return false
			}
		}
	}
	return true
}

// Taken says that something is reserved by another agent.
type Taken struct {
	// Asked is what was asked for, as it was written.
	Asked string
	// Pattern is the other agent's pattern that covers it, or may.
	Pattern string
	By      Reservation
	// Until is when By ends at the latest, in Notion's time.
	Until time.Time
	// Anywhere is set if Asked is a pattern without a slash, which matches in every folder.
	Anywhere bool
}

func (t *Taken) Error() string {
	says := fmt.Sprintf("%s is reserved by %s", t.Asked, t.By.Agent)
	if t.By.Member != "" {
		says += " (at " + t.By.Member + ")"
	}
	if t.Pattern != t.Asked {
		says += ", by the pattern " + t.Pattern
	}
	if t.By.Shared {
		says += ", who shares it: join with dibs reserve --shared, or work on something else"
	} else {
		says += fmt.Sprintf(": work on something else, or ask %s to give it back", t.By.Agent)
	}
	if t.Anywhere {
		says += fmt.Sprintf("; %s means that in every folder below: write ./%s for the one here alone", t.Asked, t.Asked)
	}
	return says
}

// Full says that an agent or user has reached a limit.
type Full struct {
	Detail string
	// RetryAfter is the wait before asking again; zero if waiting does not help.
	RetryAfter time.Duration
}

func (f *Full) Error() string { return f.Detail }

// InvalidError says what is wrong with a request.
type InvalidError struct{ Detail string }

func (e *InvalidError) Error() string { return e.Detail }

// UnknownError says that there is no such reservation, or no longer.
type UnknownError struct{ ID string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("there is no reservation %s, or none any longer: somebody else may have what it was for; see dibs reservations", e.ID)
}

// NotOwnerError says that a reservation is another agent's.
type NotOwnerError struct{ ID, Agent string }

func (e *NotOwnerError) Error() string {
	return fmt.Sprintf("reservation %s is %s's: ask %s to give it back, or wait for its end", e.ID, e.Agent, e.Agent)
}

// How long a reservation lasts at most, and by default without a claim or process.
const (
	MaxFor     = 24 * time.Hour
	DefaultFor = 30 * time.Minute
)

// Request asks for a reservation.
type Request struct {
	Agent   string
	UID     int
	Targets []Target
	Folder  string
	Shared  bool
	// For is how long it lasts; zero for as long as the claim or the process lasts, or for
	// DefaultFor if there is neither.
	For     time.Duration
	Claim   claim.ID
	Process keepers.Process
	// Member is the member of a cluster on whose machine it is made; empty without a cluster.
	Member string
}

// check returns an error for an invalid request.
func (r Request) check() error {
	invalid := func(format string, args ...any) error {
		return &InvalidError{Detail: fmt.Sprintf(format, args...)}
	}
	total := 0
	for _, t := range r.Targets {
		if len(t.Text) > MaxText {
			return invalid("a pattern of %d bytes: want at most %d", len(t.Text), MaxText)
		}
		total += len(t.Text)
	}
	switch {
	case len(r.Targets) == 0 || len(r.Targets) > MaxPatterns:
		return invalid("%d patterns: want 1 to %d at a time; reserve a folder, such as src/, for more files", len(r.Targets), MaxPatterns)
	case total > MaxTexts:
		return invalid("patterns of %d bytes together: want at most %d", total, MaxTexts)
	case r.For < 0 || r.For > MaxFor:
		return invalid("for %v: want a time up to %v", r.For, MaxFor)
	}
	return nil
}

// lasts returns how long the reservation lasts at most.
func (r Request) lasts() time.Duration {
	switch {
	case r.For > 0:
		return r.For
	case r.Claim != "" || r.Process != (keepers.Process{}):
		return MaxFor
	}
	return DefaultFor
}
