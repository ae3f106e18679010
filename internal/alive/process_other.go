//go:build !linux && !darwin

package alive

import "errors"

func processOf(int) (Process, error) {
	return Process{}, errors.New("processes cannot be watched on this system: renew the claim, or keep a connection open")
}
