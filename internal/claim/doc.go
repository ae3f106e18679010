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
//   - a write takes effect before it is answered or given up, or not at all;
//   - a read of the page shows the last write that took effect before it;
//   - a holder gets through to Notion in time to repair its claim, should a late
//     one cover it (see below);
//   - Notion's dates are right, or wrong in single answers only, and the clocks here
//     do not stand still for less than two seconds within the write window (see below);
//   - the ledger keeps what was saved;
//   - there is a claim_token property, or agents of different daemons have different
//     names;
//   - no person and no other program takes a claim off its page.
//
// For suppose A's write landed at w, and A verified after w + settle. A rival
// that overwrites A later must have read before w, or it would have seen a live
// claim and skipped the task. So its write landed more than settle after its
// read, which is longer than the window, and the rival does not grant itself
// what it wrote outside the window. This is Fischer's timed mutual exclusion on
// a register where the last writer wins.
//
// A claim may be taken off its page by its own holder as long as it is live,
// since nobody else takes the task then: a request is given up before anybody may
// override the claim (Policy.Request), and lands before that or not at all.
// Once its lease is over somebody may be about to override it, and to free the
// task under a new holder would hand it to a third. So an agent that is done
// only then renews its claim first, and a sweep puts a void mark of its own on
// the page; either has to survive the settle wait, as a claim does.
//
// The write window is measured by both clocks of this machine, and by Notion's: if by
// the Dates of its answers more time passed between the read and the write than here,
// the clocks here stood still, and the claim is not granted. What stands still for less
// than two seconds, to which Dates do not tell, goes unnoticed.
//
// A name without a date is an assignment: the task is that agent's to claim, and its two
// sessions race for it like any others. It is told from a claim whose date somebody
// cleared by its token; without tokens, clearing the date takes the claim off its page. An
// attempt that comes to nothing puts back the name that it found. The token of a completed
// task says who completed it, so that another name on it, once it is opened again, is known
// for an assignment although the date is still there.
//
// Times are judged by Notion's clock, of which the Date header of each answer
// tells. A lease read from Notion, where a date keeps only its minute, counts
// as stale only after the whole minute, the lease, and an allowance have passed
// (Policy.StaleAt). A holder trusts its claim for less (Claim.ExpiresAt). What one
// answer alone says of the time, against all that was known before, is not believed
// (Reading.Unsure): the page is read a second time, and if that does not settle it, no
// lease counts as over, and none begins.
//
// # Reviews, reopening, and the last try
//
// Work that is put up for review is done as far as the protocol goes: the page keeps name
// and date, and the token says done, as on a completed task, so that it is no claim even
// once a person opens the task. Nobody claims it before that.
//
// A task that nobody can claim is opened again in two steps (Reopen). The name that is left
// on it is taken off under a mark that competes for the page as that of a sweep does, so
// that it can be told from a claim, and undone by a holder, should it land late. Then the
// status changes, in a write of nothing else: late, over a live claim, it is a person's
// gesture, under which the page still shows the claim, and nobody else takes the task. A
// page that shows a live claim which is not known to be over is left alone. So is one whose
// status is not the one that was seen (Reopening.Was): a person has decided since. Each
// reading of the page is compared, the last one right before the write.
//
// Policy.MaxAttempts ends what would go round for ever: a task whose work came to nothing
// that often (Try) is put to BLOCKED, in the write that would have opened it, or, where a
// stale claim was to be overridden, under the mark of a sweep in the place of the claim.
// The ledger counts what it is told of: failures reported here, and claims that were
// swept or overridden here, or here went stale before another daemon did that. It is
// decided when the agent says that it failed, or when the mark is made, and stays so.
//
// # Several daemons on one ledger
//
// Daemons that share a ledger are one claimer (Policy.Exclusive): one of them leads, and the
// ledger saves nothing of another. No step is sent to Notion before it is saved, and nothing
// is written to a page without a transaction since it was read. So who leads no more begins
// nothing; what it had on its way is a late write, as after a crash. The next leader does what
// every start does: Recover.
//
// # Late claims
//
// A claim write that was answered too late, or landed after its sender gave up
// on it, may cover a verified claim. It is told from a person's edit by its
// token. Whoever wrote it withdraws it in two steps: it marks the claim void,
// waits a grace that is longer than the interval at which holders look at their
// claims, and only if the mark is still there reopens the task. A holder that
// finds its live claim covered by a void one writes its own back; covered by
// another token of our form, it waits the grace before it believes the claim
// lost.
//
// This keeps the task with its holder if the holder gets through to Notion
// within the grace, and if the late claim's own lease is not over by then. A holder
// looks at the rows of a query first, and at the page only if they differ from its claim:
// a query that is behind by as much as the grace keeps it from knowing. Else somebody else may be granted the task while the holder still trusts its
// claim, until it is told.
//
// # People's gestures
//
// What people change on the page of a held claim ends it, and the change stands. Parts of
// the claim stay on the page, though, which to everybody else are a live claim. The daemon
// that held it takes them off: name, date and token if the task was set to OPEN, so that
// it can be claimed, date and token if another name was put on it, so that it is that
// person's. So it does with a claim that comes back on its page after it was over (Tidy),
// and with the copy of a claim on another page.
//
// It does so only where the same visit read a live lease of that claim, under which nobody
// takes the task, and a write that is sent then lands before anybody may, or not at all; or
// where somebody cleared the date of the claim, and the task is refused to everybody.
// Once the lease is over the task is overridden or swept like any other. A claim that comes
// back on its own page may have come by a late write, over a claim that lives: it is marked
// void, and taken off after the grace, as above. To put back a lease length on a task that
// is nobody's there is no such lease, so a mark competes for the task first (Repay).
//
// # What is not guaranteed
//
// No gesture can be saved from a claim that is being made: an edit between the reading of
// the page and the claim write is overwritten, as far as it concerns the status, the name,
// the date and the token. Notion has no conditional write. How long that is, Config.Wrote
// is told; nothing waits in between but the two requests and one write to the ledger.
// The same holds for every other write, such as a finish, as far as it concerns what that
// write sets: a person's edit is overwritten if it lands after the read was served on which
// the write rests, and before the write is applied. Before and after that it stays.
//
// People and programs that do not follow the protocol write what they like, and
// any other write than a claim that lands after its sender gave up on it (a
// release, a completion, the last step of a withdrawal or of a sweep) looks like
// theirs. Such a write may free a task that somebody holds, or undo what was
// done since; so may the withdrawal of a late claim that landed on a task
// finished meanwhile. Neither can be prevented. They are found afterwards: Guard
// compares the claims held here with their pages, and a claim that somebody else
// ended is reported lost. Everything an agent does with a claim names the
// claim's id, is checked against the page first, and is refused when the claim
// is over; what passed that check and lands late is not checked again.
//
// Without a claim_token property claims are told apart by name and minute, so
// that agents of different daemons must not share names, and a late write may
// go unnoticed. What is left of claims is taken off only from a page that was set to OPEN.
//
// # What the model has been through
//
// Package claimtest runs this code in the simulated world of package claimsim. Its
// explorer walks every order of a few attempts. Its races have writes that land late, or
// slowly but within Policy.Request, requests that fail one after the other, queries that
// are behind, wrong and missing Dates, clocks that jump or stand still, processes that are
// stopped or killed, ledgers that fail to save, write windows that differ, agents that
// pick from a mirror or repeat a request under a key, people who change whatever they
// like, and claims that are renewed, finished, swept and taken over at the same moment,
// when their lease ends. What is beyond the provisos happens in races of its own, which
// have to come to a good end: any write that lands late, requests that take longer than
// the policy says, and leases of which daemons disagree. The tests take the parts of the
// protocol out one by one, and each has to be missed.
//
// # The life of a claim
//
//	Claim ─→ reserved ─→ writing ─→ held ─→ finishing ─→ ended
//	             │          │         └──────────┴─────→ ended (lost, overridden, swept)
//	             └─→ ended  ├─→ ended (denied)
//	                        ├─→ unseen ─→ ended (after a day)
//	                        │     ↑ ↓
//	                        └─→ abandoned ─→ voided ─→ clearing ─→ ended (withdrawn)
//	                                ↑  └────────┴──────────┴─────→ ended (overtaken)
//	Sweep ──────────────────────────┼─→ voided ─→ clearing ─→ ended (swept)
//	Tidy ───────────────────────────┴─→ voided ─→ clearing ─→ ended (cleared)
//	Repay: lost ─→ unseen ─→ abandoned, as a sweep ─→ clearing ─→ ended (cleared)
//
// An attempt reserves its task, writes, and is held once it is verified. One that is
// given up after its write was sent is abandoned if the write is on the page, or may
// be, and unseen if a reading did not show it; a reading that shows it later, the
// mirror's included, makes it abandoned. An abandoned claim is marked void on its
// page, and after the grace taken off it; one that is not on its page any more when
// it is to be marked is unseen again. A claim that somebody overtook on the way, or
// whose lease ended, is left alone. An attempt in the middle of which a person cancelled
// or finished the task goes from writing to clearing.
//
// A sweep enters as abandoned, with the mark that it writes: if it is cut short, the
// same steps take its mark off the page, and the task is reopened all the same. While
// it is under way it goes on to voided by itself, as soon as the mark has settled. Before
// its last step it looks again, and leaves alone what people have changed.
//
// Tidy marks a claim that is over and shows on its page all the same, and is withdrawn
// like an abandoned one. Repay has a lease length put back that a lost claim left on its
// task: what is owed waits as unseen, for a day at most, until the task is nobody's, and
// competes for it like a sweep.
//
// Every state but held is left in steps that RunDue takes when they are due. A claim
// is in memory from its reservation to its end, as the ledger has it; the ledger is
// written first.
//
// # Visits
//
// Whatever is done to a page, by an attempt, a renewal, a guard, a finish, a
// withdrawal, a sweep or a gesture's aftermath, is one visit: permits for two requests, a read, a decision,
// and at most one write within the write window of the read. What became of the write
// is that it was seen in its answer, that it did not land, or that nobody knows. The
// permits that were not used are given back.
//
// # Failures
//
// A write whose fate is unknown is never repeated and never believed: the page
// is read, and the token tells. Every step that matters is in the ledger before
// its request is sent, so that after a crash Recover and RunDue pick up what is
// owed: a claim that was written but not granted is withdrawn, a finish that
// was accepted is delivered.
//
// # Taking over
//
// Another daemon may lead the ledger on: Recover does what it does after a crash. Each
// transaction asserts the epoch of its leader, and nothing is sent to a page unless a
// transaction succeeded since the page was read. So a leader that was deposed begins nothing,
// grants nothing, and is told so by its ledger. What it had sent may still arrive, for as long
// as Policy.Request says: a step that frees a task, of which the ledger says that it may have
// been sent, is repeated only after that. A leader whose clocks stood still, or that stood still between the last
// look at them and the sending, sends later than that: such a write is a late one, see above.
package claim
