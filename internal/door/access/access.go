// Package access says who a caller from another machine is: by an access token that this daemon made,
// or by a JWT of an issuer that the configuration trusts.
//
// A token is a random secret, of which only a hash is stored. Whoever shows it is a caller with a
// number of its own, in place of a user's: quotas, idempotency keys, names of sessions and reservations
// go by that, as with users of this machine.
package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/task"
)

const (
	// maxTokens is how many tokens may be valid at once.
	maxTokens = 10_000
	// refresh is how often at most a token's last use is stored.
	refresh = time.Minute
	// storing is how long that may take.
	storing = time.Second
	// metaTokens is the key of the stored tokens, as JSON.
	metaTokens = "access.tokens"
)

// Storage keeps texts by key. Its methods are safe for concurrent use.
type Storage interface {
	Meta(ctx context.Context, key string) (string, error)
	SetMeta(ctx context.Context, key, value string) error
}

// Pass is a caller from another machine, whose token or JWT is valid.
type Pass struct {
	// UID stands for the caller where users of this machine have their user id. It is below -1, and
	// the same for one token, or for one issuer and subject.
	UID int
	// ID is the token's id; of a JWT its issuer and subject.
	ID string
	// Names is the pattern of the names that it may act under, see task.Covers.
	Names string
	// Ends is when the token is over.
	Ends time.Time
	// Over is closed when the token is revoked; nil for never.
	Over <-chan struct{}
}

// NumberOf returns the Pass.UID for a Pass.ID.
func NumberOf(id string) int {
	sum := sha256.Sum256([]byte(id))
	return -2 - int(binary.BigEndian.Uint64(sum[:])&(math.MaxInt>>1))
}

// Config configures Tokens.
type Config struct {
	Storage Storage
	// Fingerprint returns the one for new tokens; empty if clients can verify the certificate.
	Fingerprint func(context.Context) (string, error)
	// Issuers know JWTs; nil for none.
	Issuers *Issuers
	Log     *slog.Logger
}

// Tokens are the access tokens of a journal. They are safe for concurrent use.
type Tokens struct {
	config Config

	changing sync.Mutex // locked while all is changed and stored, before mu

	mu  sync.Mutex // guards all, and the tokens' last uses; never locked while something is stored
	all []*token   // the oldest first
}

// token is a stored token.
type token struct {
	ID      string    `json:"id"`
	Hash    string    `json:"hash"` // SHA-256 of the secret, in hexadecimal digits
	Agent   string    `json:"agent"`
	Note    string    `json:"note,omitempty"`
	Made    time.Time `json:"made"`
	Expires time.Time `json:"expires"`
	Used    time.Time `json:"used,omitzero"`

	over chan struct{}
}

// New returns the tokens in the storage.
func New(ctx context.Context, c Config) (*Tokens, error) {
	t := &Tokens{config: c}
	text, err := c.Storage.Meta(ctx, metaTokens)
	if err != nil || text == "" {
		return t, err
	}
	if err := json.Unmarshal([]byte(text), &t.all); err != nil {
		return nil, fmt.Errorf("the access tokens in the journal cannot be read: %w", err)
	}
	for _, one := range t.all {
		one.over = make(chan struct{})
	}
	return t, nil
}

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// NewToken makes a token. The error is a *broker.InvalidError, or the storage's.
func (t *Tokens) NewToken(ctx context.Context, in api.TokenRequest) (api.NewToken, error) {
	if err := task.ValidatePattern(in.Agent); err != nil {
		return api.NewToken{}, &broker.InvalidError{Detail: err.Error()}
	}
	fingerprint, err := t.config.Fingerprint(ctx)
	if err != nil {
		return api.NewToken{}, err
	}
	secret := api.NewAccessToken(fingerprint)
	now, life := time.Now(), api.UsualToken
	if in.ForSeconds > 0 {
		life = time.Duration(in.ForSeconds * float64(time.Second))
	}
	made := &token{
		ID: secret.ID, Hash: hash(secret.Secret), Agent: in.Agent, Note: in.Note, Made: now, Expires: now.Add(life), over: make(chan struct{}),
	}
	t.changing.Lock()
	defer t.changing.Unlock()
	kept := t.valid(now)
	if len(kept) >= maxTokens {
		return api.NewToken{}, &broker.InvalidError{Detail: fmt.Sprintf("there are %d access tokens: revoke some that nobody uses, see dibs token list", len(kept))}
	}
	if err := t.store(ctx, append(kept, made)); err != nil {
		return api.NewToken{}, err
	}
	return api.NewToken{ID: made.ID, Token: secret.String(), Agent: made.Agent, ExpiresAt: api.Time{Time: made.Expires}}, nil
}

