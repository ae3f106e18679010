//go:build !linux

package server

import "syscall"

// restrict does nothing: here only the path of a bound socket has a mode.
func restrict(syscall.RawConn) error { return nil }
