package reserve

import (
	"fmt"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
)

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
