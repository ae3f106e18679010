// Package simulate runs many races for a task in virtual time and counts what goes wrong, so that
// people can choose their settle wait and write window, and can compare the protocol with claiming
// by hand.
//
// # What runs
//
// In a race a few claimers try to claim the same open task at nearly the same time. The claimers of
// dibs are the real ones, claim.Claimer, each in its own daemon with a daemon's sync loop, because
// agents of one daemon never race in Notion. The claimers by hand are a few lines each. All of them
// use a sim.Register, where the last writer of a property wins. The latency of requests is
// drawn from a Profile. Some claim writes land late: the connection breaks, and the write takes
// effect up to half a minute afterwards. After the race the daemons continue for some minutes, so
// that late writes land and are handled.
//
// Rate limits, outages, wrong clocks and crashing agents are left out: the tests of package claim
// have them.
//
// # Virtual time
//
// The claimer uses package time, and should: a race scaled down to the real clock would measure
// this machine's scheduler, and a second implementation of the protocol on an event scheduler would
// prove nothing about the first. So each race runs in a bubble of testing/synctest, where time
// passes only while everybody waits (see inVirtualTime). A race of minutes takes less than a
// millisecond.
//
// # Seeds
//
// The seed decides the number of claimers of each race, when they start, every latency, and which
// writes come late, in which order; tasks, names and tokens have no influence. The same options
// therefore give the same report, however many races run at a time. The order in which goroutines
// run does not matter, because two things almost never happen in the same nanosecond. Another kind
// of processor may round the logarithm of a latency differently, which may change one outcome in a
// great many races. The nth race draws the same numbers for every protocol and every settle wait,
// so that rows can be compared.
package simulate
