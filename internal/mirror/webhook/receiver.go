package webhook

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"dibs/internal/claim"
)

const (
	// metaToken is the key of the verification token in Memory.
	metaToken = "webhook.token"
	// maxToken is the longest token in bytes that is kept. Notion's have about 50.
	maxToken = 256
)

// Memory stores a few values by key, across restarts.
type Memory interface {
	Meta(ctx context.Context, key string) (string, error)
	SetMeta(ctx context.Context, key, value string) error
}

// Receiver takes what is posted to the address: first a verification token, and from then on events
// signed with it. It is safe for concurrent use.
type Receiver struct {
	memory Memory
	hear   func(Event)
	log    *slog.Logger

	mu     sync.Mutex
	state  State
	warned map[string]time.Time // when it was last warned of each kind of post
}

// warnEvery is how often strangers' posts of one kind are a warning at most.
const warnEvery = time.Hour

// NewReceiver returns a receiver that calls hear with each event. hear must not wait.
func NewReceiver(ctx context.Context, memory Memory, hear func(Event), log *slog.Logger) (*Receiver, error) {
	token, err := memory.Meta(ctx, metaToken)
	return &Receiver{memory: memory, hear: hear, log: log, state: State{Token: token}, warned: make(map[string]time.Time)}, err
}

// State is what a receiver knows.
type State struct {
	// Token is the verification token; empty until Notion has sent one.
	Token string
	// Received counts the events since the start, and Last is when the last one came, by this
	// machine's clock; zero for none.
	Received int
	Last     time.Time
	// Refused is when another token was last refused, since this one was kept; zero for never.
	Refused time.Time
}

// State returns what the receiver knows.
func (r *Receiver) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Renew forgets the token. The next one that is posted is kept.
func (r *Receiver) Renew(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.set(ctx, "")
}

// set stores a token and begins anew with it. r.mu is locked.
func (r *Receiver) set(ctx context.Context, token string) error {
	if err := r.memory.SetMeta(ctx, metaToken, token); err != nil {
		return err
	}
	r.state = State{Token: token}
	clear(r.warned)
	return nil
}

// keep stores a token if there is none. It reports whether the token is now the one that counts.
func (r *Receiver) keep(ctx context.Context, token string) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Token != "" {
		same := hmac.Equal([]byte(r.state.Token), []byte(token))
		if !same {
			r.state.Refused = time.Now()
		}
		return same, nil
	}
	if err := r.set(ctx, token); err != nil {
		return false, err
	}
	r.log.Info("Notion has sent a verification token: dibs webhook prints it, and what to do with it")
	return true, nil
}

// ServeHTTP answers a post at once, and leaves the work to whoever hears the event. The caller has
// limited the body. What the sender is told is little: it may be anybody.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return
	}
	if token, ok := offered(body); ok {
		kept, err := r.keep(req.Context(), token)
		switch {
		case err != nil:
			r.log.Warn("a verification token of Notion's could not be kept: have Notion send it again", claim.AttrError, err)
			http.Error(w, "try again", http.StatusServiceUnavailable)
		case !kept:
			r.refuse(w, "token", func() {
				r.log.Warn("a second verification token was refused: if it is meant to replace the first, run dibs webhook --renew, and have Notion send it again")
			})
		}
		return
	}
	if !Verify(r.State().Token, body, req.Header.Get(SignatureHeader)) {
		r.refuse(w, "event", func() {
			r.log.Warn("a webhook event was refused, because its signature is not Notion's: see who else posts to the address; if the subscription was made anew, run dibs webhook --renew")
		})
		return
	}
	r.take(body)
}

// offered returns the token of a handshake; false if body is none.
func offered(body []byte) (string, bool) {
	var said struct {
		Token string `json:"verification_token"`
		Type  string `json:"type"`
	}
	if json.Unmarshal(body, &said) != nil || said.Type != "" || said.Token == "" || len(said.Token) > maxToken {
		return "", false
	}
	unprintable := strings.ContainsFunc(said.Token, func(c rune) bool { return c <= ' ' || c > '~' })
	return said.Token, !unprintable
}

// refuse answers a post that is not Notion's. It warns once in warnEvery.
func (r *Receiver) refuse(w http.ResponseWriter, kind string, warn func()) {
	r.mu.Lock()
	due := time.Since(r.warned[kind]) >= warnEvery
	if due {
		r.warned[kind] = time.Now()
	}
	r.mu.Unlock()
	if due {
		warn()
	}
	http.Error(w, "the signature is not right", http.StatusUnauthorized)
}

// take counts an event and passes it on. One that cannot be read is answered like any other: to send
// it again would not help.
func (r *Receiver) take(body []byte) {
	r.mu.Lock()
	r.state.Received++
	r.state.Last = time.Now()
	r.mu.Unlock()
	e, err := parse(body)
	if err != nil {
		r.log.Debug("a webhook event was ignored", claim.AttrError, err)
		return
	}
	r.hear(e)
}
