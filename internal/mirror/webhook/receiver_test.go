package webhook_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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

// A token counts once it is stored, until it is renewed.
func TestTokenIsKept(t *testing.T) {
	m := &memory{of: make(map[string]string)}
	r, err := webhook.NewReceiver(t.Context(), m, func(webhook.Event) {}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	post := func(token string, want int) {
		t.Helper()
		got := httptest.NewRecorder()
		r.ServeHTTP(got, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"verification_token":"`+token+`"}`)))
		if got.Code != want {
			t.Errorf("%s was answered %d, want %d", token, got.Code, want)
		}
	}
	m.err = errors.New("the disk is full")
	post("first", http.StatusServiceUnavailable)
	m.err = nil
	post("second", http.StatusOK)
	post("third", http.StatusUnauthorized)
	m.err = errors.New("the disk is full")
	if r.Renew(t.Context()) == nil || r.State().Token != "second" {
		t.Error("a token was forgotten that is still stored")
	}
	m.err = nil
	if err := r.Renew(t.Context()); err != nil || r.State().Token != "" {
		t.Errorf("renewed: %q, %v", r.State().Token, err)
	}
	post("third", http.StatusOK)
	post(strings.Repeat("x", 257), http.StatusUnauthorized)
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
