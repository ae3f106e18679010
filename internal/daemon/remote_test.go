package daemon_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/kit/selfsigned"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"
)

// from returns a client on another machine, which trusts the certificate of the token alone.
func (n *node) from(token string) *client.Client {
	known, _ := api.ParseAccessToken(token)
	address := strings.TrimPrefix(n.daemon.RemoteURL(), "https://")
	c := client.Over(address, func(ctx context.Context) (net.Conn, error) {
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		if shown := selfsigned.Fingerprint(conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw); shown != known.Fingerprint {
			return nil, errors.Join(errors.New("the certificate is "+shown), conn.Close())
		}
		return conn, nil
	})
	c.Bearer(func(context.Context) (string, error) { return token, nil })
	return c
}

// An access token is one at every member, whichever leads: it shows the certificate of all, claims, and
// is over everywhere within a second of its end at any of them.
func TestTokenAtEveryMember(t *testing.T) {
	testkit.RacedElsewhere(t)
	s := pgtest.Run(t)
	inRealWorld(t, func(w *world) {
		w.add("First", nil)
		w.add("Second", nil)
		var all []*node
		for _, name := range []string{"a", "b"} {
			n := w.onSocket(func(c *config.Config) {
				sharing(s, name)(c)
				c.Remote.Listen = "127.0.0.1:0"
			})
			defer n.stop()
			n.led("a")
			all = append(all, n)
		}
		a, b := all[0], all[1]
		made := mustCall(b, api.OpNewToken, api.Keyed("", api.TokenRequest{Agent: "Sand*"}))
		other := mustCall(a, api.OpNewToken, api.Keyed("", api.TokenRequest{Agent: "Oracle"}))
		claimed := func(n *node, token, agent string) {
			w.Helper()
			c, err := client.Do(w.Context(), n.from(token), api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: agent}))
			if err != nil || c.Agent != agent {
				w.Errorf("%s: %+v, %v", agent, c, err)
			}
		}
		claimed(b, made.Token, "Sandman")
		claimed(a, other.Token, "Oracle")

		ended := make(chan time.Time, 1)
		go func() {
			b.from(made.Token).Events(w.Context(), api.EventsInput{After: api.EventsFuture}, true, func(api.Event) error { return nil })
			ended <- time.Now()
		}()
		time.Sleep(100 * time.Millisecond)
		now := time.Now()
		mustCall(a, api.OpRevokeToken, api.TokenInput{ID: made.ID})
		if took := (<-ended).Sub(now); took > time.Second {
			w.Errorf("a stream at the other member went on for %v", took)
		}
		for _, n := range all {
			if _, err := client.Do(w.Context(), n.from(made.Token), api.OpAccess, struct{}{}); code(err) != string(api.CodeUnauthorized) {
				w.Errorf("what was revoked: %v", err)
			}
		}
		a.stop()
		b.leads()
		if _, err := client.Do(w.Context(), b.from(other.Token), api.OpAccess, struct{}{}); err != nil {
			w.Errorf("another leader: %v", err)
		}
	})
}
