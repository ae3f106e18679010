//go:build !linux

package server

import "syscall"

// restrict has nothing to do before the socket is bound: only a path has a mode.
func restrict(syscall.RawConn) error { return nil }
