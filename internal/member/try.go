package member

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// Try calls a member, by what it has published, as the one with this state directory does, and
// hangs up; own is set, and nobody is called, if that is the same one. Nothing is kept: a
// directory without a key gets none.
func Try(ctx context.Context, dir, name string, body []byte) (own bool, err error) {
	p := Peer{Name: name, Card: readCard(body)}
	if p.Address == "" {
		return false, errors.New("it has published no address")
	}
	kept, err := read(filepath.Join(dir, keyFile))
	if errors.Is(err, fs.ErrNotExist) {
		kept, err = newKey()
	}
	if err != nil {
		return false, fmt.Errorf("the key of this member: %w", err)
	}
	key, err := tls.X509KeyPair(kept, kept)
	if err != nil {
		return false, fmt.Errorf("the key of this member: %w", err)
	}
	if bytes.Equal(key.Certificate[0], p.Certificate) {
		return true, nil
	}
	conn, err := (&Member{key: key, network: tcp{}}).Dial(ctx, p)
	if err != nil {
		return false, err
	}
	return false, conn.Close()
}
