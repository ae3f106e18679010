package emulator_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"dibs/internal/notion/emulator"
)

// counted counts the bytes read.
type counted struct {
	io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

// TestStrangers sends a large body without the token: little of it is read, and nothing kept.
func TestStrangers(t *testing.T) {
	e, err := emulator.New(emulator.Options{Token: "right"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, path := range []string{"/v1/pages", "/_emulator/faults"} {
		body := &counted{Reader: strings.NewReader(strings.Repeat("[", 8<<20))}
		r := httptest.NewRequest("POST", path, body)
		r.Header.Set("Authorization", "Bearer wrong")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized || body.n > 64<<10 {
			t.Errorf("%s: answered %d after %d bytes", path, w.Code, body.n)
		}
	}
	for _, r := range e.Requests() {
		if len(r.Body) > 0 {
			t.Errorf("%d bytes of %s were kept", len(r.Body), r.Path)
		}
	}
}

func TestHostsOfEmulator(t *testing.T) {
	h := emulator.Addressed([]string{"emulator"}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]int{
		"127.0.0.1:8787": 200, "[::1]:80": 200, "localhost": 200, "LOCALHOST:1": 200, "192.168.0.7:8787": 200, "emulator:8787": 200,
		"rebound.example:8787": 421, "localhost.rebound.example": 421, "": 421,
	} {
		r := httptest.NewRequest("GET", "/v1/users/me", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("host %q: answered %d, want %d", host, w.Code, want)
		}
	}
}
