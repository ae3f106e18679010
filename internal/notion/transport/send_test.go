package transport

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion/transport/transporttest"
)

// broken is a body that ends in an error.
type broken struct{ io.Reader }

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (broken) Close() error { return nil }

func TestAnswersAreWhole(t *testing.T) {
	answer := transporttest.Reply(200, `{"object":`)
	answer.Body = broken{answer.Body}
	for _, tc := range []struct {
		name   string
		answer *http.Response
		says   string
	}{
		{"broken off", answer, "the answer broke off"},
		{"too long", transporttest.Reply(200, strings.Repeat("x", 101)), "longer than 100 bytes"},
		{"said to be wrong", transporttest.Reply(200, strings.Repeat("x", 101)), "check notion.base_url"},
		{"of the longest length", transporttest.Reply(200, strings.Repeat("x", 100)), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &send{timeout: time.Minute, limit: 100, next: transporttest.Server(func(*http.Request) (*http.Response, error) { return tc.answer, nil })}
			resp, err := s.RoundTrip(transporttest.Request(t, t.Context(), http.MethodGet, transporttest.PagePath, ""))
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("err = %v, want %q", err, tc.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if data, err := io.ReadAll(resp.Body); err != nil || len(data) != 100 {
				t.Errorf("%d bytes, %v", len(data), err)
			}
		})
	}
}

// Whether the time limit ran out or the caller gave up is told apart.
// A proxy with a certificate of its own is an authority that this machine does not know.
func TestUnknownAuthority(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &send{timeout: 10 * time.Second, limit: 100, next: newNetwork()}
	if _, err = s.RoundTrip(req); err == nil || !strings.Contains(err.Error(), "SSL_CERT_FILE") {
		t.Errorf("err = %v, want SSL_CERT_FILE", err)
	}
}

func TestWhoEndedARequest(t *testing.T) {
	hang := transporttest.Server(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	})
	for _, tc := range []struct {
		name     string
		patience time.Duration // of the caller
		want     string
	}{
		{"the limit", time.Hour, "no answer within 10s"},
		{"the caller", time.Second, context.DeadlineExceeded.Error()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tc.patience)
				defer cancel()
				s := &send{timeout: 10 * time.Second, limit: 100, next: hang}
				_, err := s.RoundTrip(transporttest.Request(t, ctx, http.MethodGet, transporttest.PagePath, ""))
				if err == nil || err.Error() != tc.want {
					t.Errorf("err = %v, want %q", err, tc.want)
				}
			})
		})
	}
}
