// Package journal is the daemon's durable state, in one SQLite file or in a
// PostgreSQL database that several machines share: claims and who has which
// task, facts, what is owed to Notion, the mirror of the tasks database, and
// the answers to requests with an idempotency key.
//
// Every method that changes something is one transaction. Once it has returned
// nil, the change survives the end of the process and a power cut. If it returns
// an error, nothing of it is kept, unless the error says that this is not known.
// A Journal is safe for concurrent use.
//
// One writer commits for all callers (writer.go). What claims and marks may become is in ledger.go,
// what is published to agents in feed.go by package news, and which facts become triggers in package
// inbox (inbox.Of, causes.go). Who leads is a row, see term.go and leader.go.
package journal
