package claim

import (
	"fmt"
	"strings"
	"time"
)

// Usage is what an agent used for a claim since it was granted, as far as the agent reported it.
// Every report is such a total: of several, the larger numbers count, so that a report which is
// repeated, late or lost counts nothing twice.
type Usage struct {
	Tokens int64 `json:"tokens,omitempty"`
	// Micros is money, in millionths of a US dollar.
	Micros int64 `json:"micros,omitempty"`
	// At is when the numbers last grew, in Notion's time.
	At time.Time `json:"at,omitzero"`
}

// None reports whether nothing was used.
func (u Usage) None() bool { return u.Tokens == 0 && u.Micros == 0 }

// Add returns the sum of u and more.
func (u Usage) Add(more Usage) Usage {
	return Usage{Tokens: u.Tokens + more.Tokens, Micros: u.Micros + more.Micros}
}

// grown returns u after a report that came at a time; false if it says nothing new.
func (u Usage) grown(report Usage, at time.Time) (Usage, bool) {
	next := Usage{Tokens: max(u.Tokens, report.Tokens), Micros: max(u.Micros, report.Micros), At: at}
	return next, next.Tokens > u.Tokens || next.Micros > u.Micros
}

// Dollars returns an amount in millionths of a US dollar, to the cent or finer.
func Dollars(micros int64) string {
	text := fmt.Sprintf("%d.%06d", micros/1_000_000, micros%1_000_000)
	cents := len(text) - 4
	return text[:cents] + strings.TrimRight(text[cents:], "0")
}
