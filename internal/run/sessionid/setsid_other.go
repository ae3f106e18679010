//go:build !linux && !darwin

package sessionid

// sessionLeader is not known on this system.
func sessionLeader() (string, bool) { return "", false }
