package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

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

	mu         sync.Mutex
	last, kept known // kept is what the file has
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
	m.kept = m.last
}

// keep writes what is news into the file. If that fails, a restart forgets it, and nothing else
// happens.
func (m *memory) keep(space string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.path == "" || m.last == m.kept {
		return
	}
	data, err := json.Marshal(noted{space, m.last.ID, m.last.Epoch, m.last.last, m.last.at})
	if err == nil {
		err = os.WriteFile(m.path+".new", data, 0o600)
	}
	if err == nil && os.Rename(m.path+".new", m.path) == nil {
		m.kept = m.last
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

// look compares the database with what this process knows of it, and remembers its last transaction.
// If the database was set back, look notes that in it and ends the term: whoever leads has to start
// again on what is there.
func (d *Database) look(ctx context.Context) error {
	defer func() { d.memory.keep(d.space) }()
	before := d.memory.newest()
	var now known
	var there, last, at sql.NullInt64
	err := d.db.QueryRowContext(ctx, d.in(`
		SELECT coalesce(epoch, 0), coalesce(id, ''), last, `+micros("at")+`,
		       (SELECT last FROM %[1]s.terms WHERE epoch = $1 AND id = $2)
		  FROM (SELECT 1) AS one LEFT JOIN (%[1]s.leader JOIN %[1]s.terms USING (epoch, id)) ON true`), before.Epoch, before.ID).
		Scan(&now.Epoch, &now.ID, &last, &at, &there)
	if err != nil {
		return err
	}
	if now.last, now.at = last.Int64, at.Int64; before.ID == "" || there.Valid && there.Int64 >= before.last {
		if now.ID != "" {
			d.memory.note(now)
		}
		return nil
	}
	// What is left of the term, or else of those before it, tells from when on something is lost.
	_, err = d.db.ExecContext(ctx, fmt.Sprintf(`
		WITH kept AS (
		    SELECT coalesce(max(at), to_timestamp(0)) AS at, to_timestamp($3 / 1e6) AS known
		      FROM %[1]s.terms WHERE epoch < $1 OR epoch = $1 AND id = $2)
		UPDATE %[1]s.leader
		   SET lost_from = CASE WHEN lost_until > kept.at THEN least(lost_from, kept.at) ELSE kept.at END,
		       lost_until = greatest(lost_until, clock_timestamp(), known), until = clock_timestamp()
		  FROM kept
		 WHERE (lost_from <= kept.at AND lost_until >= known) IS NOT TRUE AND %[2]s <> ''`, d.space, synchronous), before.Epoch, before.ID, before.at)
	if err == nil {
		d.memory.forget(before, now)
	}
	return err
}
