package journal

import (
	"context"
	"strings"
	"sync"
)

const (
	// metaTried is the key of a value that is stored only to find out whether writing works.
	metaTried = "tried"
	// usual is the size of that value in bytes: more than a change usually takes.
	usual = 64 << 10
)

// trouble is the reason why the journal cannot be written. It is safe for concurrent use.
type trouble struct {
	mu    sync.Mutex
	why   error // why the last change was not stored; nil if it was
	watch func(why error)
}

// note stores the outcome of a change, and reports it to the watcher if it is news.
func (t *trouble) note(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	news := (t.why == nil) != (why == nil)
	t.why = why
	if news && t.watch != nil {
		t.watch(why)
	}
}

// Watch has watch called with a *claim.JournalError when the journal cannot be written, and with
// nil when it can be written again. The call comes during a change, and must not use the journal.
// Earlier failures are not reported.
func (j *Journal) Watch(watch func(why error)) {
	j.writer.trouble.mu.Lock()
	defer j.writer.trouble.mu.Unlock()
	j.writer.trouble.watch = watch
}

// Away returns why the journal's database cannot be reached, as a *claim.JournalError, or nil if it
// can. It does not ask the database. For an SQLite file it is always nil: a file that cannot be
// written can still be read.
func (j *Journal) Away() error { return j.engine.explain(j.engine.away()) }

// Trouble returns why the journal cannot be written, as a *claim.JournalError, or nil if it can.
// If the last change failed, it tries to write something first.
func (j *Journal) Trouble(ctx context.Context) error {
	j.writer.trouble.mu.Lock()
	why := j.writer.trouble.why
	j.writer.trouble.mu.Unlock()
	if why == nil {
		return nil
	}
	if err := j.SetMeta(ctx, metaTried, strings.Repeat("-", usual)); err != nil {
		return err
	}
	return j.SetMeta(ctx, metaTried, "")
}
