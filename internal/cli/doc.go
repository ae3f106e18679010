// Package cli is the command line, one file for each noun. Commands print their answer on stdout and
// everything else on stderr, and use the exit codes of package api.
//
// A command is an options struct that adds its flags, and a function that runs it: syncCommand in
// daemon.go is a short one. root.go lists them all, failure.go turns errors into exit codes, list.go
// prints whatever is a list.
package cli
