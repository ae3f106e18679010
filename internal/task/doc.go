// Package task has the nouns of every other package: a task, its status and
// priority, agent names, and the order of ready tasks. It does no I/O and
// imports only the standard library.
package task
