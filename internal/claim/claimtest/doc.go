// Package claimtest holds the suites that claims and ledgers must pass: the conformance suite
// of ledgers, every schedule of a few attempts, and random races with a referee. They run in
// the simulated world of claimsim.
package claimtest
