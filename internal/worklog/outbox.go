package worklog

import (
	"context"
	"time"

	"dibs/internal/claim"
)

// Outbox is the durable queue of entries owed to Notion. Its times are those that it is
// given: what they mean is the drainer's business.
type Outbox interface {
	// NextOutbox returns the items owed to the given logs that may be worked on
	// now, oldest first.
	NextOutbox(ctx context.Context, now time.Time, limit int, logs ...claim.Log) ([]Item, error)
	// NextOutboxAt says when the first item owed to the given logs may be worked
	// on; false if there is none.
	NextOutboxAt(ctx context.Context, logs ...claim.Log) (time.Time, bool, error)
	// Hurry has no item owed to the log wait beyond that time.
	Hurry(ctx context.Context, latest time.Time, log claim.Log) error
	// MarkSending notes that item is about to be sent.
	MarkSending(ctx context.Context, item Item, at time.Time) error
	// MarkInDoubt notes that item was sent and its fate is unknown.
	MarkInDoubt(ctx context.Context, item Item, notBefore time.Time, why error) error
	// Retry notes that item is not in Notion.
	Retry(ctx context.Context, item Item, notBefore time.Time, why error) error
	// Delivered notes that item is in Notion.
	Delivered(ctx context.Context, item Item, at time.Time) error
}

// Item is an entry that is owed to a log.
type Item struct {
	Entry claim.Event
	Log   claim.Log
	// InDoubt is set if the item was sent and may be in Notion.
	InDoubt bool
	Tries   int       // how often it was sent
	SentAt  time.Time // when it was last sent; zero for never
}

// Writer is one log. Its errors are *claim.StoreError, or a *owed.GoneError around one.
type Writer interface {
	// Create adds the entry, in one request that is sent at most once.
	Create(ctx context.Context, e Entry) error
	// Find reports whether the log has that entry, in whichever form it was made.
	Find(ctx context.Context, e Entry) (bool, error)
}
