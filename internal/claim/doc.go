// Package claim is the protocol by which agents claim tasks on a store that
// offers neither transactions nor conditional writes. It does no I/O of its
// own: the task pages are behind Store, the durable record behind Ledger.
//
// # An attempt
//
// An attempt reserves the task in the ledger, so that agents of one daemon
// never race in Notion. It reads the page and decides (Decide), writes name,
// time, token and status in one request that must be answered within the write
// window of the read, waits for the settle time, reads again, and is granted
// only if all it wrote is still there.
//
// # What is guaranteed
//
// Two agents never hold one task at the same time, provided that
//
//   - every claimer follows this protocol with the same settings, and its
//     settle time is longer than its write window, or there is only one claimer
//     (Policy.Exclusive), which the ledger's reservations keep from racing itself;
//   - a claim write takes effect before it is answered or given up, or not at all, and any other
//     write within a minute of its sending;
//   - a read of the page shows the last write that took effect before it;
//   - a holder gets through to Notion within the grace to repair its claim, should
//     a late one cover it (see Late claims);
//   - Notion's dates are right, or wrong in single answers only, and the clocks here
//     do not stand still for less than two seconds within the write window;
//   - the ledger keeps what was saved;
//   - no person and no other program takes a claim off its page.
//
// For suppose A's write landed at w, and A verified after w + settle. A rival
// that overwrites A later must have read before w, or it would have seen a live
// claim and skipped the task. So its write landed more than settle after its
// read, which is longer than the window, and the rival does not grant itself
// what it wrote outside the window. This is Fischer's timed mutual exclusion on
// a register where the last writer wins.
//
// A claim may be taken off its page by its own holder as long as it is live for longer
// than the write may be on its way (arrival), since nobody else takes the task then.
// Later somebody may be about to override it, and to free the
// task under a new holder would hand it to a third. So an agent that is done
// only then renews its claim first, and a sweep puts a void mark of its own on
// the page; either has to survive the settle wait, as a claim does.
//
// A write that frees the task and was never answered is not repeated before it must have
// arrived, unless the page shows it. Until then its record, a finishing hold or a clearing
// mark, is not over, and nothing is granted here. After a start every such record counts as
// just sent.
//
// The lease is the page's. That an agent asked for its claim to be kept for another time
// (Lease.KeptUntil) concerns nobody else: until then the lease is renewed, and then the claim is given
// back, somewhat later than its holder trusts it and by a time that Notion told.
//
// Both clocks of this machine and Notion's measure the write window: if the Dates of
// its answers are further apart than the clocks here say, these stood still, and the
// claim is not granted. Dates do not show what is shorter than two seconds. Notion's
// clock also judges leases (Policy.StaleAt), and a holder trusts its claim for less
// (Lease.ExpiresAt). A time that one answer alone tells is not believed (Reading.Unsure).
//
// # Late claims
//
// A claim write that was answered too late, or landed after its sender gave up
// on it, may cover a verified claim. Its token tells it from a person's edit. Whoever
// wrote it withdraws it in two steps: it makes the claim void, waits a grace that is
// longer than the interval at which holders look at their claims, and only if the void
// token is still there reopens the task. A holder that finds its live claim covered by
// a void one writes its own back; covered by another token of our form, it waits the
// grace before it believes the claim lost.
//
// This keeps the task with its holder if the holder gets through within the grace, and
// if the late claim's own lease is not over by then. A holder looks at the rows of a
// query first: one that is behind by the grace keeps it from knowing. Otherwise somebody
// else may be granted the task while the holder still trusts its claim, until it is told.
//
// A person may set a task to another status, and a late claim may land just before a daemon takes a
// name off it. Then the task is IN_PROGRESS without a name, and only a person can open it.
//
// # What is not guaranteed
//
// An edit between the reading of a page and the write that rests on it is overwritten,
// as far as that write sets the same properties: Notion has no conditional write.
// Watcher.Wrote is told how long that takes. Edits before and after that stay.
//
// A claim may come between as well. If two daemons reopen a task at the same time, the second may
// set it to OPEN under a claim that was made since the first did. That ends the claim, as a
// person's gesture would. If a person has cleared the date of that claim too, the task counts as
// assigned to its name, and another agent of that name may be granted it before the holder is told.
//
// People and programs that do not follow the protocol write what they like, and any
// other write than a claim that lands after its sender gave up on it looks like theirs:
// it may block or complete a task that somebody holds. Guard finds that
// afterwards, and reports the claim lost. Whatever an agent does with a claim names the
// claim's id, is checked against the page first, and is refused when the claim is over;
// what passed that check and lands late is not checked again.
//
// # Holds and marks
//
// A Hold is an agent's claim, and keeps its task from reservation to end:
//
//	reserved ─→ writing ─→ held ─→ finishing ─→ ended
//
// A Mark is what the daemon itself has on a page: the claim of an attempt that was given
// up, or a void token put in the place of what a sweep, a reopening or a tidying takes off.
// No agent holds it:
//
//	unseen ⇄ abandoned ⇄ voided ─→ clearing ─→ ended
//
// It may begin in any of the first four states, and ends in any of them once the page is
// somebody else's.
//
// Whatever is done to a page is one visit: permits for two requests, a read, a decision,
// and at most one write within the write window of the read. An attempt decides by Decide;
// everything else by the page of cases (Protocol), which says for a record and a page what
// is stored, written, and stored then. One loop takes such a step. The ledger is written
// first, so that Recover and RunDue pick up after a crash what is owed: a write whose fate
// is unknown is never repeated and never believed, the page is read and the token tells.
//
// # Several daemons on one ledger
//
// Daemons that share a ledger are one claimer (Policy.Exclusive): one leads, and the ledger
// saves nothing of another. Nothing is sent to a page without a transaction since it was
// read, so a former leader begins nothing; what it had on its way is a late write, as after
// a crash. The next leader does what every start does: Recover.
//
// # Where it is decided
//
// What becomes of a page that an agent wants, Decide (decide.go); when a lease is over, Policy.Stale
// (lease.go); what is done with a claim in every situation, Protocol (cases.go), with what a claim left
// on a page, markcases.go, and with a task that nobody holds, opencases.go.
//
// spec/claim.pml is a model of attempts, late claims and the guard for the model checker spin, and the
// tests there compare this package with it.
package claim
