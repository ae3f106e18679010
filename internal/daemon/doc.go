// Package daemon assembles the parts and runs them: the journal, the Notion client, the claim
// protocol, the mirror, the logs, the schedule and the socket API. It wires and wakes, and decides
// nothing about claims. One daemon has a state directory and a socket to itself.
//
// A Daemon is a process that leads or stands by; everything built on the journal is its leader, which
// lasts one term (term.go). Which part stands behind which interface, and in which order they are
// made, is in wiring.go, what they do again and again in loops.go. No part lives longer than its
// term: a daemon that leads again builds all of them anew.
package daemon