// Tokens returns the tokens that have not expired.
func (t *Tokens) Tokens() api.Tokens {
	out := api.Tokens{Tokens: []api.Token{}}
	for _, one := range t.valid(time.Now()) {
		out.Tokens = append(out.Tokens, t.shown(one))
	}
	return out
}

// Revoke makes a token invalid, and ends what is open under it. The error is a *broker.InvalidError if
// there is no such token, or the storage's: then the token is still valid.
func (t *Tokens) Revoke(ctx context.Context, id string) (api.Token, error) {
	t.changing.Lock()
	defer t.changing.Unlock()
	kept := t.valid(time.Now())
	at := slices.IndexFunc(kept, func(one *token) bool { return one.ID == id })
	if at < 0 {
		return api.Token{}, &broker.InvalidError{Detail: fmt.Sprintf("there is no access token %.40q, or it has expired: see dibs token list", id)}
	}
	revoked := kept[at]
	if err := t.store(ctx, slices.Delete(kept, at, at+1)); err != nil {
		return api.Token{}, err
	}
	close(revoked.over)
	return t.shown(revoked), nil
}

// valid returns the tokens that have not expired, as a new slice.
func (t *Tokens) valid(now time.Time) []*token {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(t.all), func(one *token) bool { return !now.Before(one.Expires) })
}

// store stores the tokens, and then takes them for those that there are. t.changing is locked.
func (t *Tokens) store(ctx context.Context, all []*token) error {
	t.mu.Lock()
	text, err := json.Marshal(all)
	t.mu.Unlock()
	if err == nil {
		err = t.config.Storage.SetMeta(ctx, metaTokens, string(text))
	}
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = all
	return nil
}

func (t *Tokens) shown(one *token) api.Token {
	t.mu.Lock()
	defer t.mu.Unlock()
	shown := api.Token{ID: one.ID, Agent: one.Agent, Note: one.Note, MadeAt: api.Time{Time: one.Made}, ExpiresAt: api.Time{Time: one.Expires}}
	if !one.Used.IsZero() {
		shown.UsedAt = &api.Time{Time: one.Used}
	}
	return shown
}

// Admit says who shows a token, or a JWT. The error is an *api.Problem with the code
// api.CodeUnauthorized, or, where an issuer cannot be asked for its keys, one that passes.
func (t *Tokens) Admit(ctx context.Context, bearer string) (Pass, error) {
	secret, ours := api.ParseAccessToken(bearer)
	switch {
	case ours:
		return t.admit(ctx, secret)
	case t.config.Issuers != nil && strings.Count(bearer, ".") == 2:
		return t.config.Issuers.Verify(ctx, bearer)
	}
	return Pass{}, Unauthorized("this is no access token of dibs: have one made with dibs token new")
}

// Unauthorized refuses a caller whose token is not valid.
func Unauthorized(detail string) *api.Problem { return api.NewProblem(api.CodeUnauthorized, detail) }

func (t *Tokens) admit(ctx context.Context, secret api.AccessToken) (Pass, error) {
	now, hashed := time.Now(), hash(secret.Secret)
	one, fresh := t.use(secret.ID, now)
	switch {
	case one == nil, subtle.ConstantTimeCompare([]byte(one.Hash), []byte(hashed)) == 0:
		return Pass{}, Unauthorized("nobody knows this access token: it was revoked, has expired, or is another daemon's; have one made with dibs token new")
	case !now.Before(one.Expires):
		return Pass{}, Unauthorized(fmt.Sprintf("the access token expired at %s: have one made with dibs token new", one.Expires.Format(time.RFC3339)))
	}
	// While another change is stored, this use waits for the next one.
	if !fresh && t.changing.TryLock() {
		defer t.changing.Unlock()
		brief, cancel := context.WithTimeout(ctx, storing)
		defer cancel()
		t.used(one, now)
		// With those that have expired: their callers are told so.
		all := t.valid(time.Time{})
		if err := t.store(brief, all); err != nil { // it is valid nevertheless
			t.config.Log.Debug("the last use of an access token was not stored", "token", one.ID, "error", err)
		}
	}
	return Pass{UID: NumberOf(one.ID), ID: one.ID, Names: one.Agent, Ends: one.Expires, Over: one.over}, nil
}

// use finds a token; nil if there is none. It is fresh if its last use was stored just now.
func (t *Tokens) use(id string, now time.Time) (one *token, fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.IndexFunc(t.all, func(one *token) bool { return one.ID == id })
	if at < 0 {
		return nil, false
	}
	return t.all[at], now.Sub(t.all[at].Used) < refresh
}

// used notes the last use of a token.
func (t *Tokens) used(one *token, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one.Used = now
}
