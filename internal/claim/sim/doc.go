// Package sim is a simulated world for the claim protocol: a register of tasks, slow and
// faulty requests to it, daemons that claim with the real claimer, and a ledger in memory. The
// tests of the protocol (see claimtest) and the simulation that people can run share it.
//
// Everything that takes time takes it from package time, so it belongs in a testing/synctest
// bubble. Nothing here starts a goroutine that outlives the call that started it. Timers do
// what happens later, and do nothing once the bubble is over.
//
// The register's own time, Notion's, is that of package time. A daemon's clock may be wrong:
// see Store.SetSkew.
package sim
