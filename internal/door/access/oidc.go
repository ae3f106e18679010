package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/task"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	skew        = time.Minute      // how far an issuer's clock and this daemon's may be apart
	askEvery    = time.Minute      // how often at most an issuer is asked for its keys
	keysAge     = time.Hour        // when keys that are known are asked for again: one may be withdrawn
	asking      = 10 * time.Second // how long that may take; less than askEvery
	maxDocument = 1 << 20          // bytes of each document of an issuer
)

// algorithms are those that issuers sign with. None is symmetric: with one of these anybody who knows
// the public key could sign.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256}

// Issuers know the JWTs of the issuers that the configuration trusts. They are safe for concurrent use.
type Issuers struct{ named map[string]*issuer }

type issuer struct {
	name    string
	entries []config.Issuer // in the configuration's order
	client  *http.Client
	log     *slog.Logger

	mu       sync.Mutex // guards all below
	keys     jose.JSONWebKeySet
	asked    time.Time     // when the issuer was last asked for them
	answered chan struct{} // closed when that is over
	failed   bool          // it was in vain
}

// NewIssuers returns the issuers of a valid configuration. It asks them for nothing yet. A nil transport
// is http.DefaultTransport.
func NewIssuers(list []config.Issuer, transport http.RoundTripper, log *slog.Logger) *Issuers {
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	all := &Issuers{make(map[string]*issuer)}
	for _, entry := range list {
		if all.named[entry.Issuer] == nil {
			all.named[entry.Issuer] = &issuer{name: entry.Issuer, client: client, log: log}
		}
		i := all.named[entry.Issuer]
		i.entries = append(i.entries, entry)
	}
	return all
}

// Verify says who shows a JWT. An issuer is asked for its keys only if all but the signature is known to
// be right: else anybody could make the daemon ask. The error is as Tokens.Admit says, or ctx's.
func (all *Issuers) Verify(ctx context.Context, raw string) (Pass, error) {
	refuse := func(format string, args ...any) (Pass, error) {
		return Pass{}, Unauthorized("the JWT " + fmt.Sprintf(format, args...))
	}
	var claims jwt.Claims
	token, err := jwt.ParseSigned(raw, algorithms)
	if other, ok := errors.AsType[*jose.ErrUnexpectedSignatureAlgorithm](err); ok {
		return refuse("is signed with the algorithm %.20q: want one that is signed with RS256 or ES256", other.Got)
	}
	if err != nil || token.UnsafeClaimsWithoutVerification(&claims) != nil {
		return refuse("cannot be read: it is damaged, or a claim is of the wrong type; ask its issuer for a new one")
	}
	i := all.named[claims.Issuer]
	if i == nil {
		return refuse("is of the issuer %.200q, whom this daemon does not trust: name it in remote.oidc of the configuration", claims.Issuer)
	}
	var entry *config.Issuer
	var wanted []string
	for at, one := range i.entries {
		if !claims.Audience.Contains(one.Audience) {
			wanted = append(wanted, one.Audience)
		} else if entry == nil && task.Covers(one.Subject, claims.Subject) {
			entry = &i.entries[at]
		}
	}
	now, starts, ends := time.Now(), claims.NotBefore.Time().UTC(), claims.Expiry.Time().UTC()
	clock := "and this daemon's clock says " + now.UTC().Format(time.RFC3339)
	switch {
	case len(wanted) == len(i.entries):
		return refuse("is for the audience %.200q, and this daemon wants %q: ask its issuer for one with that audience", claims.Audience, wanted)
	case entry == nil:
		return refuse("is about %.200q, whom no entry of remote.oidc covers: add one to the configuration", claims.Subject)
	case claims.Expiry == nil:
		return refuse("never expires: ask its issuer for one with an exp")
	case !now.Before(ends.Add(skew)):
		return refuse("expired at %s, %s: ask its issuer for a new one", ends.Format(time.RFC3339), clock)
	case now.Add(skew).Before(starts):
		return refuse("is valid from %s on, %s: wait, or set the clock that is wrong", starts.Format(time.RFC3339), clock)
	case ends.Sub(now) > api.LongestToken: // such as an exp in milliseconds, for which JSON has no date
		ends = now.Add(api.LongestToken)
	}
	id := token.Headers[0].KeyID
	keys, err := i.keysOf(ctx, id)
	if err != nil {
		return Pass{}, err
	}
	for _, key := range keys {
		if token.Claims(key) == nil {
			who := task.OneLine(i.name+" "+claims.Subject, '?')
			return Pass{UID: NumberOf(who), ID: who, Names: entry.Agent, Ends: ends.Add(skew)}, nil
		}
	}
	return refuse("has another signature than that of the key %.80q of %s: ask that issuer for a new one", id, i.name)
}

// keysOf returns the keys of that id, at least one. The issuer is asked beside the request, which may
// end before: others wait for the answer, too.
func (i *issuer) keysOf(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	i.mu.Lock()
	known, age := i.keys.Key(id), time.Since(i.asked)
	if age >= keysAge || age >= askEvery && len(known) == 0 {
		i.asked, i.answered = time.Now(), make(chan struct{})
		go i.ask(context.WithoutCancel(ctx), i.answered)
	}
	answered := i.answered
	i.mu.Unlock()
	if len(known) > 0 {
		return known, nil
	}
	select {
	case <-answered:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if known = i.keys.Key(id); len(known) > 0 {
		return known, nil
	}
	problem := Unauthorized(fmt.Sprintf("the JWT is signed with the key %.80q, which %s did not have at %s: if the key is new, try again in a minute", id, i.name, i.asked.UTC().Format(time.RFC3339)))
	if i.failed {
		problem = api.NewProblem(api.CodeBusy, fmt.Sprintf("the keys of %s could not be read, and the daemon's log says why: try again in a minute", i.name))
	}
	problem.RetryIn(askEvery - time.Since(i.asked))
	return nil, problem
}

// ask asks the issuer for its keys. If that fails, those of before stay.
func (i *issuer) ask(ctx context.Context, answered chan<- struct{}) {
	defer close(answered)
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	keys, err := i.read(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.failed = err != nil; i.failed {
		i.log.Warn("the keys of an issuer of JWTs could not be read", "issuer", i.name, "error", err)
		return
	}
	i.keys.Keys = keys
}

// read returns the public keys to which the issuer's discovery document leads, of the kinds that are
// known.
func (i *issuer) read(ctx context.Context) (keys []jose.JSONWebKey, err error) {
	var about struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	own := strings.TrimSuffix(i.name, "/") + "/"
	if err := i.get(ctx, own+".well-known/openid-configuration", &about); err != nil {
		return nil, err
	}
	if about.Issuer != i.name || !strings.HasPrefix(about.Keys, "https://") && !strings.HasPrefix(about.Keys, own) {
		return nil, fmt.Errorf("its discovery document is of the issuer %.200q, with the jwks_uri %.200q: want this issuer, and https", about.Issuer, about.Keys)
	}
	if err := i.get(ctx, about.Keys, &set); err != nil {
		return nil, err
	}
	for _, text := range set.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(text) == nil && key.IsPublic() && key.Use != "enc" {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("there is no public key at %.200q", about.Keys)
	}
	return keys, nil
}

// get reads the JSON at an address into a value. It follows no redirect, which could lead anywhere.
func (i *issuer) get(ctx context.Context, address string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	answer, err := i.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", address, answer.Status)
	}
	if err := json.NewDecoder(http.MaxBytesReader(nil, answer.Body, maxDocument)).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	return nil
}
