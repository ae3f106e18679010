//go:build !linux && !darwin

package session

// sessionLeader is not known on this system.
func sessionLeader() (string, bool) { return "", false }
