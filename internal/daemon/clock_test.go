package daemon_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

// abroad is the connection to Notion of a machine with a wrong clock: it adds the clock's delay to
// every time from Notion, and subtracts it from every time to Notion. In a bubble all share one
// clock, so Notion's time is shifted instead.
type abroad struct {
	next http.RoundTripper
	slow atomic.Int64 // a time.Duration, of whole minutes
}

// isoTime matches the times in Notion's JSON, but not those within texts.
var isoTime = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"`)

func (a *abroad) RoundTrip(r *http.Request) (*http.Response, error) {
	slow := time.Duration(a.slow.Load())
	r = r.Clone(r.Context())
	if r.Body != nil {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		data = shift(data, -slow)
		r.Body, r.ContentLength, r.GetBody = io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
	}
	resp, err := a.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return nil, err
	}
	resp.Header.Set("Date", date.Add(slow).Format(http.TimeFormat))
	data, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(shift(data, slow)))
	return resp, err
}

// shift shifts the times in a JSON text.
func shift(data []byte, by time.Duration) []byte {
	return isoTime.ReplaceAllFunc(data, func(quoted []byte) []byte {
		t, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(quoted))
		if err != nil {
			return quoted
		}
		return []byte(t.Add(by).Format(`"2006-01-02T15:04:05.000Z07:00"`))
	})
}

// Whatever the clocks of the machines, the rival of an agent that went silent gets the task later than the agent may
// rely on its claim, by the write window and the settle wait, and not much later. Notion shows right times.
func TestNobodyOverridesEarly(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	const lease = 4 * time.Minute
	for _, slow := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		t.Run(fmt.Sprintf("slow by %v, and the rival's by %v", slow, -slow), func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				clocked := func(slow time.Duration) (*node, *abroad) {
					o := w.options(func(c *config.Config) {
						c.Claim.Timeout, c.Schedule.Sweep, c.Sync.Interval = lease, "@every 1000h", time.Minute
					})
					line := &abroad{next: o.Transport}
					line.slow.Store(int64(slow))
					o.Transport = line
					return w.start(o), line
				}
				holder, _ := clocked(slow)
				rival, rivals := clocked(-slow)
				id := w.add("left", nil)
				time.Sleep(29 * time.Second)
				cl := holder.mustClaim("Sandman", id)
				time.Sleep(2*time.Minute + 13*time.Second)
				rivals.slow.Store(int64(-2 * slow)) // it is set while the claim is held
				if _, err := rival.claim("Oracle", id); code(err) != denied(claim.CodeHeld) {
					w.Errorf("Oracle: %v, want held", err)
				}
				// The lease begins again, at another second.
				cl, err := client.Do(w.Context(), holder.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{}))
				mustDo(w, err)
				// The board's clock is right, and the agent's times are its machine's, which is the bubble's.
				began, err := time.Parse("2006-01-02T15:04:05.000-07:00", w.page(id).Date("claimed_at"))
				mustDo(w, err)
				expires := cl.ExpiresAt.Time
				if since, told := time.Since(began), expires.Sub(began); since < 0 || since > time.Minute+5*time.Second || told < lease || told > lease+time.Minute {
					w.Errorf("claimed_at lies %v back, and the claim expires %v after it", since, told)
				}
				time.Sleep(time.Until(expires.Add(-time.Second)))
				w.notion.ResetRequests()
				for _, err = rival.claim("Oracle", id); code(err) == denied(claim.CodeHeld) && time.Since(expires) < 2*time.Minute; _, err = rival.claim("Oracle", id) {
					time.Sleep(1500 * time.Millisecond)
				}
				mustDo(w, err)
				written := slices.IndexFunc(w.notion.Requests(), func(r emulator.Request) bool { return r.Method == http.MethodPatch && strings.HasSuffix(r.Path, id) })
				c, at := config.Default().Claim, w.notion.Requests()[written].Time
				if at.Sub(expires) < c.WriteWindow+c.Settle || at.Sub(began)-lease-time.Minute > 20*time.Second {
					w.Errorf("the rival wrote %v after the agent was told its claim would end, and %v after its beginning", at.Sub(expires), at.Sub(began))
				}
			})
		})
	}
}
