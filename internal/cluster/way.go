package cluster

import (
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

// Network is how members reach each other.
type Network interface {
	Listen(ctx context.Context, address string) (net.Listener, error)
	Dial(ctx context.Context, address string) (net.Conn, error)
}

// tcp is the machine's network.
type tcp struct{}

func (tcp) Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cluster.listen: %w: name an address of this machine, such as :7331", err)
	}
	return l, nil
}

func (tcp) Dial(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{
		// A machine that is gone says nothing, so probe it.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
		Control:         giveUp,
	}
	return d.DialContext(ctx, "tcp", address)
}

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
