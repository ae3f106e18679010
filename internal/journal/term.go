package journal

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// ErrDeposed says that the term is over: another member may lead.
var ErrDeposed = errors.New("this member does not lead any more")

// Term is one leader's time at the lead. After a failover to a standby that lagged, two terms can
// have one epoch; the random id tells them apart.
type Term struct {
	Epoch int64
	ID    string
}

// Span is a time from which transactions may be lost: the database was set back to an older state,
// such as that of a standby which lagged and was promoted. From and Until are by the database's
// clock. It is zero if nothing is known to be lost.
type Span struct {
	From, Until time.Time

	read  time.Time
	since time.Duration // from Until to read
}

// Ago returns how long ago the span began and ended. A span that began long ago, or at an unknown
// time, counts as one of a week.
func (s Span) Ago() (from, until time.Duration) {
	until = s.since + time.Since(s.read)
	return until + min(remembered, s.Until.Sub(s.From)), until
}

// doneAgain is for how long after a loss things may be done again that were done before.
const doneAgain = 24 * time.Hour

func (s Span) isRecent() bool {
	_, until := s.Ago()
	return !s.Until.IsZero() && until < doneAgain
}

// String describes what may be lost; empty if nothing is known to be lost.
func (s Span) String() string {
	if s.Until.IsZero() {
		return ""
	}
	from := "the beginning"
	if !s.From.IsZero() {
		from = s.From.Local().Format(time.DateTime)
	}
	return fmt.Sprintf("the journal's database was set back: what was accepted from %s to %s may be lost, or done again", from, s.Until.Local().Format(time.DateTime))
}

// remembered is how long a span is told of.
const remembered = 7 * 24 * time.Hour

// spanned has the columns of a span, for scanSpan.
var spanned = micros("lost_from") + ", " + micros("lost_until") + ", " + micros("clock_timestamp()")

func scanSpan(from, until sql.NullInt64, now int64) (s Span) {
	s = Span{moment(from.Int64 / 1000), moment(until.Int64 / 1000), time.Now(), time.Duration(now-until.Int64) * time.Microsecond}
	if !until.Valid || s.since > remembered {
		return Span{}
	}
	return s
}

// micros is an expression for a time in microseconds since 1970. Unlike the time itself, it is given
// in the same form whatever the database's DateStyle and TimeZone.
func micros(at string) string { return "(extract(epoch FROM " + at + ") * 1000000)::bigint" }

// known is the last transaction of a term that this process knows of, and when it was made, in
// microseconds by the database's clock.
type known struct {
	Term
	last, at int64
}

// memory is what this machine knows of the database, so that an older one is noticed. It is safe for
// concurrent use.
type memory struct {
	path string // of the file that outlives this process; empty for none

	mu          sync.Mutex
	last, filed known // filed is what the file has
}

// noted is the content of the file.
type noted struct {
	Space, ID       string
	Epoch, Last, At int64
}

// recall reads what an earlier process knew of the journal with that schema.
func (m *memory) recall(space string) {
	var n noted
	if data, err := os.ReadFile(m.path); err != nil || json.Unmarshal(data, &n) != nil || n.Space != space {
		return // without it, a loss is noticed by those who know
	}
	m.last = known{Term{Epoch: n.Epoch, ID: n.ID}, n.Last, n.At}
	m.filed = m.last
}

// keep writes what is news into the file. If that fails, a restart forgets it, and nothing else
// happens.
func (m *memory) keep(space string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.path == "" || m.last == m.filed {
		return
	}
	data, err := json.Marshal(noted{space, m.last.ID, m.last.Epoch, m.last.last, m.last.at})
	if err == nil {
		err = os.WriteFile(m.path+".new", data, 0o600)
	}
	if err == nil && os.Rename(m.path+".new", m.path) == nil {
		m.filed = m.last
	}
}

// note remembers a transaction, unless a later one of its term is known.
func (m *memory) note(k known) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k.Term != m.last.Term || k.last > m.last.last {
		m.last = k
	}
}

// forget remembers now in place of before.
func (m *memory) forget(before, now known) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == before {
		m.last = now
	}
}

// newest returns the last transaction known.
func (m *memory) newest() known {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}
