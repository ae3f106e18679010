package access_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/door/access"
	"dibs/internal/testkit"
)

const (
	forge   = "https://forge.example/oidc"
	subject = "repo:example/shop:ref:refs/heads/main"
)

var (
	rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
		key, _ := rsa.GenerateKey(rand.Reader, 2048)
		return key
	})
	ecKey, newKey, strangeKey = newEC(elliptic.P256()), newEC(elliptic.P256()), newEC(elliptic.P256())
)

func newEC(curve elliptic.Curve) *ecdsa.PrivateKey {
	key, _ := ecdsa.GenerateKey(curve, rand.Reader)
	return key
}

// public is a key as an issuer shows it.
func public(id string, key crypto.Signer) jose.JSONWebKey {
	return jose.JSONWebKey{KeyID: id, Key: key.Public(), Use: "sig"}
}

// issuer answers as an issuer at its name does. It is strict: whatever else is asked for fails the test.
type issuer struct {
	t     *testing.T
	name  string
	jwks  string // the address of its keys
	takes time.Duration
	log   bytes.Buffer

	mu    sync.Mutex
	keys  []jose.JSONWebKey
	wrong func(path string) *http.Response // what it answers in place of the right thing, if not nil
	asked int                              // how often it was asked for its discovery document
}

func newIssuer(t *testing.T, keys ...jose.JSONWebKey) *issuer {
	return &issuer{t: t, name: forge, jwks: "https://keys.forge.example/jwks", keys: keys}
}

func answer(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(i.takes):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	discovery := strings.TrimSuffix(i.name, "/") + "/.well-known/openid-configuration"
	address := r.URL.String()
	if address == discovery {
		i.asked++
	}
	if i.wrong != nil {
		if wrong := i.wrong(r.URL.Path); wrong != nil {
			return wrong, nil
		}
	}
	switch {
	case r.Method == "GET" && address == discovery:
		return answer(200, fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, i.name, i.jwks)), nil
	case r.Method == "GET" && address == i.jwks:
		odd := json.RawMessage(`{"kty":"OKP","crv":"Ed448","kid":"odd","x":"AA"}`) // real sets have keys that no library knows
		set := map[string]any{"keys": append([]any{odd}, anys(i.keys)...)}
		return answer(200, string(testkit.Got(json.Marshal(set))(i.t))), nil
	}
	i.t.Errorf("the issuer was asked for %s %s", r.Method, address)
	return answer(404, ""), nil
}

func anys[T any](list []T) (out []any) {
	for _, one := range list {
		out = append(out, one)
	}
	return out
}

func (i *issuer) set(keys ...jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// fetches checks how often the issuer was asked since the start.
func (i *issuer) fetches(want int, when string) {
	i.t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	testkit.Check(i.t, i.asked == want, "%s: the issuer was asked %d times, want %d", when, i.asked, want)
}

// trusted returns the issuer as a configuration with these entries trusts it, by default with one.
func (i *issuer) trusted(entries ...config.Issuer) *access.Issuers {
	if entries == nil {
		entries = []config.Issuer{{Issuer: i.name, Audience: "dibs", Subject: "repo:example/shop:*", Agent: "ci-*"}}
	}
	return access.NewIssuers(entries, i, slog.New(slog.NewTextHandler(&i.log, nil)))
}

type claims map[string]any

// good are claims that the entry of trusted fits, of a JWT of five minutes.
func good() claims {
	now := time.Now().Unix()
	return claims{"iss": forge, "aud": "dibs", "sub": subject, "iat": now, "nbf": now, "exp": now + 300}
}

// sign returns a JWT that key signed, which its header names as id.
func sign(t *testing.T, alg jose.SignatureAlgorithm, id string, key, payload any) string {
	t.Helper()
	return signWith(t, &jose.SignerOptions{}, alg, id, key, payload)
}

func signWith(t *testing.T, o *jose.SignerOptions, alg jose.SignatureAlgorithm, id string, key, payload any) string {
	t.Helper()
	text, raw := payload.(string)
	if !raw {
		text = string(testkit.Got(json.Marshal(payload))(t))
	}
	if !o.EmbedJWK { // else the key is shown, and not its id
		key = jose.JSONWebKey{KeyID: id, Key: key}
	}
	signer := testkit.Got(jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o.WithType("JWT")))(t)
	return testkit.Got(testkit.Got(signer.Sign([]byte(text)))(t).CompactSerialize())(t)
}

