package cluster

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"dibs/internal/kit/safefile"
	"dibs/internal/kit/selfsigned"
)

// Card is what a member publishes about itself in the database.
type Card struct {
	// Address is where it listens for other members, as host:port.
	Address string `json:"address"`
	// Certificate is its certificate, as a server and as a client, in DER form.
	Certificate []byte `json:"certificate"`
	// Agents are the agent names that its users may use; none means any.
	Agents []Name `json:"agents,omitempty"`
	// Databases are the ids of its log databases, by their keys in the configuration.
	Databases map[string]string `json:"databases,omitempty"`
	// Schema is the number of the journal's schema that its program makes; 0 for 1, which did not say.
	Schema int `json:"schema,omitempty"`
}

// DatabasesError says that a member has other databases than the others.
type DatabasesError struct{ Key, Here, Member, There string }

func (e *DatabasesError) Error() string {
	return fmt.Sprintf("%s is %s here and %s at %s: give all members the same, and start this one again", e.Key, e.Here, e.There, e.Member)
}

// differs returns an error if a member that publishes c has other databases than ours.
func (c Card) differs(name string, ours map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(ours)) {
		if there, known := c.Databases[key]; known && there != ours[key] {
			return &DatabasesError{key, ours[key], name, there}
		}
	}
	return nil
}

// Name is an agent's name or a pattern of names, and the users of the member's machine who may use
// it; no users means all.
type Name struct {
	Name string `json:"name"`
	UIDs []int  `json:"uids,omitempty"`
}

// Peer is a member as the others see it. Its times are by the database's clock.
type Peer struct {
	Name string
	Card
	Seen time.Time
}

// shows reports whether c is the certificate that the member has published.
func (p Peer) shows(c *x509.Certificate) bool {
	return len(p.Certificate) > 0 && bytes.Equal(p.Certificate, c.Raw)
}

// readCard reads what a member has published; a card that cannot be read counts as empty.
func readCard(body []byte) (c Card) {
	if json.Unmarshal(body, &c) != nil {
		return Card{}
	}
	return c
}

// AddressIn returns the address that a member has published.
func AddressIn(body []byte) string { return readCard(body).Address }

// keyFile is the name of the file with a member's key and certificate, in the state directory.
const keyFile = "member.pem"

// keyOf returns the key and certificate of the member with this state directory. It creates them on
// first use. Members trust the certificates in the database, so another one there revokes it.
func keyOf(dir string) (tls.Certificate, error) {
	return loadKey(dir, write)
}

// loadKey is keyOf with a function that stores a new key.
func loadKey(dir string, keep func(path string, key []byte) error) (tls.Certificate, error) {
	path := filepath.Join(dir, keyFile)
	pair, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		if pair, err = selfsigned.New(); err == nil {
			err = keep(path, pair)
		}
	}
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("the key of this member: %w", err)
	}
	made, err := tls.X509KeyPair(pair, pair)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("the key of this member: %s: %w: remove the file, and another one is made", path, err)
	}
	return made, nil
}

func read(path string) ([]byte, error) {
	f, err := safefile.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// write writes a file atomically.
func write(path string, data []byte) error {
	f, err := safefile.Open(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
