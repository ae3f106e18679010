package webhook_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/mirror/webhook"
)

// memory stores values; it fails with err.
type memory struct {
	of  map[string]string
	err error
}

func (m *memory) Meta(_ context.Context, key string) (string, error) { return m.of[key], m.err }

func (m *memory) SetMeta(_ context.Context, key, value string) error {
	if m.err == nil {
		m.of[key] = value
	}
	return m.err
}

// A token counts once it is stored, until it is renewed. From then on only what is signed with it
// counts, and strangers' posts are worth one warning an hour.
func TestTokenIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, log := &memory{of: make(map[string]string)}, new(bytes.Buffer)
		var heard []string
		begin := func() *webhook.Receiver {
			r, err := webhook.NewReceiver(t.Context(), m, func(e webhook.Event) { heard = append(heard, e.Type) }, slog.New(slog.NewTextHandler(log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		r := begin()
		send := func(body, signature string, want int) {
			t.Helper()
			got, post := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
			post.Header.Set(webhook.SignatureHeader, signature)
			if r.ServeHTTP(got, post); got.Code != want {
				t.Errorf("%s was answered %d, want %d", body, got.Code, want)
			}
		}
		post := func(token string, want int) { t.Helper(); send(`{"verification_token":"`+token+`"}`, "", want) }
		const event = `{"type":"page.created"}`
		signed := func(token string) string { return webhook.Sign(token, []byte(event)) }
		send(event, signed(""), http.StatusUnauthorized) // before there is a token
		m.err = errors.New("the disk is full")
		post("first", http.StatusServiceUnavailable)
		m.err = nil
		post("two words", http.StatusUnauthorized)
		post("second", http.StatusOK)
		post("second", http.StatusOK)
		if !r.State().Refused.IsZero() {
			t.Error("the same token again was refused")
		}
		post("third", http.StatusUnauthorized)
		if r.State().Refused.IsZero() {
			t.Error("another token was not refused")
		}
		r = begin() // a restart
		log.Reset()
		for range 3 {
			send(event, "", http.StatusUnauthorized)
			send(event, signed("third"), http.StatusUnauthorized)
			send(event+" ", signed("second"), http.StatusUnauthorized)
			post("third", http.StatusUnauthorized)
			time.Sleep(20 * time.Minute)
		}
		send(event, "", http.StatusUnauthorized)
		if got := strings.Count(log.String(), "level=WARN"); got != 3 { // of events, of tokens, and an hour later
			t.Errorf("%d warnings, want 3:\n%s", got, log)
		}
		began := time.Now()
		send(event, signed("second"), http.StatusOK)
		send("x", webhook.Sign("second", []byte("x")), http.StatusOK)
		if s := r.State(); len(heard) != 1 || heard[0] != "page.created" || s.Received != 2 || !s.Last.Equal(began) {
			t.Errorf("heard %q, %d received, the last at %v", heard, s.Received, s.Last)
		}
		m.err = errors.New("the disk is full")
		if r.Renew(t.Context()) == nil || r.State().Token != "second" {
			t.Error("a token was forgotten that is still stored")
		}
		m.err = nil
		if err := r.Renew(t.Context()); err != nil || r.State().Token != "" {
			t.Errorf("renewed: %q, %v", r.State().Token, err)
		}
		post(strings.Repeat("x", 257), http.StatusUnauthorized)
		post(strings.Repeat("x", 256), http.StatusOK)
	})
}

func TestVerify(t *testing.T) {
	// From the example of HMAC-SHA256 that is known best.
	const token, body, digits = "key", "The quick brown fox jumps over the lazy dog", "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"
	for signature, want := range map[string]bool{
		"sha256=" + digits: true, "sha256=" + strings.ToUpper(digits): true,
		"SHA256=" + digits: false, digits: false, "sha256=": false, "": false, "sha256=" + digits[1:]: false, "sha256=0" + digits[1:]: false, "sha256=" + digits + "0": false,
	} {
		if webhook.Verify(token, []byte(body), signature) != want {
			t.Errorf("%q: want %v", signature, want)
		}
	}
	if webhook.Verify("", []byte(body), webhook.Sign("", []byte(body))) {
		t.Error("without a token, a signature counts")
	}
}
