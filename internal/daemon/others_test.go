package daemon_test

import (
	"strings"
	"testing"
	"time"

	"dibs/internal/claim/doubt"
)

// Daemons with journals of their own name each other by their claims, for a day. That is no warning
// where each waits for the settle time anyway.
func TestDaemonsWithJournalsOfTheirOwn(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		a, b := w.daemon(quiet), w.daemon(quiet)
		time.Sleep(time.Minute) // what is as old as the journal may be its own
		cl := a.mustClaim("Sandman", w.add("Mend the roof", nil))
		time.Sleep(20 * time.Minute)
		b.sync()
		s := b.status()
		if !strings.HasPrefix(s.Policy.Stranger, `a daemon with a journal of its own claims on this board: Sandman had "Mend the roof"`) || len(s.Warnings) > 0 {
			w.Errorf("stranger %q, warnings %q", s.Policy.Stranger, s.Warnings)
		}
		if s := a.status(); s.Policy.Stranger != "" {
			w.Errorf("its own claims are a stranger's: %s", s.Policy.Stranger)
		}
		mustDo(w, a.complete(cl))
		time.Sleep(doubt.Beside + time.Hour)
		if s := b.status(); s.Policy.Stranger != "" {
			w.Errorf("a day later: %s", s.Policy.Stranger)
		}
	})
}
