package wording

import (
	"context"

	"dibs/internal/claim"
	"dibs/internal/outbox"
)

// Writer is one log. Its errors are *claim.StoreError, or a *outbox.GoneError around one.
type Writer interface {
	// Create adds the entry, in one request that is sent at most once.
	Create(ctx context.Context, e Entry) error
	// Find reports whether the log has that entry, in any of the forms in which it may have been
	// created.
	Find(ctx context.Context, e Entry) (bool, error)
}

// Entries writes the intents of one log as its entries.
type Entries struct {
	Log    claim.Log
	Writer Writer
}

var _ outbox.Entries = Entries{}

// Send implements outbox.Effect.
func (e Entries) Send(ctx context.Context, in outbox.Intent) (ref string, err error) {
	return "", e.Writer.Create(ctx, NewEntry(in.Fact, e.Log))
}

// Find implements outbox.Effect. Nobody needs the page of an entry, so the ref is empty.
func (e Entries) Find(ctx context.Context, in outbox.Intent) (refs []string, err error) {
	found, err := e.Writer.Find(ctx, NewEntry(in.Fact, e.Log))
	if found {
		refs = []string{""}
	}
	return refs, err
}

// Name implements outbox.Entries.
func (e Entries) Name(in outbox.Intent) (entry, said string) {
	return entryID(in.Fact), title(in.Fact)
}
