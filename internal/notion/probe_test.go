package notion_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/notion/transport"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

const (
	scratchTitle = "dibs probe 01JDH4YJ2R6S1F2Q8Y1V4Q0Z7K, can be deleted"
	probeWindow  = 1500 * time.Millisecond
)

// probed probes with ten rounds, and returns the facts that do not hold.
func (w *world) probed(rounds int) (found notion.Probe, broken []string) {
	w.Helper()
	found, err := w.tasks(notion.TaskSchema{}).Probe(w.Context(), scratchTitle, rounds, probeWindow)
	must(w, err)
	for _, f := range found.Facts {
		w.Logf("%-24s %-5t %s", f.Name, f.Holds, f.Measured)
		if !f.Holds {
			broken = append(broken, f.Name)
		}
	}
	return found, broken
}

// leftNothing checks that the tasks database has no rows but in the trash.
func (w *world) leftNothing(rows int) {
	w.Helper()
	all := w.emulator.Pages(w.databases.Tasks)
	for _, p := range all {
		if !p.Trashed || p.Select("status") != "CANCELLED" {
			w.Errorf("the row %q is left, %s", p.Title(), p.Select("status"))
		}
	}
	if len(all) != rows {
		w.Errorf("%d rows were made, want %d", len(all), rows)
	}
}

// slow is harmless: requests take their time.
func slow(r *http.Request) (before, after time.Duration) {
	if r.Method == http.MethodPatch {
		return 300 * time.Millisecond, 100 * time.Millisecond
	}
	return 50 * time.Millisecond, 50 * time.Millisecond
}

func TestProbe(t *testing.T) {
	inWorld(t, func(w *world) {
		w.emulator.SetLatency(slow)
		tasks := w.tasks(notion.TaskSchema{})
		w.sent()
		got, err := tasks.Probe(w.Context(), scratchTitle, 5, probeWindow)
		must(w, err)
		for _, r := range got.Rounds {
			if want := (notion.Round{Read: 100 * time.Millisecond, Write: 400 * time.Millisecond}); r != want || r.Attempt() != 500*time.Millisecond {
				w.Errorf("round = %+v, want %+v", r, want)
			}
		}
		same(w, 5, len(got.Rounds), "rounds")
		w.leftNothing(2)
		for _, r := range w.emulator.Requests() {
			if body := string(r.Body); r.Method == http.MethodPost && r.Path == "/v1/pages" && !strings.Contains(body, "CANCELLED") {
				w.Errorf("a row was made by %s, want it to be CANCELLED from the start", body)
			}
		}
	})
}

// While each write shows at once, a probe makes as many requests as it says.
func TestProbeRequests(t *testing.T) {
	for _, rounds := range []int{1, 4, 10} {
		inWorld(t, func(w *world) {
			tasks := w.tasks(notion.TaskSchema{})
			w.sent()
			got := need(tasks.Probe(w.Context(), scratchTitle, rounds, probeWindow))(w)
			same(w, notion.ProbeRequests(rounds), w.sent(), "requests of %d rounds", rounds)
			same(w, notion.ProbeRequests(rounds), got.Requests, "counted requests")
		})
	}
}

