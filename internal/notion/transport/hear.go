package transport

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"dibs/internal/kit/clock"
)

// Moment is when an answer was made, in Notion's time.
type Moment struct {
	// At is the Date of the answer, cut to the second; or, if there was no Date or it is
	// doubted, the estimated time at which the answer was received.
	At time.Time
	// Sure is set if there was a Date and it is believed, see clock.Clock.
	Sure bool
}

type momentKey struct{}

// Timed returns a context whose requests store the moment of their last answer in m. It serves
// one goroutine.
func Timed(ctx context.Context, m *Moment) context.Context {
	return context.WithValue(ctx, momentKey{}, m)
}

// ears keep Notion's time from its answers.
type ears struct {
	clock   *clock.Clock
	started time.Time // the origin of monotonic readings
	log     *slog.Logger
	undated sync.Once // logs once that answers have no Date
}

func newEars(log *slog.Logger) *ears {
	started := time.Now()
	return &ears{clock: clock.New(clock.Local(started)), started: started, log: log}
}

func (e *ears) local() clock.Instant { return clock.Local(e.started) }

func (e *ears) now() time.Time { return e.clock.Now(e.local()) }

// hear passes the time of every answer to the ears.
type hear struct {
	next http.RoundTripper
	ears *ears
}

func (t *hear) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := t.ears.local()
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	moment := t.ears.hear(resp.Header.Get("Date"), sent)
	if m, ok := req.Context().Value(momentKey{}).(*Moment); ok {
		*m = moment
	}
	return resp, nil
}

// hear records the Date of an answer to a request that was sent at that moment.
func (e *ears) hear(said string, sent clock.Instant) Moment {
	received := e.local()
	date, err := http.ParseTime(said)
	if err != nil {
		e.undated.Do(func() {
			e.log.Warn("an answer of Notion's has no date: have the proxy on the way pass the Date header; until then nothing is claimed, renewed or swept", "date", said)
		})
		return Moment{At: e.clock.Now(received)}
	}
	if !e.clock.Hear(date, sent, received) {
		now := e.clock.Now(received)
		e.log.Warn("the date of an answer is far from Notion's time as it is known: it counts once another answer agrees",
			"date", date, "known", now, "off", date.Sub(now).Round(time.Second))
		return Moment{At: now}
	}
	return Moment{At: date.UTC(), Sure: true}
}
