// Package claimtest holds the suites that claims and ledgers have to pass: the
// conformance suite of ledgers, every schedule of a few attempts, and random
// races with a referee. What they run in is the simulated world of claimsim.
package claimtest
