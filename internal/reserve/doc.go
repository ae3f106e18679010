// Package reserve knows what is reserved: files by pattern, and other things by name,
// that only one agent should touch, or only those that share it.
//
// A pattern is one of a .gitignore ([Glob]), as it would be at the top of a place. A place
// is a repository, or all files of this machine, or the names of things that are no
// files. One file can be known in two places: its path in its repository is the same in
// every worktree, and its absolute path is what patterns from outside of the repository
// see. So a pattern, and a path, comes with a [Spot] for each of them; two that meet in
// one are about the same thing. Package place, below this one, finds them.
//
// In a cluster, what is reserved at one member is in the way at all of them: names, and files
// of repositories that were cloned from the same place. Other files are those of the machine
// of the member.
//
// Who has what is in a [Book], in memory, and in its storage before anybody is told.
// A reservation ends with its time, its claim or its process, whichever is first. All that
// is decided about a request is decided at once: it gets all that it asks for, or nothing.
package reserve
