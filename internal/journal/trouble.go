package journal

import (
	"context"
	"strings"
	"sync"
	"time"
)

const (
	// metaTried is the key of what is stored only to see whether anything can be.
	metaTried = "tried"
	// usual is how many bytes that is: more than a change usually takes.
	usual = 64 << 10
)

// trouble is what keeps the file from being written. It is safe for concurrent use.
type trouble struct {
	mu    sync.Mutex
	why   error // of the last change that was to be stored; nil if it was
	watch func(why error)
}

// note takes note of what became of a change.
func (t *trouble) note(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	news := (t.why == nil) != (why == nil)
	t.why = why
	if news && t.watch != nil {
		t.watch(why)
	}
}

// Watch has watch called when the journal is found not to be writable, with a
// *claim.JournalError, and when it can be written again, with nil. It is called while a
// change is under way, and must not use the journal. Changes before that are not told.
func (j *Journal) Watch(watch func(why error)) {
	j.writer.trouble.mu.Lock()
	defer j.writer.trouble.mu.Unlock()
	j.writer.trouble.watch = watch
}

// Away returns since when the journal's database cannot be reached, by this machine's clock, and
// why, as a *claim.JournalError; a nil error if it may be. It asks for nothing. Of an SQLite file
// it is always nil: what keeps that from being written leaves it readable.
func (j *Journal) Away() (since time.Time, why error) {
	since, why = j.engine.away()
	return since, j.engine.explain(why)
}

// Trouble returns why the journal cannot be written, as a *claim.JournalError, or nil if it
// can. If the last change failed, it tries another one.
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
