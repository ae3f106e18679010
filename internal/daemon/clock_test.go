package daemon_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
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

// lease is the lease of the claims here.
const lease = 4 * time.Minute

// clocked starts a daemon on a machine whose clock is slow, or fast if negative. The daemon does
// not sweep by itself.
func (w *world) clocked(slow time.Duration) (*node, *abroad) {
	w.Helper()
	o := w.options(func(c *config.Config) {
		c.Claim.Timeout, c.Schedule.Sweep, c.Sync.Interval = lease, "@every 1000h", time.Minute
	})
	line := &abroad{next: o.Transport}
	line.slow.Store(int64(slow))
	o.Transport = line
	return w.start(o), line
}

// wrongClocks are the delays of the holder's and the rival's clocks.
var wrongClocks = [][2]time.Duration{
	{0, 0},
	{10 * time.Minute, -10 * time.Minute},
	{-10 * time.Minute, 10 * time.Minute},
	{-10 * time.Minute, 0},
}

// TestNobodyOverridesEarly lets an agent go silent while a rival, on a machine with another clock,
// waits for its claim to become stale. Whatever the clocks, and at whatever second the claim began,
// the rival gets the task later than the agent may rely on its claim, by the write window and the
// settle wait, and not much later.
func TestNobodyOverridesEarly(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	takes := map[string]func(n *node, id string) (bool, error){
		"override": override,
		"sweep": func(n *node, _ string) (bool, error) {
			swept, err := client.Do(n.w.Context(), n.Client, api.OpSweep, api.KeyedInput[*api.SweepRequest]{})
			return len(swept.Swept) > 0, err
		},
	}
	for name, take := range takes {
		for _, slow := range few(2, wrongClocks) {
			t.Run(fmt.Sprintf("%s, slow by %v and %v", name, slow[0], slow[1]), func(t *testing.T) {
				t.Parallel()
				inWorld(t, 0, func(w *world) {
					holder, _ := w.clocked(slow[0])
					rival, _ := w.clocked(slow[1])
					for i, second := range []time.Duration{0, 29 * time.Second, 58900 * time.Millisecond} {
						id := w.add(fmt.Sprint("left at ", second), nil)
						time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + second)))
						cl := holder.mustClaim("Sandman", id)
						if i == 1 { // the lease begins again, at another second
							time.Sleep(2*time.Minute + 13*time.Second)
							var err error
							if cl, err = client.Do(w.Context(), holder.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{})); err != nil {
								w.Fatal(err)
							}
						}
						if since := time.Since(w.claimedAt(id)); since < 0 || since > time.Minute+5*time.Second {
							w.Errorf("claimed_at lies %v back", since)
						}
						w.watchOverride(cl, rival, take)
					}
				})
			})
		}
	}
}

func override(n *node, id string) (bool, error) {
	_, err := n.claim("Oracle", id)
	if code(err) == denied(claim.CodeHeld) {
		return false, nil
	}
	return err == nil, err
}

// watchOverride lets a rival try to take a claim's task as early as possible, and checks when it
// succeeds.
func (w *world) watchOverride(cl api.Claim, rival *node, take func(n *node, id string) (bool, error)) {
	w.Helper()
	id, c := string(cl.Task.ID), config.Default()
	// The board's clock is right, and the agent's times are its machine's, which is the bubble's:
	// so all times here can be compared.
	began, expires := w.claimedAt(id), cl.ExpiresAt.Time
	if told := expires.Sub(began); told < lease || told > lease+time.Minute {
		w.Errorf("the claim of the minute of %v expires at %v", began, expires)
	}
	time.Sleep(time.Until(expires.Add(-time.Second)))
	w.notion.ResetRequests()
	for taken := false; !taken; time.Sleep(1500 * time.Millisecond) {
		var err error
		if taken, err = take(rival, id); err != nil {
			w.Fatal(err)
		}
		if time.Since(expires) > 2*time.Minute {
			w.Fatalf("the task was not to be had two minutes after the claim had expired")
		}
	}
	for _, r := range w.notion.Requests() {
		if r.Method != http.MethodPatch || !strings.HasSuffix(r.Path, id) {
			continue
		}
		if margin := r.Time.Sub(expires); margin < c.Claim.WriteWindow+c.Claim.Settle {
			w.Errorf("claimed in the minute of %v: the rival wrote at %v, %v after the agent was told its claim would end", began, r.Time, margin)
		}
		if late := r.Time.Sub(began) - lease - time.Minute; late > 20*time.Second {
			w.Errorf("claimed in the minute of %v: the rival wrote at %v only", began, r.Time)
		}
		return
	}
	w.Error("the rival wrote nothing")
}

