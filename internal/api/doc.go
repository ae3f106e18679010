// Package api defines the daemon's API: the JSON of requests and answers, and the codes of refusals
// with the HTTP status and the exit code of each. Package server translates the broker into it;
// package client speaks it. One table lists the operations (operation.go). It is a contract: add
// to it, and change nothing in it.
package api