// A probe finds each way in which Notion could deceive dibs, and none where there is none.
func TestProbeFindsLies(t *testing.T) {
	testkit.TakesSeconds(t)
	pages, patch, get := "/v1/pages/*", http.MethodPatch, http.MethodGet
	// edits strikes writes of a row, the nth and those after it, but not moves to the trash.
	edits := func(n, times int, f emulator.Fault) emulator.Fault {
		f.Method, f.Path, f.Skip, f.Times = patch, pages, n, times
		f.Match = func(_ *http.Request, body []byte) bool { return strings.Contains(string(body), "properties") }
		return f
	}
	reads := func(n, times int, f emulator.Fault) emulator.Fault {
		f.Method, f.Path, f.Skip, f.Times = get, pages, n, times
		return f
	}
	on := func(method, path string, f emulator.Fault) emulator.Fault {
		f.Method, f.Path = method, path
		return f
	}
	const fresh, late, kept, lag = notion.ReadAfterWrite, notion.WriteLateness, notion.WriteKept, notion.QueryLag
	type lies = []emulator.Fault
	for name, tt := range map[string]struct {
		lies   lies
		broken []string
	}{
		"none":                       {nil, nil},
		"harmless: slow reads":       {lies{reads(0, 0, emulator.Fault{Kind: emulator.Delay, Delay: 3 * time.Second})}, nil},
		"harmless: slow writes":      {lies{edits(0, 0, emulator.Fault{Kind: emulator.Delay, Delay: 3 * time.Second})}, nil},
		"harmless: slow answers":     {lies{{Kind: emulator.DelayAnswer, Delay: 2 * time.Second}}, nil},
		"harmless: an answer lost":   {lies{edits(4, 1, emulator.Fault{Kind: emulator.DropAnswer})}, nil},
		"harmless: a request lost":   {lies{edits(4, 1, emulator.Fault{Kind: emulator.DropRequest})}, nil},
		"harmless: saved but 503":    {lies{edits(4, 1, emulator.Fault{Kind: emulator.SavedBut503})}, nil},
		"harmless: late in time":     {lies{edits(4, 1, emulator.Fault{Kind: emulator.LateWrite, Late: time.Second})}, nil},
		"a read behind a write":      {lies{reads(3, 1, emulator.Fault{Kind: emulator.StaleRead, Delay: time.Hour})}, []string{fresh}},
		"reads behind for a second":  {lies{reads(0, 0, emulator.Fault{Kind: emulator.StaleRead, Delay: time.Second})}, []string{fresh}},
		"a read that goes back":      {lies{reads(4, 1, emulator.Fault{Kind: emulator.StaleRead, Delay: time.Hour})}, []string{fresh}},
		"200 with the old values":    {lies{edits(3, 1, emulator.Fault{Kind: emulator.NotApplied})}, []string{fresh, kept}},
		"200 and lost":               {lies{edits(3, 1, emulator.Fault{Kind: emulator.LostWrite})}, []string{fresh, kept}},
		"the last one lost":          {lies{edits(14, 1, emulator.Fault{Kind: emulator.LostWrite})}, []string{fresh, kept}},
		"taken back at once":         {lies{edits(3, 1, emulator.Fault{Kind: emulator.TakenBack, Late: time.Millisecond})}, []string{fresh, kept}},
		"taken back after a while":   {lies{edits(14, 1, emulator.Fault{Kind: emulator.TakenBack, Late: 2 * time.Second})}, []string{kept}},
		"lands after its answer":     {lies{edits(3, 1, emulator.Fault{Kind: emulator.LateWrite200, Late: 4 * time.Second})}, []string{fresh, late}},
		"lands long after":           {lies{edits(3, 1, emulator.Fault{Kind: emulator.LateWrite200, Late: 33 * time.Second})}, []string{fresh, late}},
		"lands after a cut":          {lies{edits(3, 1, emulator.Fault{Kind: emulator.LateWrite, Late: 4 * time.Second})}, []string{late}},
		"lands after a 503":          {lies{edits(3, 1, emulator.Fault{Kind: emulator.LateWrite503, Late: 20 * time.Second})}, []string{late}},
		"lands after the time-out":   {lies{edits(3, 1, emulator.Fault{Kind: emulator.Unanswered, Late: 14 * time.Second})}, []string{late}},
		"lands after giving up soon": {lies{edits(12, 1, emulator.Fault{Kind: emulator.Unanswered, Late: 50 * time.Second})}, []string{late}},
		"dates rounded up":           {lies{edits(0, 0, emulator.Fault{Kind: emulator.RoundedDate, Off: time.Minute})}, []string{notion.DateMinutes}},
		"dates with seconds":         {lies{edits(0, 0, emulator.Fault{Kind: emulator.RoundedDate, Off: time.Second})}, []string{notion.DateMinutes}},
		"dates by the hour":          {lies{edits(5, 1, emulator.Fault{Kind: emulator.RoundedDate, Off: time.Hour})}, []string{notion.DateMinutes}},
		"a Date that goes back":      {lies{reads(5, 1, emulator.Fault{Kind: emulator.WrongDate, Off: -3 * time.Second})}, []string{notion.DateHeader}},
		"a Date that stands still":   {lies{{Kind: emulator.StuckDate}}, []string{notion.DateHeader}},
		"a Date that rests a while":  {lies{{Kind: emulator.StuckDate, Skip: 40, Times: 9}}, []string{notion.DateHeader}},
		"a Date an hour off":         {lies{{Kind: emulator.WrongDate, Off: time.Hour}}, []string{notion.DateHeader}},
		"an answer without a Date":   {lies{reads(5, 1, emulator.Fault{Kind: emulator.NoDate})}, []string{notion.DateHeader}},
		"an append that comes first": {lies{on(patch, "/v1/blocks", emulator.Fault{Kind: emulator.AppendedFirst})}, []string{notion.AppendOrder}},
		"an append that is lost":     {lies{on(patch, "/v1/blocks", emulator.Fault{Kind: emulator.LostWrite, Skip: 1, Times: 1})}, []string{notion.AppendOrder}},
		"a page trashed twice":       {lies{on(patch, pages, emulator.Fault{Kind: emulator.TrashedAgain})}, []string{notion.TrashOnce}},
		"a block trashed twice":      {lies{on(http.MethodDelete, "/v1/blocks/*", emulator.Fault{Kind: emulator.TrashedAgain})}, []string{notion.TrashOnce}},
		"a query that lags":          {lies{{Kind: emulator.StaleQuery, Delay: 2 * time.Second}}, []string{lag}},
		"a query that never shows":   {lies{{Kind: emulator.StaleQuery, Delay: time.Hour}}, []string{lag}},
		"one query behind":           {lies{{Kind: emulator.StaleQuery, Delay: time.Hour, Skip: 3, Times: 1}}, []string{lag}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				for _, f := range tt.lies {
					defer w.emulator.Inject(f)()
				}
				_, broken := w.probed(10)
				same(w, tt.broken, broken, "the facts that do not hold")
				w.leftNothing(2)
			})
		})
	}
}

