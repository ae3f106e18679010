// Package mirror keeps the local copy of the tasks database, which answers questions
// about tasks without a request to Notion. It has the unfinished tasks, the recently
// finished ones, and the tasks that these depend on. It decides when to ask Notion for
// changes, and how long to wait for the answer.
//
// The mirror is a hint: queries lag, and a person may have edited a task since. So read the page of
// a task before acting on it. A query that fails changes nothing, and nothing is shown that is not
// stored.
//
// When Notion is asked is decided in sync.go; package webhook says which pages an event is about.
package mirror