// claimedAt returns when the task was claimed, as a person sees it.
func (w *world) claimedAt(id string) time.Time {
	w.Helper()
	t, err := time.Parse("2006-01-02T15:04:05.000-07:00", w.page(id).Date("claimed_at"))
	if err != nil {
		w.Fatal(err)
	}
	return t
}

// If a machine's clock is set while an agent holds a claim, the claim is kept, renewed and
// respected.
func TestClockIsSetWhileAClaimIsHeld(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	for _, jump := range []time.Duration{10 * time.Minute, -3 * time.Hour} {
		for _, whose := range []string{"the holder's", "the rival's"} {
			t.Run(fmt.Sprintf("%s is slow by %v", whose, jump), func(t *testing.T) {
				t.Parallel()
				inWorld(t, 0, func(w *world) {
					holder, holders := w.clocked(0)
					rival, rivals := w.clocked(0)
					id := w.add("held", nil)
					time.Sleep(31 * time.Second)
					began := time.Now()
					cl := holder.mustClaim("Sandman", id)
					for i := range 8 { // for four leases
						time.Sleep(2*time.Minute + time.Second)
						if i == 1 {
							line := holders
							if whose == "the rival's" {
								line = rivals
							}
							line.slow.Store(int64(jump))
						}
						if _, err := rival.claim("Oracle", id); code(err) != denied(claim.CodeHeld) {
							w.Fatalf("after %v: Oracle: %v, want held", time.Since(began), err)
						}
						if swept, err := client.Do(w.Context(), rival.Client, api.OpSweep, api.KeyedInput[*api.SweepRequest]{}); err != nil || len(swept.Swept) > 0 {
							w.Fatalf("after %v: swept %+v, %v; want nothing", time.Since(began), swept.Swept, err)
						}
						var err error
						if cl, err = client.Do(w.Context(), holder.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{})); err != nil {
							w.Fatalf("after %v: %v", time.Since(began), err)
						}
						if since := time.Since(w.claimedAt(id)); since < 0 || since > time.Minute+5*time.Second {
							w.Errorf("after %v: claimed_at lies %v back", time.Since(began), since)
						}
					}
					w.watchOverride(cl, rival, override)
				})
			})
		}
	}
}

// One answer from Notion with a wrong Date, or none, ends no live claim and is written nowhere; the
// next claim works as before.
func TestOneAnswerWithAWrongDate(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	t.Parallel()
	for _, fault := range []emulator.Fault{
		{Kind: emulator.WrongDate, Off: time.Hour}, {Kind: emulator.WrongDate, Off: -time.Hour},
		{Kind: emulator.WrongDate, Off: 10 * 365 * 24 * time.Hour}, {Kind: emulator.NoDate},
	} {
		t.Run(fmt.Sprintf("%s %v", fault.Kind, fault.Off), func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				quiet := func(c *config.Config) { c.Schedule.Sweep = "@every 1000h" }
				holder, rival := w.daemon(quiet), w.daemon(quiet)
				for skip := range 4 { // the answer that is wrong
					held, open := w.add(fmt.Sprint("held ", skip), nil), w.add(fmt.Sprint("open ", skip), nil)
					cl := holder.mustClaim("Sandman", held)
					time.Sleep(time.Minute)
					fault.Skip, fault.Times = skip, 1
					strike := func() (remove func()) {
						time.Sleep(time.Minute) // a right answer in between: two that agree would be believed
						return w.notion.Inject(fault)
					}
					remove := strike()
					if _, err := rival.claim("Oracle", held); code(err) != denied(claim.CodeHeld) {
						w.Errorf("answer %d: a live claim: %v, want held", skip, err)
					}
					remove()
					remove = strike()
					if swept, err := client.Do(w.Context(), rival.Client, api.OpSweep, api.KeyedInput[*api.SweepRequest]{}); err != nil || len(swept.Swept) > 0 {
						w.Errorf("answer %d: swept %+v, %v; want nothing", skip, swept.Swept, err)
					}
					remove()
					remove = strike()
					rival.mustClaim("Oracle", open)
					remove()
					if since := time.Since(w.claimedAt(open)); since < 0 || since > time.Minute+10*time.Second {
						w.Errorf("answer %d: claimed_at lies %v back", skip, since)
					}
					remove = strike()
					if err := holder.complete(cl); err != nil {
						w.Errorf("answer %d: %v", skip, err)
					}
					remove()
				}
			})
		})
	}
}
