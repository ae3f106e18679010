package journal

import "context"

// Compact returns the space of removed rows to the file system.
func (j *Journal) Compact(ctx context.Context) error {
	return j.failed(j.engine.compact(ctx, j), "compacting the journal")
}