// refused checks that err refuses a caller, and shows nothing of the JWT.
func refused(t *testing.T, err error, code api.Code, raw string, parts ...string) *api.Problem {
	t.Helper()
	testkit.Fails(t, err, parts...)
	p, ok := errors.AsType[*api.Problem](err)
	testkit.Require(t, ok && p.Code == code && p.Status == code.Status(), "the error is %#v, want one with %s", err, code)
	for part := range strings.SplitSeq(raw, ".") {
		testkit.Check(t, len(part) < 8 || !strings.Contains(err.Error(), part), "the error shows the JWT: %v", err)
	}
	return p
}

// TestJWTs has what every part of a JWT may be, and must not be.
func TestJWTs(t *testing.T) {
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	with := func(name string, value any) func(*testing.T) string {
		return func(t *testing.T) string {
			c := good()
			if c[name] = value; value == nil {
				delete(c, name)
			}
			if d, ok := value.(time.Duration); ok {
				c[name] = in(d)
			}
			return sign(t, jose.ES256, "ec", ecKey, c)
		}
	}
	by := func(alg jose.SignatureAlgorithm, id string, key any) func(*testing.T) string {
		return func(t *testing.T) string { return sign(t, alg, id, key, good()) }
	}
	pem := func(*testing.T) []byte { return testkit.Got(x509.MarshalPKIXPublicKey(rsaKey().Public()))(t) }
	part := base64.RawURLEncoding.EncodeToString
	const asked, unasked = 1, 0
	for _, c := range []struct {
		name    string
		jwt     func(*testing.T) string
		fetches int
		says    []string // nil if it is accepted
	}{
		{"ES256", by(jose.ES256, "ec", ecKey), asked, nil},
		{"RS256", by(jose.RS256, "rsa", rsaKey()), asked, nil},
		{"a key without an id", by(jose.ES256, "", newKey), asked, nil},

		{"another issuer", with("iss", "https://other.example"), unasked, []string{`"https://other.example"`, "does not trust", "remote.oidc"}},
		{"almost the issuer", with("iss", forge+"/"), unasked, []string{"does not trust"}},
		{"no issuer", with("iss", nil), unasked, []string{"does not trust"}},
		{"another audience", with("aud", "other"), unasked, []string{`"other"`, `["dibs"]`}},
		{"no audience", with("aud", nil), unasked, []string{"audience"}},
		{"other audiences", with("aud", []string{"other", "dibs2"}), unasked, []string{`["other" "dibs2"]`}},
		{"this among other audiences", with("aud", []string{"other", "dibs"}), asked, nil},
		{"another subject", with("sub", "repo:example/shop2:main"), unasked, []string{`"repo:example/shop2:main"`, "covers"}},
		{"the pattern in the midst of the subject", with("sub", "x"+subject), unasked, []string{"covers"}},
		{"no subject", with("sub", nil), unasked, []string{"covers"}},
		{"no exp", with("exp", nil), unasked, []string{"never expires"}},
		{"expired, within the skew", with("exp", -59*time.Second), asked, nil},
		{"expired, beyond the skew", with("exp", -60*time.Second), unasked, []string{"expired at 1999-12-31T23:59:00Z", "clock says 2000-01-01T00:00:00Z"}},
		{"an exp that is out of all bounds", with("exp", 4e18), asked, nil},
		{"an exp that no number holds", with("exp", json.Number("1e300")), unasked, []string{"cannot be read"}},
		{"valid soon, within the skew", with("nbf", 60*time.Second), asked, nil},
		{"valid soon, beyond the skew", with("nbf", 61*time.Second), unasked, []string{"valid from 2000-01-01T00:01:01Z on", "clock says 2000-01-01T00:00:00Z"}},
		{"no nbf", with("nbf", nil), asked, nil},
		{"issued in the future", with("iat", time.Hour), asked, nil},
		{"an exp of the wrong type", with("exp", "2999999999"), unasked, []string{"cannot be read"}},
		{"an audience of the wrong type", with("aud", 7), unasked, []string{"cannot be read"}},
		{"a claim twice", func(t *testing.T) string {
			text := string(testkit.Got(json.Marshal(good()))(t))
			return sign(t, jose.ES256, "ec", ecKey, `{"sub":"repo:example/shop:x",`+text[1:])
		}, unasked, []string{"cannot be read"}},

		{"no algorithm", func(t *testing.T) string {
			return part([]byte(`{"alg":"none","kid":"ec"}`)) + "." + part(testkit.Got(json.Marshal(good()))(t)) + "."
		}, unasked, []string{`"none"`, "RS256 or ES256"}},
		{"the public key as a secret", by(jose.HS256, "rsa", pem(t)), unasked, []string{`"HS256"`}},
		{"RS512", by(jose.RS512, "rsa", rsaKey()), unasked, []string{`"RS512"`}},
		{"PS256", by(jose.PS256, "rsa", rsaKey()), unasked, []string{`"PS256"`}},
		{"ES384", by(jose.ES384, "ec", newEC(elliptic.P384())), unasked, []string{`"ES384"`}},
		{"no JWT", func(*testing.T) string { return "some.thing.else" }, unasked, []string{"cannot be read"}},
		{"four parts", func(t *testing.T) string { return by(jose.ES256, "ec", ecKey)(t) + ".e30" }, unasked, []string{"cannot be read"}},

		{"another's signature in the key's name", by(jose.ES256, "ec", strangeKey), asked, []string{`another signature`, `"ec"`}},
		{"a key of another kind", by(jose.ES256, "rsa", ecKey), asked, []string{"another signature"}},
		{"claims that were changed", func(t *testing.T) string {
			parts := strings.Split(by(jose.ES256, "ec", ecKey)(t), ".")
			c := good()
			c["sub"] = subject + "2"
			return parts[0] + "." + part(testkit.Got(json.Marshal(c))(t)) + "." + parts[2]
		}, asked, []string{"another signature"}},
		{"no signature", func(t *testing.T) string {
			raw := by(jose.ES256, "ec", ecKey)(t)
			return raw[:strings.LastIndex(raw, ".")+1]
		}, asked, []string{"another signature"}},
		{"an unknown key", by(jose.ES256, "strange", strangeKey), asked, []string{`"strange"`, forge, "2000-01-01T00:00:00Z", "try again in a minute"}},
		{"a key that it brings along", func(t *testing.T) string {
			return signWith(t, &jose.SignerOptions{EmbedJWK: true}, jose.ES256, "", strangeKey, good())
		}, asked, []string{"another signature"}},
		{"a key for encryption", by(jose.ES256, "enc", strangeKey), asked, []string{"did not have"}},
		{"a key that is not public", by(jose.ES256, "private", strangeKey), asked, []string{"did not have"}},
	} {
		testkit.Bubble(t, c.name, func(t *testing.T) {
			enc := public("enc", strangeKey)
			enc.Use = "enc"
			i := newIssuer(t, public("ec", ecKey), public("rsa", rsaKey()), public("", newKey), enc, jose.JSONWebKey{KeyID: "private", Key: strangeKey})
			raw := c.jwt(t)
			_, err := i.trusted().Verify(t.Context(), raw)
			if c.says == nil {
				testkit.OK(t, err)
			} else {
				refused(t, err, api.CodeUnauthorized, raw, c.says...)
			}
			i.fetches(c.fetches, "after one JWT")
			testkit.Check(t, i.log.Len() == 0, "it is logged: %s", &i.log)
		})
	}
}

