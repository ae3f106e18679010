package daemon_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/kit/selfsigned"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// from returns a client on another machine, which trusts the certificate that the token names.
func (n *node) from(token string) *client.Client {
	known, _ := api.ParseAccessToken(token)
	address := strings.TrimPrefix(n.daemon.RemoteURL(), "https://")
	c := client.Over(address, func(ctx context.Context) (net.Conn, error) {
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		if shown := selfsigned.Fingerprint(conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw); known.Fingerprint != "" && shown != known.Fingerprint {
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

// forge is an issuer of JWTs, as a RoundTripper.
type forge struct{ key *ecdsa.PrivateKey }

func (f forge) RoundTrip(r *http.Request) (*http.Response, error) {
	body := any(map[string]string{"issuer": "https://forge.example", "jwks_uri": "https://forge.example/keys"})
	if r.URL.Path == "/keys" {
		body = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{KeyID: "k", Key: f.key.Public(), Use: "sig"}}}
	}
	text, err := json.Marshal(body)
	return &http.Response{StatusCode: http.StatusOK, Header: make(http.Header), Body: io.NopCloser(bytes.NewReader(text))}, err
}

// job returns a JWT of a job of that repository.
func (f forge) job(t *testing.T, repository string) string {
	signer := testkit.Got(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{KeyID: "k", Key: f.key}}, nil))(t)
	return testkit.Got(jwt.Signed(signer).Claims(map[string]any{
		"iss": "https://forge.example", "aud": "dibs", "sub": "repo:" + repository + ":ref:refs/heads/main", "exp": time.Now().Add(5 * time.Minute).Unix(), "jti": rand.Text(),
	}).Serialize())(t)
}

// A job of a repository that the configuration trusts claims without a secret, also under its next JWT.
// Another repository's is refused.
func TestJobWithoutASecret(t *testing.T) {
	inRealWorld(t, func(w *world) {
		w.add("Build", nil)
		own := forge{testkit.Got(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)}
		o := w.options(func(c *config.Config) {
			c.Remote.Listen = "127.0.0.1:0"
			c.Remote.OIDC = []config.Issuer{{Issuer: "https://forge.example", Audience: "dibs", Subject: "repo:example/shop:*", Agent: "ci-*"}}
		})
		o.Outside = own
		n := w.start(o)
		defer n.stop()
		ask := api.KeyedInput[api.ClaimRequest]{Key: "build 1", Body: api.ClaimRequest{Agent: "ci-1"}}
		first, err := client.Do(w.Context(), n.from(own.job(t, "example/shop")), api.OpClaim, ask)
		mustDo(w, err)
		again, err := client.Do(w.Context(), n.from(own.job(t, "example/shop")), api.OpClaim, ask)
		if err != nil || again.ID != first.ID {
			w.Errorf("the same job again: %+v, %v, want claim %s", again, err, first.ID)
		}
		if _, err := client.Do(w.Context(), n.from(own.job(t, "example/other")), api.OpClaim, ask); code(err) != string(api.CodeUnauthorized) {
			w.Errorf("another repository's job: %v", err)
		}
	})
}
