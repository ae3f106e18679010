// Package claimtest is the world that the claim protocol is tried in: a
// simulated register of tasks, the ways in which requests to it go wrong, a
// ledger in memory, and the suites that claims and ledgers have to pass.
//
// Everything that takes time takes it from package time, so that it belongs in
// a testing/synctest bubble. Nothing here starts a goroutine that could outlive
// the call that started it; what happens later is done by timers, which do
// nothing any more once the bubble is over.
//
// The register's own time, Notion's, is that of package time. A daemon's clock
// may be wrong: see Store.SetSkew.
package claimtest
