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

// enterPath is where links lead.
const enterPath = "/enter"

// door lets in who has the cookie, which is given for a one-time token.
type door struct {
	mu       sync.Mutex
	current  string
	sessions map[[sha256.Size]byte]bool
}

func newDoor() *door { return &door{sessions: make(map[[sha256.Size]byte]bool)} }

// token returns the token that can be used once.
func (d *door) token() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == "" {
		d.current = rand.Text()
	}
	return d.current
}

// enter takes a token and returns the secret of a new session, empty for a token that is
// wrong or was used. Tokens and secrets are compared as hashes, so that how long it takes
// tells nothing of them.
func (d *door) enter(token string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == "" || sha256.Sum256([]byte(token)) != sha256.Sum256([]byte(d.current)) {
		return ""
	}
	d.current = ""
	secret := rand.Text() + rand.Text()
	d.sessions[sha256.Sum256([]byte(secret))] = true
	return secret
}

func (d *door) knows(secret string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions[sha256.Sum256([]byte(secret))]
}

// cookieName differs by port: browsers show the cookies of a host to all of its ports, and
// there may be a board on several.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		port = "80"
	}
	return "dibs_board_" + port
}

// enter turns a token into a cookie. The page that follows goes on by itself: were this a
// redirect, a browser that came here from a link in another page would not show the
// cookie at the other end.
func (b *Board) enter(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(cookieName(r)); err == nil && b.door.knows(c.Value) {
		http.Redirect(w, r, "/", http.StatusSeeOther) // again in the same browser
		return
	}
	secret := ""
	if r.Method == http.MethodGet { // to ask for the head of the page is not to open it
		secret = b.door.enter(r.URL.Query().Get("token"))
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
	default: // nobody has heard of the last one yet
	}
}

// admitted lets only requests with the cookie through.
func (b *Board) admitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := r.Cookie(cookieName(r))
		if err != nil || !b.door.knows(c.Value) {
			b.say(w, http.StatusUnauthorized, "This board opens by a link",
				"The program that serves the board shows a link in its terminal: open that, in this browser, to be let in.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// policy allows what the pages need, all from the board itself: no inline code or style,
// no other host, and no way to make markup of text in a module.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// maxForm is more than any form of the board sends, in bytes.
const maxForm = 16 << 10

// guarded checks whom a request is for and where it comes from, before anything else.
func (b *Board) guarded(next http.Handler) http.Handler {
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

// hosted reports whether requests may be for that host. A name that somebody else could
// have pointed at this machine is none of them; addresses cannot be pointed anywhere.
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

// sameOrigin reports whether a request comes from the board's own pages, or, to look at
// something, from the browser's address bar or a link. A browser names the origin of
// each change.
func sameOrigin(r *http.Request) bool {
	looks := r.Method == http.MethodGet || r.Method == http.MethodHead
	if origin := r.Header.Get("Origin"); origin != "" {
		from, err := url.Parse(origin)
		return err == nil && from.Host != "" && from.Host == r.Host
	} else if !looks {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}
