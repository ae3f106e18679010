// Package door holds the ways in: the server on the daemon's socket, the bridge of the Model
// Context Protocol, the board in a browser, and the hooks of clients and of git.
//
// A door decides nothing about tasks. It finds out who calls, translates between its own form and
// package api, and leaves the answer to the broker, which also decides who may use a name
// (broker.Broker.Authorize). So the same request has the same answer at every door.
package door
