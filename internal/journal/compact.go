package journal

import "context"

// Compact gives the space of what was removed back to the file system.
func (j *Journal) Compact(ctx context.Context) error {
	return j.failed(j.engine.compact(ctx, j), "compacting the journal")
}
