// Package mailbox is the inbox of a cluster: an agent may poll, acknowledge and be written to
// at any member, and gets each trigger once.
//
// # Where a trigger is
//
// What a member records for agents (a lost claim, an offer, a message, a comment, a task that
// it completed) is stored in its own journal, with what it belongs to, and owed to etcd from
// then on: Push puts it there if it is not there yet, by its id, and by its key where others
// may come upon the same thing. So nothing is lost while etcd is away or the member is killed,
// and nothing is there twice. What is put is remembered for as long as events are kept, also
// once it is acknowledged.
//
// What people do on the board every member sees, each in steps of its own. So the one member
// that leads tells of it, see TellBoard: by comparing the board with what was told of each task
// last, which is in etcd and changed in the transaction that puts the triggers.
//
// # Who has it
//
// A poll takes triggers in one transaction: nobody has them, and now it does. Each take is a
// lease of etcd's, which ends with the visibility: then, or when the member ends it because the
// process that polled is gone, they are there for the next poll. Where a process was named, the
// lease is short, and the member prolongs it while the process lives: so they come back when
// the member is gone as well.
//
// # Who hears of it
//
// Each member watches what there is to be taken. While it does, it answers from memory what is
// waiting for an agent, and wakes who polls there.
//
// # Without etcd
//
// Nothing is handed out: whoever polls is told that it is not known what there is. What is sent
// or acknowledged is stored, and passed on later.
package mailbox
