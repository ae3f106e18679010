package member

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// Errors of Try.
var (
	// ErrNoAddress: the member has published no address at which it could be called.
	ErrNoAddress = errors.New("it has published no address")
	// ErrNoKey: what this member would show of itself cannot be read.
	ErrNoKey = errors.New("this member cannot show who it is")
)

// Try calls a member, by what it has published, as the one with this state directory does, and
// hangs up; own is set, and nobody is called, if that is the same one. Nothing is kept: a
// directory without a key gets none. The error is ErrNoAddress, ErrNoKey, or of the call.
func Try(ctx context.Context, dir, name string, body []byte) (own bool, err error) {
	key, err := loadKey(dir, func(string, []byte) error { return nil })
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrNoKey, err)
	}
	p := Peer{Name: name, Card: readCard(body)}
	if bytes.Equal(key.Certificate[0], p.Certificate) {
		return true, nil
	}
	if p.Address == "" {
		return false, ErrNoAddress
	}
	conn, err := (&Member{key: key, network: tcp{}}).Dial(ctx, p)
	if err != nil {
		return false, err
	}
	return false, conn.Close()
}
