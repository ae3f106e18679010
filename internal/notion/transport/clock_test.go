package transport

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion/transport/transporttest"
)

func TestClockAgreesWithEveryAnswer(t *testing.T) {
	start := time.Date(2026, 6, 27, 12, 0, 0, 0, time.UTC) // this machine's time
	at := func(d time.Duration) instant { return instant{wall: start.Add(d), mono: d} }
	type heard struct {
		date           time.Duration // since start, by Notion's clock
		sent, received time.Duration // and by ours
	}
	for _, tc := range []struct {
		name  string
		heard []heard
		now   time.Duration // ours
		want  time.Duration // Notion's
	}{
		{"nothing heard", nil, 5 * time.Second, 5 * time.Second},
		{"as thought", []heard{{0, 300 * time.Millisecond, 500 * time.Millisecond}}, time.Second, time.Second},
		{"ahead of us", []heard{{time.Hour, 0, 0}}, time.Minute, time.Hour + time.Minute},
		// It is less than a second after the Date when the answer is made, and the answer takes 0.2 s.
		{"behind us", []heard{{-time.Hour, 0, 200 * time.Millisecond}}, 200 * time.Millisecond, -time.Hour + 1200*time.Millisecond},
		{"ahead, then more exactly", []heard{{time.Hour, 0, 0}, {time.Hour + 2*time.Second, 1100 * time.Millisecond, 1200 * time.Millisecond}}, 1200 * time.Millisecond, time.Hour + 2*time.Second},
		{"ahead, then back", []heard{{time.Hour, 0, 0}, {0, time.Second, time.Second}}, time.Second, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &clock{at: at(0), time: start}
			for _, h := range tc.heard {
				c.hear(start.Add(h.date), at(h.sent), at(h.received))
			}
			if got := c.notion(at(tc.now)); !got.Equal(start.Add(tc.want)) {
				t.Errorf("Notion's time is %s, want %s", got, start.Add(tc.want))
			}
		})
	}
}

func TestElapsedTime(t *testing.T) {
	start := instant{wall: time.Date(2026, 6, 27, 12, 0, 0, 0, time.UTC), mono: time.Hour}
	for _, tc := range []struct {
		name             string
		wall, mono, want time.Duration
	}{
		{"both", time.Minute, time.Minute, time.Minute},
		{"wall clock set back", -time.Hour, time.Minute, time.Minute},
		{"suspended", 8 * time.Hour, time.Minute, 8 * time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := instant{wall: start.wall.Add(tc.wall), mono: start.mono + tc.mono}
			if got := now.since(start); got != tc.want {
				t.Errorf("elapsed %s, want %s", got, tc.want)
			}
		})
	}
}

func TestClockListensToAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := time.Now().Add(time.Hour).Truncate(time.Second)
		date := ahead.UTC().Format(http.TimeFormat)
		c := newClock()
		chain := &hear{clock: c, next: transporttest.Server(func(*http.Request) (*http.Response, error) {
			return transporttest.Reply(503, "", "Date", date), nil
		})}
		for _, said := range []string{date, "yesterday", ""} { // of which the last two say nothing
			date = said
			if _, err := chain.RoundTrip(transporttest.Request(t, t.Context(), http.MethodGet, transporttest.PagePath, "")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if got := c.now(); !got.Equal(ahead.Add(time.Minute)) {
			t.Errorf("now = %s, want %s", got, ahead.Add(time.Minute))
		}
	})
}