// Slow lines are no lies, whether a write that was given up was on its way or not.
func TestProbeOfSlowNotion(t *testing.T) {
	inWorld(t, func(w *world) {
		w.emulator.SetLatency(slow)
		_, broken := w.probed(10)
		same(w, []string(nil), broken, "the facts that do not hold")
		w.leftNothing(2)
	})
}

// How long reads were behind, and how late writes landed, is measured.
func TestProbeOfStaleReads(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.emulator.Inject(emulator.Fault{Method: "PATCH", Kind: emulator.LateWrite200, Late: 2*time.Second + 100*time.Millisecond, Times: 1})()
		defer w.emulator.Inject(emulator.Fault{Method: "PATCH", Kind: emulator.LateWrite, Late: 3*time.Second + 100*time.Millisecond, Times: 1})()
		got, _ := w.probed(2)
		if len(got.Rounds) != 1 || got.Rounds[0].Stale.Round(time.Second) != 2*time.Second || got.Late.Round(time.Second) != 3*time.Second {
			w.Errorf("%+v, want a read that was stale for 2s, and a write that landed 3s late", got)
		}
	})
}

// Whatever fails, and whenever, no row stays.
func TestProbeThatFailsCleansUp(t *testing.T) {
	for n := range 8 {
		inWorld(t, func(w *world) {
			tasks := w.tasks(notion.TaskSchema{})
			w.emulator.Inject(emulator.Fault{Method: "PATCH", Path: "/v1/pages/*", Kind: emulator.Error500, Skip: n, Times: 1})
			if _, err := tasks.Probe(w.Context(), scratchTitle, 3, probeWindow); err == nil {
				w.Error("the failed write was not reported")
			}
			w.leftNothing(2)
		})
	}
}