// TestWhoTheJWTIs holds that a caller stays the same from one JWT to the next, and what it may do.
func TestWhoTheJWTIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t, public("ec", ecKey))
		entry := func(audience, subject, agent string) config.Issuer {
			return config.Issuer{Issuer: forge, Audience: audience, Subject: subject, Agent: agent}
		}
		all := i.trusted(
			config.Issuer{Issuer: "https://other.example", Audience: "dibs", Subject: "*main", Agent: "other"},
			entry("dibs", "repo:*:ref:refs/heads/main", "main-*"), entry("dibs", "repo:example/*", "ci-*"), entry("deploy", "repo:example/*", "deploy"))
		who := func(audience, subject string, lasts time.Duration) access.Pass {
			c := good()
			maps.Copy(c, claims{"aud": audience, "sub": subject, "exp": time.Now().Add(lasts).Unix()})
			return testkit.Got(all.Verify(t.Context(), sign(t, jose.ES256, "ec", ecKey, c)))(t)
		}
		first := who("dibs", subject, time.Minute)
		testkit.Check(t, first.UID < -1 && first.Over == nil, "the UID is %d, below -1 are those of tokens", first.UID)
		testkit.Same(t, access.Pass{UID: first.UID, ID: forge + " " + subject, Names: "main-*", Ends: time.Now().UTC().Add(2 * time.Minute)}, first, "who it is")
		time.Sleep(time.Minute)
		for _, c := range []struct {
			audience, subject, names string
			same                     bool
		}{
			{"dibs", subject, "main-*", true},
			{"deploy", subject, "deploy", true},
			{"dibs", "repo:example/shop:pull", "ci-*", false},
			{"dibs", "repo:example/shop:a\nb\x00c", "ci-*", false},
		} {
			got := who(c.audience, c.subject, time.Hour)
			testkit.Check(t, got.Names == c.names && (got.UID == first.UID) == c.same, "%s for %s is %+v, the first was %+v", c.subject, c.audience, got, first)
			testkit.Check(t, !strings.ContainsAny(got.ID, "\n\x00"), "the id is %q, which is not one line", got.ID)
		}
		far := who("dibs", subject, 1e9*time.Second)
		testkit.Check(t, far.Ends.Before(time.Now().Add(2*api.LongestToken)), "a JWT of an absurd life ends at %s", far.Ends)
		for audience, says := range map[string]string{"dibs": "covers", "deploy": "covers", "x": `["dibs" "dibs" "deploy"]`} {
			c := good()
			maps.Copy(c, claims{"aud": audience, "sub": "repo:else/shop:pull"})
			raw := sign(t, jose.ES256, "ec", ecKey, c)
			_, err := all.Verify(t.Context(), raw)
			refused(t, err, api.CodeUnauthorized, raw, says)
		}
	})
}

func TestKeysRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t, public("old", ecKey))
		all := i.trusted()
		verify := func(id string, key any) error {
			_, err := all.Verify(t.Context(), sign(t, jose.ES256, id, key, good()))
			return err
		}
		testkit.Must(t, verify("old", ecKey))
		i.fetches(1, "with the first JWT")
		i.set(public("old", ecKey), public("new", newKey))
		time.Sleep(50 * time.Second)
		early := refused(t, verify("new", newKey), api.CodeUnauthorized, "", "did not have")
		testkit.Check(t, early.RetryAfter == 10, "50 s after the issuer was asked: try again in %d s, want 10", early.RetryAfter)
		i.fetches(1, "within a minute")
		time.Sleep(10 * time.Second)
		testkit.OK(t, verify("new", newKey))
		for range 100 {
			refused(t, verify("strange", strangeKey), api.CodeUnauthorized, "")
			testkit.OK(t, verify("old", ecKey))
		}
		i.fetches(2, "after a minute")
		i.set(public("new", newKey))
		time.Sleep(time.Hour - time.Second)
		testkit.OK(t, verify("old", ecKey))
		i.fetches(2, "within an hour")
		time.Sleep(time.Second)
		testkit.OK(t, verify("old", ecKey)) // and the issuer is asked meanwhile
		synctest.Wait()
		i.fetches(3, "after an hour")
		refused(t, verify("old", ecKey), api.CodeUnauthorized, "", "did not have")
		testkit.OK(t, verify("new", newKey))
		i.fetches(3, "after an hour")
	})
}

// TestKeysAreAskedForOnce has many callers at once, of whom the first goes away.
func TestKeysAreAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t, public("ec", ecKey))
		i.takes = 4 * time.Second
		all, raw := i.trusted(), sign(t, jose.ES256, "ec", ecKey, good())
		began := time.Now()
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var callers sync.WaitGroup
		callers.Go(func() {
			_, err := all.Verify(brief, raw)
			testkit.Check(t, errors.Is(err, context.DeadlineExceeded) && time.Since(began) == time.Second, "the caller who went away waited %v: %v", time.Since(began), err)
		})
		synctest.Wait()
		for range 10 {
			callers.Go(func() {
				_, err := all.Verify(t.Context(), raw)
				testkit.OK(t, err)
			})
		}
		callers.Wait()
		testkit.Check(t, time.Since(began) == 2*i.takes, "the others waited %v, want %v", time.Since(began), 2*i.takes)
		i.fetches(1, "for eleven callers")
	})
}

