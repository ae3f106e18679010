// Package testkit gives tests what they need of the machine: whether the race detector is on,
// another user, and disks.
//
// Under the race detector tests take up to ten times as long. It finds nothing in single-threaded
// tests, such as decoding a large document, and no more in a thousand variants than in ten. Such
// tests run without it, in go test ./...
package testkit
