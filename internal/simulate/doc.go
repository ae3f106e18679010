// Package simulate runs races for a task in virtual time, many of them, and
// counts what goes wrong, so that people can choose their settle wait and write
// window, and see how the protocol fares beside ways of claiming by hand.
//
// # What runs
//
// A race is a few claimers that go for the same open task at nearly the same
// time. The claimers of dibs are the real thing, claim.Claimer, each in a daemon
// of its own with the sync loop of a daemon, because agents of one daemon never
// race in Notion. The claimers by hand are a few lines each. All of them work on
// a claimsim.Register, where the last writer of a property wins, through
// requests whose latency is drawn from a Profile and some of whose claim writes
// land late: the connection breaks, and the write takes effect up to half a
// minute afterwards. After the race the daemons go on for some minutes, so that
// late writes land and are dealt with.
//
// What is left out: rate limits, outages, clocks that are wrong, agents that
// crash. The tests of package claim have those.
//
// # Virtual time
//
// The claimer reads package time, and is to go on doing so: a race scaled down
// to run on the real clock would measure this machine's scheduler, and a second
// implementation of the protocol on a scheduler of events would prove nothing
// about the first. So each race runs in a bubble of testing/synctest, where time
// passes only while everybody waits (see inVirtualTime). A race of minutes takes
// less than a millisecond.
//
// # Seeds
//
// The seed decides the number of claimers of each race, when they start, every
// latency, and which writes come late, in which order; tasks, names and tokens
// play no part. The same options therefore give the same report, however many
// races run at a time. The order in which goroutines run does not matter, as
// nothing happens at the same nanosecond but by a rare chance. Another kind of
// processor may round the logarithm of a latency differently, and with it, in a
// great many races, the outcome of one. The nth race draws the same numbers for
// every protocol and every settle wait, so that rows can be compared.
package simulate
