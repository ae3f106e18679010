package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/brake"
	"dibs/internal/journal/report"
	"dibs/internal/task"

	"github.com/oklog/ulid/v2"
)

// metaBrake is the key of the [brake.State], as JSON.
const metaBrake = "brake"

// Brake returns what keeps agents from being granted anything.
func (j *Journal) Brake(ctx context.Context) (brake.State, error) {
	b, err := readBrake(ctx, j.readers)
	return b, j.failed(err, "reading what is paused")
}

// ChangeBrake stores what change makes of the brake, and the fact that it returns, unless done is
// false. It returns the brake as it is then. change may be called twice.
func (j *Journal) ChangeBrake(ctx context.Context, change func(*brake.State) (news claim.Fact, done bool)) (b brake.State, done bool, err error) {
	err = j.write(ctx, func(tx *tx) error {
		if b, err = readBrake(ctx, tx); err != nil {
			return err
		}
		var news claim.Fact
		if news, done = change(&b); !done {
			return nil
		}
		return j.keepBrake(ctx, tx, b, news)
	})
	return b, done, j.failed(err, "storing what is paused")
}

// SetBounds replaces the limits of reservations. Without a breaker, the pause that it began is
// over.
func (j *Journal) SetBounds(ctx context.Context, bounds brake.Bounds) error {
	j.bounds.Store(&bounds)
	if bounds.Breaker.Failures > 0 {
		return nil
	}
	err := j.write(ctx, func(tx *tx) error {
		b, err := readBrake(ctx, tx)
		if err != nil || b.Tripped == nil && len(b.Failures) == 0 {
			return err
		}
		b.Tripped, b.Probe, b.Failures = nil, "", nil
		return j.keepBrake(ctx, tx, b)
	})
	return j.failed(err, "storing what is paused")
}

// limits returns what SetBounds stored.
func (j *Journal) limits() brake.Bounds {
	if b := j.bounds.Load(); b != nil {
		return *b
	}
	return brake.Bounds{}
}

func readBrake(ctx context.Context, q querier) (b brake.State, err error) {
	body, err := readMeta(ctx, q, metaBrake)
	if err != nil || body == "" {
		return b, err
	}
	if err := json.Unmarshal([]byte(body), &b); err != nil {
		return b, fmt.Errorf("what is paused: %w", err)
	}
	return b, nil
}

func (j *Journal) keepBrake(ctx context.Context, tx *tx, b brake.State, news ...claim.Fact) error {
	body, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if err := setMeta(ctx, tx, metaBrake, string(body)); err != nil {
		return err
	}
	return j.record(ctx, tx, news)
}

// barred returns what keeps the agent of c from any task; nil if nothing does. If c is what the
// breaker lets through, barred notes that.
func (j *Journal) barred(ctx context.Context, tx *tx, c claim.Hold, now time.Time) (*claim.Barred, error) {
	if c.Brief {
		return nil, nil
	}
	b, err := readBrake(ctx, tx)
	if err != nil {
		return nil, err
	}
	if barred := b.Bars(c.Agent, now); barred != nil {
		return barred, nil
	}
	return j.dayBars(ctx, tx, c.Agent, now)
}

// admit notes a reservation that the breaker lets through.
func (j *Journal) admit(ctx context.Context, tx *tx, c claim.Hold, now time.Time) error {
	if c.Brief {
		return nil
	}
	b, err := readBrake(ctx, tx)
	if err != nil || !b.Admit(c.ID, now) {
		return err
	}
	return j.keepBrake(ctx, tx, b)
}

// heed passes the end of a claim on to the breaker.
func (j *Journal) heed(ctx context.Context, tx *tx, h claim.Hold) error {
	b, err := readBrake(ctx, tx)
	if err != nil {
		return err
	}
	changed, news := b.Ended(h, j.limits().Breaker)
	if !changed {
		return nil
	}
	return j.keepBrake(ctx, tx, b, news...)
}

// dayBars returns which limit of the day keeps the agent from any task at now; nil if none does.
func (j *Journal) dayBars(ctx context.Context, q querier, agent string, now time.Time) (*claim.Barred, error) {
	bounds := j.limits()
	from, until, zone := bounds.Day(now)
	for _, l := range bounds.Days {
		if !l.Covers(agent) {
			continue
		}
		grants, money, err := usedUp(ctx, q, l, from)
		if err != nil {
			return nil, err
		}
		if b := l.Bars(agent, grants, money, until, zone); b != nil {
			return b, nil
		}
	}
	return nil, nil
}

// usedUp returns what the agents that l covers used of it since from.
func usedUp(ctx context.Context, q querier, l brake.DayLimit, from time.Time) (grants int, money int64, err error) {
	if l.Grants > 0 {
		if grants, err = granted(ctx, q, l, from); err != nil {
			return 0, 0, err
		}
	}
	if l.Micros > 0 {
		spent, err := spent(ctx, q, report.Spending{Agent: l.Name, From: from})
		return grants, report.Total(spent).Micros, err
	}
	return grants, 0, nil
}

// Day returns when the day of now began, and when it ends, see brake.Bounds.
func (j *Journal) Day(now time.Time) (from, until time.Time) {
	from, until, _ = j.limits().Day(now)
	return from, until
}

// longestAttempt is more than any attempt takes, from the reservation to the grant.
const longestAttempt = 24 * time.Hour

// granted counts the grants since from to the agents that l covers, and their attempts that are
// under way: each of those may become one.
func granted(ctx context.Context, q querier, l brake.DayLimit, from time.Time) (n int, err error) {
	// The ids of claims bear the time of their reservation.
	first := ulid.ULID{}
	if err := first.SetTime(ulid.Timestamp(from.Add(-longestAttempt))); err != nil {
		return 0, err
	}
	covered, name := "agent = ?3", l.Name
	if task.IsAgentPattern(name) {
		covered, name = "substr(agent, 1, length(?3)) = ?3 AND length(agent) > length(?3)", name[:len(name)-1]
	}
	err = q.QueryRowContext(ctx, "SELECT count(*) FROM claims WHERE id >= ?1 AND started >= ?2 AND "+covered, first.String(), millis(from), name).Scan(&n)
	if err != nil {
		return 0, err
	}
	running, err := collect(ctx, q, scanClaim, "SELECT body FROM claims WHERE "+unended+" AND started = 0")
	for _, c := range running {
		if !c.Brief && l.Covers(c.Agent) {
			n++
		}
	}
	return n, err
}
