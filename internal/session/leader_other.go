//go:build !linux && !darwin

package session

// leader is not known on this system.
func leader() (string, bool) { return "", false }
