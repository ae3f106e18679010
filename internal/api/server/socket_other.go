//go:build !linux && !darwin

package server

import "syscall"

func credentials(int) peer { return unknownPeer }

// restrict has nothing to do before the socket is bound: only a path has a mode.
func restrict(syscall.RawConn) error { return nil }
