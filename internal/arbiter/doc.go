// Package arbiter lets the daemons of several machines work as one: what decides between them
// is etcd, whose transactions are linearizable, whose keys can be bound to leases, and whose
// revision only grows.
//
// # Rows
//
// A Table has one row for each task that somebody has. Etcd is such a table; package
// arbitersim has one in memory. A Ledger puts a table behind a member's own ledger: its
// Reserve lets the member's own ledger decide first, so that agents of one daemon do not race
// in etcd, and then one transaction between the members: no row there, and this one is put. A
// row is bound to a lease of etcd's, and gone by itself when that ends. It lasts for the time
// of an attempt at first, and once the claim is held until others may override it; each
// renewal puts it anew. The revision at which a row was put first is its fence, which stays
// the same when it is put anew.
//
// Before the page of a task is written to in a way that competes with others (a claim, a
// renewal, a finish, the mark of a sweep) Hold makes sure that the row is there, with the
// same fence, and will be for longer than that write can be on its way (claim.Policy.Stay).
// So no two members write at the same time, and no settle wait is needed. A row that was gone
// by itself is put again if nobody else has the task: what then decides is the page.
//
// The page is read before each write, as ever, and respected: what people, or a daemon outside
// of the cluster, have written there. So two things keep a held task from others, its row and
// its page. While a rival is between its read of the page and its write, the page does not
// show it yet: then fences alone decide. A claim whose member stood still meanwhile can neither
// put the rival's row anew nor take it off, since that has another fence; if it could, a third
// member would be granted the task.
//
// # What it rests on
//
//   - Etcd's transactions are what etcd says that they are, and its leases do not end early. A
//     lease is counted here from before it was asked for, by the clocks that go on while this
//     machine is suspended, and by no clock's idea of what time it is.
//   - Members have the same settings, and no daemon outside of the cluster claims on the board.
//     One that does is told by what it logs (claim.Settings.Cluster), its claims are
//     respected; but both may be granted a task for which they come within a write window.
//   - Etcd goes on where it was. One that was emptied or restored says that tasks are free
//     which somebody has; so each transaction has the condition that a marker is there which
//     was put once, and what this member wrote last (its trace), and each answer must have
//     etcd's own id, and no revision lower than one that was seen. What does not is refused
//     until somebody adopts it, and the marker is changed, so that the others refuse it too.
//     What a member wrote in the five seconds before it was killed it may have forgotten,
//     unless that was a grant. A trace ends 90 days after its member was there last: one that
//     comes back then, by its machine's clock, has nothing to go by but etcd's id and revision.
//   - A write to a page that was sent in time arrives within claim.Policy.Request. What arrives
//     later is a late claim, and package claim says what becomes of it.
//
// # Budget
//
// A Budget is a member's part of the requests that all may send to Notion in a minute. It
// rests on the same: slots that are rows of their own, a lease, and clocks that count the time
// for which the machine is suspended. A process that is stopped between its last look at the
// clock and the sending of a request sends that one when it goes on.
//
// # What else is shared
//
// A Request is what all remember of one with an idempotency key, for a day: who has begun it,
// and its answer. It is put only in place of what was seen, so whoever goes on with the
// request of a member that seems to be gone takes it from that one; Take has as a condition
// that the request of its claim is still this member's. What may be gone on with, and by whom,
// is for those to say who know what was asked (package daemon).
//
// A Shelf has small things that all see, such as reservations: one is put only if nobody else
// has put one since all were looked at. A name is put only if it is not there; the names of a
// run are bound to one lease.
//
// # Leading
//
// An Election has one of the members lead: it reads the board for all, sweeps, and runs what is
// on a schedule. A term is bound to a lease, which the leader takes to be over sooner than it
// is, by clocks that count the time for which the machine is suspended. What it passes on
// (Wire) has its term as a condition, so that nobody hears of two leaders. A term says who is to
// do what is done once: it is no exclusion. What must not be done twice, such as sweeping a
// task, is decided by rows.
//
// Holders is what members know of each other's rows without asking.
//
// # Failure
//
// While etcd cannot be used nothing new is granted. What is held goes on until its lease ends,
// since its page still says so; renewals and finishes wait, as they do for Notion. What etcd
// could not be told Upkeep tells it later. A row of a claim that is over, left by a member that
// was killed, is taken off at its next start, or ends by itself.
package arbiter
