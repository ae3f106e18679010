package cluster

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
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
