// Package relay has one of several daemons read the board for all: the one that leads passes
// on what its syncs find out, and the mirrors of the others take it over.
//
// What is passed on is a series of publications, one for each sync, each with what is new or
// different since those before it (arbiter.Wire). So who has read the board once, and applies
// all publications from a position on that was taken before, knows what the leader knows. It
// is seen to that none is missed:
//
//   - The wire tells if what came after a position is not kept any more.
//   - The first publication of a term says from when on its leader has read what was edited.
//     It begins where the term before left off, as far as it is known.
//   - A publication that was made by another version of this package, or by a daemon with other
//     settings for reading, is not applied: this daemon then reads for itself.
//
// Who missed something asks Notion once for what was edited since its last sync, or since the
// last publication that it applied.
//
// What a daemon has read itself, the pages of its own claims above all, counts for more than
// a publication of about the same time; see mirror.Mirror.Take. Publications are hints, as
// everything that mirrors have: whoever acts on a task reads its page first.
//
// While nobody leads nobody reads, but for who has not read the board at all yet.
package relay