// A pause that Notion asks for ends a probe. Its rows go into the trash once the pause is over.
func TestProbeThatIsPaused(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		w.emulator.Inject(emulator.Fault{Kind: emulator.RateLimited429, Skip: 20, Times: 1, RetryAfter: 40 * time.Second})
		if _, err := tasks.Probe(notion.Impatient(w.Context()), scratchTitle, 10, probeWindow); err == nil {
			w.Error("the pause was not reported")
		}
		w.leftNothing(2)
	})
}

// A row that would be offered to agents goes into the trash at once.
func TestProbeOfARowThatIsOpen(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answering("/v1/pages", func(page map[string]any) {
			page["properties"].(props)["status"].(props)["status"].(props)["name"] = "OPEN"
		})
		tasks := w.tasks(notion.TaskSchema{})
		_, err := tasks.Probe(w.Context(), scratchTitle, 1, probeWindow)
		failed(w, err, claim.Refused, claim.LandedYes, `made in status "OPEN" instead of CANCELLED`)
		w.leftNothing(1)
	})
}

// The rows of a probe that is stopped go into the trash, and those of one that is killed with the
// next. It touches no other rows.
func TestProbeThatIsInterrupted(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		ctx, cancel := context.WithCancel(w.Context())
		time.AfterFunc(5*time.Second, cancel)
		if _, err := tasks.Probe(ctx, scratchTitle, 10, probeWindow); err == nil {
			w.Error("a probe that was stopped returned as if it was done")
		}
		w.leftNothing(2)

		over, open := props{"Name": title(scratchTitle + ", write 3 of 10"), "status": status("CANCELLED")}, props{"status": status("OPEN")}
		maps.Copy(open, props{"Name": title(scratchTitle)}) // an automation set it, after that probe was killed
		left := []task.ID{w.page(over), w.page(open)}
		maps.Copy(open, props{"claimed_by": richText("Maria")})
		spared := []task.ID{w.page(open), w.page(props{"Name": title("dibs probe it, can be deleted"), "status": status("CANCELLED")})}
		need(tasks.Probe(w.Context(), scratchTitle, 1, probeWindow))(w)
		if slices.ContainsFunc(left, func(id task.ID) bool { return !w.look(id).Trashed }) || slices.ContainsFunc(spared, func(id task.ID) bool { return w.look(id).Trashed }) {
			w.Error("want what an earlier probe left in the trash, and nothing else")
		}
	})
}

// A second probe ends the first, which says so.
func TestTwoProbes(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		done := make(chan error)
		go func() {
			_, err := tasks.Probe(w.Context(), scratchTitle, 50, probeWindow)
			done <- err
		}()
		time.Sleep(8 * time.Second)
		second := need(w.another(notion.Options{}).Tasks(w.Context(), w.databases.Tasks, notion.TaskSchema{}))(w)
		need(second.Probe(w.Context(), strings.Replace(scratchTitle, "7K", "8K", 1), 2, probeWindow))(w)
		failed(w, <-done, claim.Trashed, claim.LandedNo)
		w.leftNothing(4)
	})
}

// The Date headers of all answers are heard as they came.
func TestDatesAreHeard(t *testing.T) {
	inWorld(t, func(w *world) {
		w.emulator.Inject(emulator.Fault{Kind: emulator.Error500, Times: 1})
		w.emulator.Inject(emulator.Fault{Kind: emulator.NoDate, Times: 1})
		var heard []string
		ctx := transport.WithDates(w.Context(), func(date string, _ time.Duration) { heard = append(heard, date) })
		for range 2 {
			need(w.client.Me(ctx))(w)
		}
		if len(heard) != 3 || heard[0] == "" || heard[1] != "" || heard[2] == "" {
			w.Errorf("heard %q", heard)
		}
	})
}
