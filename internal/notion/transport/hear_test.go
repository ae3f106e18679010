package transport

import (
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion/transport/transporttest"
)

func TestClockListensToAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ahead := start.Add(time.Hour).Truncate(time.Second)
		said := ""
		e := newEars(slog.New(slog.DiscardHandler))
		chain := &hear{ears: e, next: transporttest.Server(func(*http.Request) (*http.Response, error) {
			return transporttest.Reply(503, "", "Date", said), nil
		})}
		date := ahead.UTC().Format(http.TimeFormat)
		for _, a := range []struct {
			said string
			want Moment
			now  time.Time
		}{
			{date, Moment{At: start.UTC()}, start}, // which nobody has confirmed
			{"yesterday", Moment{At: start.UTC()}, start},
			{"", Moment{At: start.UTC()}, start},
			{date, Moment{At: ahead.UTC(), Sure: true}, ahead},
			{"", Moment{At: ahead.UTC()}, ahead},
		} {
			said = a.said
			var heard Moment
			if _, err := chain.RoundTrip(transporttest.Request(t, Timed(t.Context(), &heard), http.MethodGet, transporttest.PagePath, "")); err != nil {
				t.Fatal(err)
			}
			if heard != a.want || !e.now().Equal(a.now) {
				t.Errorf("after %q: %+v, now = %s; want %+v, %s", said, heard, e.now(), a.want, a.now)
			}
		}
		time.Sleep(time.Minute)
		if got := e.now(); !got.Equal(ahead.Add(time.Minute)) {
			t.Errorf("now = %s, want %s", got, ahead.Add(time.Minute))
		}
	})
}
