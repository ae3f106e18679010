package doctor_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/notion"
	"dibs/internal/setup/doctor"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

func TestProbeIsJudgedAndLeavesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.notion.SetLatency(func(*http.Request) (before, after time.Duration) { return time.Second, 250 * time.Millisecond })
		w.options.Probe = true
		report := doctor.Run(w.Context(), w.options)
		if f := find(report, "write_window"); f.Level != doctor.Error || !strings.Contains(f.Found, "took 2.5s") {
			w.Errorf("finding = %+v, want that 2.5s do not fit", f)
		}
		if f := find(report, "overwrite"); f.Level != doctor.OK || !strings.Contains(f.Found, "2.5s at most") {
			w.Errorf("finding = %+v, want to be told for how long an edit is not safe", f)
		}
		rows := w.notion.Pages(w.notion.Databases().Tasks)
		testkit.Check(w, len(rows) == 1 && rows[0].Trashed, "the rows are %+v, want one in the trash", rows)
		want := (&doctor.Proposal{WriteWindowSeconds: 5, SettleSeconds: 5.1})
		testkit.Check(w, cmp.Equal(report.Proposal, want), "proposal = %+v, want %+v", report.Proposal, want)
	})
}

func TestJudge(t *testing.T) {
	round := func(read, write, stale time.Duration) notion.Round {
		return notion.Round{Read: read, Write: write, Stale: stale}
	}
	ms := time.Millisecond
	exclusive := func(c *config.Config) { c.Claim.Exclusive, c.Claim.Settle = true, 0 }
	tests := map[string]struct {
		change func(*config.Config)
		rounds []notion.Round
		window doctor.Level
		settle doctor.Level
		pair   [2]time.Duration
	}{
		"very fast":             {nil, []notion.Round{round(20*ms, 30*ms, 0)}, doctor.OK, doctor.OK, [2]time.Duration{1000 * ms, 1100 * ms}},
		"fast":                  {nil, []notion.Round{round(100*ms, 200*ms, 0), round(300*ms, 450*ms, 0)}, doctor.OK, doctor.OK, [2]time.Duration{1500 * ms, 1600 * ms}},
		"now and then too slow": {nil, []notion.Round{round(100*ms, 200*ms, 0), round(300*ms, 451*ms, 0)}, doctor.Warning, doctor.OK, [2]time.Duration{1600 * ms, 1700 * ms}},
		"too slow":              {nil, []notion.Round{round(1000*ms, 2000*ms, 0)}, doctor.Error, doctor.OK, [2]time.Duration{6000 * ms, 6100 * ms}},
		"stale for a moment":    {nil, []notion.Round{round(10*ms, 10*ms, 49*ms), round(10*ms, 10*ms, 0)}, doctor.OK, doctor.Warning, [2]time.Duration{1000 * ms, 2100 * ms}},
		"stale for too long":    {nil, []notion.Round{round(10*ms, 10*ms, 50*ms)}, doctor.OK, doctor.Error, [2]time.Duration{1000 * ms, 2100 * ms}},
		"stale for very long":   {nil, []notion.Round{round(10*ms, 10*ms, 5*time.Second)}, doctor.OK, doctor.Error, [2]time.Duration{1000 * ms, 12000 * ms}},
		"the only claimer":      {exclusive, []notion.Round{round(500*ms, 500*ms, 0)}, doctor.Warning, doctor.OK, [2]time.Duration{2000 * ms, 0}},
		"a long notion.timeout": {
			func(c *config.Config) { c.Notion.Timeout = 13 * time.Second },
			[]notion.Round{round(100*ms, 100*ms, 0)}, doctor.OK, doctor.OK, [2]time.Duration{1500 * ms, 1600 * ms},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := config.Default()
			if tt.change != nil {
				tt.change(&c)
			}
			report := doctor.Judge(notion.Probe{Rounds: tt.rounds}, c)
			window, settle := find(report, "write_window"), find(report, "settle")
			testkit.Check(t, window.Level == tt.window && settle.Level == tt.settle,
				"write_window: %s, settle: %s, want %s and %s", window.Level, settle.Level, tt.window, tt.settle)
			got, want := *report.Proposal, (doctor.Proposal{WriteWindowSeconds: tt.pair[0].Seconds(), SettleSeconds: tt.pair[1].Seconds()})
			testkit.Check(t, got == want, "proposal %+v, want %+v", got, want)
			pair := fmt.Sprintf("claim.write_window to %v and claim.settle to %v, for every daemon", tt.pair[0], tt.pair[1])
			for _, f := range []doctor.Finding{window, settle} {
				testkit.Check(t, f.Level == doctor.OK || strings.Contains(f.Remedy, pair),
					"%s: remedy %q, want %q", f.Check, f.Remedy, pair)
			}
			said := find(report, "proposal").Found
			if pair = fmt.Sprintf("claim.write_window %v and claim.settle %v fit what was measured", tt.pair[0], tt.pair[1]); !strings.HasPrefix(said, pair) {
				t.Errorf("%q does not say %q", said, pair)
			}
			set := tt.pair == [2]time.Duration{c.Claim.WriteWindow, c.Claim.Settle}
			testkit.Check(t, set == strings.HasSuffix(said, ", and are set"), "%q, want it to say whether they are set", said)
		})
	}
}

// The proposed times are valid.
func TestProposalIsValid(t *testing.T) {
	for range 1000 {
		c := config.Default()
		c.Notion.Timeout = time.Duration(1+rand.IntN(13_100)) * time.Millisecond
		r := notion.Round{Read: rand.N(10 * time.Second), Write: rand.N(10 * time.Second)}
		if rand.IntN(2) == 0 {
			r.Stale = rand.N(5 * time.Second)
		}
		p := doctor.Judge(notion.Probe{Rounds: []notion.Round{r}}, c).Proposal
		w, s := time.Duration(p.WriteWindowSeconds*1e9).Round(time.Millisecond), time.Duration(p.SettleSeconds*1e9).Round(time.Millisecond)
		testkit.Require(t, s > w+2*r.Stale && w >= 2*(r.Read+r.Write) && c.Notion.Timeout <= w+s+10*time.Second,
			"%v and %v are proposed for %+v and a notion.timeout of %v", w, s, r, c.Notion.Timeout)
	}
}
