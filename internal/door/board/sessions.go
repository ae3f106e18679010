package board

import (
	"crypto/rand"
	"crypto/sha256"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// enterPath is the path of one-time links.
const enterPath = "/enter"

// sessions are the browsers that are let in. A one-time token starts a session; its secret is in a
// cookie.
type sessions struct {
	mu      sync.Mutex
	current string
	secrets map[[sha256.Size]byte]bool // by hash
}

func newSessions() *sessions { return &sessions{secrets: make(map[[sha256.Size]byte]bool)} }

// token returns the token for the next session.
func (s *sessions) token() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == "" {
		s.current = rand.Text()
	}
	return s.current
}

// redeem uses up a token and returns the secret of a new session; it returns nothing for a wrong or
// used token. It compares hashes, so that its timing reveals nothing.
func (s *sessions) redeem(token string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == "" || sha256.Sum256([]byte(token)) != sha256.Sum256([]byte(s.current)) {
		return ""
	}
	s.current = ""
	secret := rand.Text() + rand.Text()
	s.secrets[sha256.Sum256([]byte(secret))] = true
	return secret
}

func (s *sessions) valid(secret string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secrets[sha256.Sum256([]byte(secret))]
}

// cookieName differs by port: browsers send the cookies of a host to all of its ports, and there
// may be a board on several.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		port = "80"
	}
	return "dibs_board_" + port
}

// enter exchanges a token for a cookie. The page that follows continues by itself: after a
// redirect, a browser that came from a link in another page would not send the cookie.
func (b *Board) enter(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(cookieName(r)); err == nil && b.sessions.valid(c.Value) {
		http.Redirect(w, r, "/", http.StatusSeeOther) // a second visit of the same browser
		return
	}
	secret := ""
	if r.Method == http.MethodGet { // a HEAD request must not use up the token
		secret = b.sessions.redeem(r.URL.Query().Get("token"))
	}
	if secret == "" {
		b.say(w, http.StatusForbidden, "This link opens nothing any more",
			"A link to the board works once. The program that serves the board shows another one in its terminal.")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	render(w, http.StatusOK, "entered.html", nil)
	b.Log.Info("the board was opened", "from", r.RemoteAddr)
	select {
	case b.entered <- struct{}{}:
	default: // the last one was not read yet
	}
}

// admitted refuses requests without the cookie.
func (b *Board) admitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := r.Cookie(cookieName(r))
		if err != nil || !b.sessions.valid(c.Value) {
			b.say(w, http.StatusUnauthorized, "This board opens by a link",
				"The program that serves the board shows a link in its terminal: open that, in this browser, to be let in.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// policy allows only what the pages need, all from the board itself: no inline code or style, no
// other host, and no text turned into markup by a module.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// maxForm limits a form's bytes. It is more than any form of the board sends.
const maxForm = 64 << 10

// checked checks the host and the origin of a request before anything else.
func (b *Board) checked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case !b.hosted(r.Host):
			b.say(w, http.StatusMisdirectedRequest, "This board has another name",
				"It answers to localhost, to its address, and to names given with --host.")
			return
		case !sameOrigin(r):
			b.say(w, http.StatusForbidden, "Another page asked for this",
				"The board answers only to its own pages: open it by its link.")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next.ServeHTTP(w, r)
	})
}

// hosted reports whether requests may be for that host. Only known names count, as somebody else
// could point any other name at this machine; addresses cannot be pointed elsewhere.
func (b *Board) hosted(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "localhost" || slices.Contains(b.Hosts, name) {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil
}

// sameOrigin reports whether a request comes from the board's own pages, or, if it only reads, from
// the address bar or a link. Browsers name the origin of each change.
func sameOrigin(r *http.Request) bool {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if origin := r.Header.Get("Origin"); origin != "" {
		from, err := url.Parse(origin)
		return err == nil && from.Host != "" && from.Host == r.Host
	} else if !reads {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}
