package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// dialing is how long connecting to a member may take.
const dialing = 2 * time.Second

// Listen listens for the other members at an address, such as :7331; empty for a free port on the
// interface to the database. It publishes advertise as the address to call, or the address itself
// if that is empty. Whoever calls has to be let in by Secure.
func (m *Member) Listen(ctx context.Context, address, advertise string) (net.Listener, error) {
	own, err := m.database.LocalAddress(ctx)
	if err != nil {
		return nil, err
	}
	if address == "" {
		address = net.JoinHostPort(own, "0")
	}
	l, err := m.network.Listen(ctx, address)
	if err != nil {
		return nil, err
	}
	if advertise == "" {
		advertise = l.Addr().String()
		if at, err := netip.ParseAddrPort(advertise); err == nil && at.Addr().IsUnspecified() {
			advertise = net.JoinHostPort(own, fmt.Sprint(at.Port()))
		}
	}
	m.mu.Lock()
	m.address = advertise
	m.mu.Unlock()
	return l, nil
}

// Secure returns a listener for TLS on the connections of another, of which it accepts only those
// with a certificate that is in the database.
func (m *Member) Secure(l net.Listener) net.Listener {
	return tls.NewListener(l, m.tls(func(c *x509.Certificate) error {
		_, err := m.whose(c)
		return err
	}))
}

// Dial connects to a member, and makes sure that it is the one that answers.
func (m *Member) Dial(ctx context.Context, p Peer) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialing)
	defer cancel()
	conn, err := m.network.Dial(ctx, p.Address)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(conn, m.tls(func(c *x509.Certificate) error {
		if !p.shows(c) {
			return fmt.Errorf("what answers at %s is not %s: its certificate is not the one in the database", p.Address, p.Name)
		}
		return nil
	}))
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

// Caller returns the member at the other end of a connection that Listen accepted.
func (m *Member) Caller(c *tls.ConnectionState) (Peer, error) {
	if c == nil || len(c.PeerCertificates) == 0 {
		return Peer{}, errors.New("no member: it shows no certificate")
	}
	return m.whose(c.PeerCertificates[0])
}

// tls returns the configuration for connections between members. accept checks the other's
// certificate.
func (m *Member) tls(accept func(*x509.Certificate) error) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{m.key},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // certificates are self-signed: VerifyConnection checks them
		SessionTicketsDisabled: true, // so that it checks every time
		VerifyConnection: func(c tls.ConnectionState) error {
			if len(c.PeerCertificates) == 0 {
				return errors.New("the other side shows no certificate")
			}
			return accept(c.PeerCertificates[0])
		},
	}
}

// whose returns the member that has published a certificate. One that it does not know may be that
// of a new member. It then waits until Run has read the members again, twice because a reading may
// have begun before the new member was there. So strangers cost the database nothing.
func (m *Member) whose(c *x509.Certificate) (Peer, error) {
	giveUp := time.After(beat + 2*watch)
	for again := 2; ; again-- {
		p, known, read := m.find(c)
		if known {
			return p, nil
		}
		if again == 0 {
			return Peer{}, errors.New("no member has this certificate: those of members are in the database")
		}
		select {
		case <-read:
		case <-giveUp:
			return Peer{}, errors.New("the database cannot be asked whose certificate this is")
		}
	}
}

// find returns the member that has published a certificate, or false and a channel that is closed
// when the members were read again.
func (m *Member) find(c *x509.Certificate) (p Peer, known bool, read <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.peers {
		if p.shows(c) {
			return p, true, nil
		}
	}
	return Peer{}, false, m.read
}

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

// Errors of Try.
var (
	// ErrNoAddress: the member has published no address.
	ErrNoAddress = errors.New("it has published no address")
	// ErrNoKey: this member's own key cannot be read.
	ErrNoKey = errors.New("this member cannot show who it is")
)
