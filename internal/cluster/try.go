package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// Errors of Try.
var (
	// ErrNoAddress: the member has published no address.
	ErrNoAddress = errors.New("it has published no address")
	// ErrNoKey: this member's own key cannot be read.
	ErrNoKey = errors.New("this member cannot show who it is")
)

// Try connects to a member at its published address, with the key in this state directory, and hangs
// up. If the key is that member's own, it returns own and does not connect. It stores nothing: a
// directory without a key stays without one. The error is ErrNoAddress, ErrNoKey, or the
// connection's.
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
