// Package outbox delivers to Notion what it is owed, each thing once: log entries, comments, and
// tasks. In the same way it delivers notices to their receivers.
//
// Notion has no idempotency keys, and a request can end without an answer. So each thing is an
// Intent with an id of its own. It is saved in a Ledger before it is sent, in one request. After
// that its fate is known, or it is in doubt. In doubt it is looked up by its id. It is sent again
// only once it is certain that it is not in Notion, and that no request for it is still under way
// (Doubts). A Sender does this to one intent, for a caller that waits; a Queue does it to all
// intents of a kind, in the background.
//
// A receiver of notices has nothing to look them up by. What may have reached it counts as absent,
// and is sent again under the same id: it arrives at least once.
//
// Package outbox also defines the stored answer to a request with an idempotency key (Answer).
package outbox
