package member

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"time"
)

// Card is what a member tells the others of itself, in the database.
type Card struct {
	// Address is where it listens for them, as host:port.
	Address string `json:"address"`
	// Certificate is what it shows there, and where it calls, in DER form.
	Certificate []byte `json:"certificate"`
	// Agents are the names that its users may go by; none means any.
	Agents []Name `json:"agents,omitempty"`
}

// Name is a name, or a pattern, of agents, and the users of the member's machine who may go
// by it; none means all of them.
type Name struct {
	Name string `json:"name"`
	UIDs []int  `json:"uids,omitempty"`
}

// Peer is a member as the others know it. Its times are the database's.
type Peer struct {
	Name string
	Card
	Seen time.Time
}

// shows reports whether a certificate is the one that the member has published.
func (p Peer) shows(c *x509.Certificate) bool {
	return len(p.Certificate) > 0 && bytes.Equal(p.Certificate, c.Raw)
}

// readCard reads what a member has published. One that cannot be read says nothing.
func readCard(body []byte) (c Card) {
	if json.Unmarshal(body, &c) != nil {
		return Card{}
	}
	return c
}

// AddressIn returns the address that a member has published.
func AddressIn(body []byte) string { return readCard(body).Address }
