package notion_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
)

func TestProbe(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		w.emulator.SetLatency(func(r *http.Request) (before, after time.Duration) {
			if r.Method == "PATCH" {
				return 300 * time.Millisecond, 100 * time.Millisecond
			}
			return 50 * time.Millisecond, 50 * time.Millisecond
		})
		got, err := tasks.Probe(w.Context(), "dibs probe", 5)
		if err != nil || len(got.Rounds) != 5 {
			w.Fatalf("%+v, %v", got, err)
		}
		for _, r := range got.Rounds {
			if want := (notion.Round{Read: 100 * time.Millisecond, Write: 400 * time.Millisecond}); r != want || r.Attempt() != 500*time.Millisecond {
				w.Errorf("round = %+v, want %+v", r, want)
			}
		}
		rows := w.emulator.Pages(w.databases.Tasks)
		if len(rows) != 1 || !rows[0].Trashed || rows[0].Select("status") != "CANCELLED" || !strings.HasPrefix(rows[0].Title(), "dibs probe") {
			w.Errorf("the rows are %+v, want the scratch row in the trash", rows)
		}
		first := w.emulator.Requests()[2]
		if first.Method != "POST" || !strings.Contains(string(first.Body), "CANCELLED") {
			w.Errorf("the row was made by %s %s, want it to be CANCELLED from the start", first.Method, first.Body)
		}
	})
}

// A store that shows old values for a while is noticed.
func TestProbeOfStaleReads(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		// The write takes effect two seconds after it was answered.
		defer w.emulator.Inject(emulator.Fault{Method: "PATCH", Kind: emulator.NotApplied, Times: 1})()
		done := make(chan struct{})
		go func() {
			defer close(done)
			time.Sleep(2*time.Second + 100*time.Millisecond)
			for _, p := range w.emulator.Pages(w.databases.Tasks) {
				if err := w.emulator.EditPage(p.ID, props{"Name": title("dibs probe, write 1 of 1")}); err != nil {
					w.Error(err)
				}
			}
		}()
		got, err := tasks.Probe(w.Context(), "dibs probe", 1)
		<-done
		if err != nil || len(got.Rounds) != 1 || got.Rounds[0].Stale != 2*time.Second {
			w.Errorf("%+v, %v, want reads that were stale for 2s", got, err)
		}
	})
}

// Whatever fails, the row does not stay.
func TestProbeThatFailsCleansUp(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		w.emulator.Inject(emulator.Fault{Method: "PATCH", Kind: emulator.Error500, Skip: 1, Times: 1})
		if _, err := tasks.Probe(w.Context(), "dibs probe", 3); err == nil {
			w.Error("the failed write was not reported")
		}
		if rows := w.emulator.Pages(w.databases.Tasks); len(rows) != 1 || !rows[0].Trashed {
			w.Errorf("the rows are %+v, want the scratch row in the trash", rows)
		}
	})
}
