// Package reserve manages reservations: leases on files, by pattern, and on other things, by name,
// that only one agent should touch, or only agents that share it.
//
// A pattern is written as in a .gitignore ([Glob]) at the top of a place. A place is a repository,
// or all files of this machine, or the names of things that are not files. One file can be in two
// places: its path in its repository is the same in every worktree, and its absolute path is what
// patterns from outside the repository match. So a pattern or a path has a [Spot] for each place. If
// two have spots that meet in one place, they are about the same thing. Package place finds the
// spots.
//
// Names, and files in repositories cloned from the same origin, are the same on all machines. In a
// cluster, other files belong to the member's machine.
//
// A [Book] has the reservations, in memory. A change is in its storage before it is answered. A
// reservation ends with its time, its claim or its process, whichever comes first. A request gets
// everything that it asks for, or nothing.
package reserve