func TestIssuersThatGiveNoKeys(t *testing.T) {
	on := func(path string, status int, body string) func(*issuer) {
		return func(i *issuer) {
			i.wrong = func(asked string) *http.Response {
				if !strings.HasSuffix(asked, path) {
					return nil
				}
				wrong := answer(status, body)
				wrong.Header.Set("Location", "http://elsewhere.example/keys")
				return wrong
			}
		}
	}
	const discovery, jwks = "/openid-configuration", "/jwks"
	for _, c := range []struct {
		name  string
		wrong func(*issuer)
		log   string
	}{
		{"it does not answer", func(i *issuer) { i.takes = time.Hour }, "deadline"},
		{"it is broken", on(discovery, 500, ""), forge + "/.well-known/openid-configuration: 500"},
		{"it redirects", on(discovery, 302, ""), ": 302"},
		{"its keys redirect", on(jwks, 307, ""), ": 307"},
		{"another's document", on(discovery, 200, `{"issuer":"https://other.example","jwks_uri":"https://keys.forge.example/jwks"}`), "other.example"},
		{"keys that anybody can change", on(discovery, 200, `{"issuer":"`+forge+`","jwks_uri":"http://keys.forge.example/jwks"}`), "https"},
		{"no address of keys", on(discovery, 200, `{"issuer":"`+forge+`"}`), "jwks_uri"},
		{"a page", on(discovery, 200, `<html>`), "invalid character"},
		{"keys without end", on(jwks, 200, `{"keys":[`+strings.Repeat(" ", 1<<20)+`]}`), "too large"},
		{"no keys", on(jwks, 200, `{"keys":[]}`), "no public key"},
	} {
		testkit.Bubble(t, c.name, func(t *testing.T) {
			i := newIssuer(t, public("ec", ecKey))
			c.wrong(i)
			all := i.trusted()
			verify := func() (string, error) {
				raw := sign(t, jose.ES256, "ec", ecKey, good())
				_, err := all.Verify(t.Context(), raw)
				return raw, err
			}
			began := time.Now()
			for range 3 {
				raw, err := verify()
				p := refused(t, err, api.CodeBusy, raw, forge, "the daemon's log", "try again")
				testkit.Check(t, p.RetryAfter > 0 && p.RetryAfter <= 60, "try again in %d s", p.RetryAfter)
			}
			testkit.Check(t, time.Since(began) <= 10*time.Second, "the callers waited %v", time.Since(began))
			i.mu.Lock()
			testkit.Check(t, i.asked <= 1, "the issuer was asked %d times", i.asked)
			i.wrong, i.takes = nil, 0
			i.mu.Unlock()
			testkit.Says(t, "the log", i.log.String(), "level=WARN", "issuer="+forge, c.log)
			testkit.Check(t, strings.Count(i.log.String(), "\n") == 1, "the log has other lines than one: %s", &i.log)
			time.Sleep(time.Minute)
			_, err := verify()
			testkit.OK(t, err)

			// An issuer that is away later takes nobody's key away.
			i.mu.Lock()
			c.wrong(i)
			i.mu.Unlock()
			time.Sleep(time.Hour)
			for range 3 {
				_, err := verify()
				testkit.OK(t, err)
				time.Sleep(time.Minute)
			}
		})
	}
}

// TestNamesOfIssuers holds that issuers' names may end in a slash, that one of this machine may be without
// TLS, and that the same subject of two issuers is two callers.
func TestNamesOfIssuers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		callers := map[int]string{}
		for name, jwks := range map[string]string{
			forge:                        "https://forge.example/keys",
			"https://slash.example/":     "https://slash.example/keys",
			"http://127.0.0.1:8080":      "http://127.0.0.1:8080/keys",
			"http://localhost:8080/path": "http://localhost:8080/path/keys",
		} {
			i := newIssuer(t, public("ec", ecKey))
			i.name, i.jwks = name, jwks
			c := good()
			c["iss"] = name
			pass := testkit.Got(i.trusted().Verify(t.Context(), sign(t, jose.ES256, "ec", ecKey, c)))(t)
			testkit.Check(t, callers[pass.UID] == "", "%s and %s have the same number", pass.ID, callers[pass.UID])
			callers[pass.UID] = pass.ID
		}
	})
}
