package board

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/task"
)

// How many cards and events a page has until a module adds the rest, and how many cards a list has.
const (
	firstCards = 50
	firstLines = 100
	listCards  = 200
)

// page is the frame of every page.
type page struct {
	View     string // the name of the view
	Title    string
	Place    place
	Now      time.Time
	Health   health
	Pauses   []api.Pause
	ReadOnly bool
	User     string
	Body     any
}

func (b *Board) page(view, title string, g glance, body any) page {
	return page{view, title, g.Place, g.Now, g.Health, g.Pauses, b.ReadOnly, b.User, body}
}

// How long a page, and an action, waits for the daemon: a claim takes a settle wait.
const (
	pageAtMost   = 5 * time.Second
	actionAtMost = 45 * time.Second
)

// patient limits how long requests wait for the daemon, except the stream.
func patient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/live" {
			next.ServeHTTP(w, r)
			return
		}
		limit := pageAtMost
		switch {
		case r.Method == http.MethodPost:
			limit = actionAtMost
		case path.Base(r.URL.Path) == "page":
			limit = contentWait // Notion is asked
		}
		ctx, cancel := context.WithTimeoutCause(r.Context(), limit, errors.New("the daemon takes too long to answer: see dibs status, and its log"))
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// gone reports whether the browser has stopped waiting.
func gone(r *http.Request) bool { return errors.Is(r.Context().Err(), context.Canceled) }

// say answers with a notice, and a way back if the browser is let in.
func (b *Board) say(w http.ResponseWriter, status int, title, text string) {
	inside := status == http.StatusNotFound || status == http.StatusBadRequest
	render(w, status, "notice.html", struct {
		Title, Text string
		Inside      bool
	}{title, text, inside})
}

// refuse answers with the daemon's error.
func (b *Board) refuse(w http.ResponseWriter, r *http.Request, view, title string, err error) {
	if gone(r) {
		return
	}
	status, why := http.StatusBadGateway, err.Error()
	if p, ok := errors.AsType[*api.Problem](err); ok {
		status, why = p.Status, cmp.Or(p.Detail, p.Title)
	}
	render(w, status, "refused.html", b.page(view, title, b.state.current(), text(why, 2*maxLine)))
}

// choices returns the values to choose from, always with the chosen one.
func choices(of []string, chosen string) []string {
	of = append(of, chosen)
	slices.Sort(of)
	return slices.DeleteFunc(slices.Compact(of), func(s string) bool { return s == "" })
}

// Options configures a board.
type Options struct {
	// Daemon answers all questions.
	Daemon *client.Client
	// User is the user in whose name the board acts. Every action names it.
	User string
	// ReadOnly disables every action.
	ReadOnly bool
	// Hosts are the host names allowed in requests, beside localhost and addresses.
	Hosts []string
	// Log records what people do on the board; nil discards it.
	Log *slog.Logger
}

// Board serves pages for people. It is safe for concurrent use.
type Board struct {
	Options
	state *state
	// follower keeps state up to date while Follow runs.
	follower *follower
	sessions *sessions
	static   fs.FS
	// streams has a value for each reader of GET /live; its capacity is maxStreams.
	streams  chan struct{}
	attended attendance
	finished finished
	contents contents
	entered  chan struct{} // has a value when a link was used

	stopOnce sync.Once
	stopped  chan struct{}
}

//go:embed templates static
var files embed.FS

// templates are parsed at first use: every command of dibs has them in its program, and few render.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(functions).ParseFS(files, "templates/*.html"))
})

// functions are what the templates may call.
var functions = template.FuncMap{
	"moment":   moment,
	"dated":    dated,
	"time":     func(ms int64) api.Time { return api.Time{Time: time.UnixMilli(ms)} },
	"spoken":   func(d time.Duration) string { return spoken(d.Seconds()) },
	"seconds":  spoken,
	"lower":    func(s any) string { return strings.ToLower(strings.ReplaceAll(fmt.Sprint(s), "_", " ")) },
	"line":     func(s string) string { return text(s, 2*maxLine) },
	"since":    since,
	"initials": initials,
	"minus":    func(a, b int) int { return a - b },
	"plus":     func(a, b int) int { return a + b },
	"left":     func(c card, now time.Time) int { return c.Left(now) },
	"over":     func(c card, now time.Time) bool { return c.Until > 0 && c.Until < now.UnixMilli() },
	"pair":     func(a, b any) [2]any { return [2]any{a, b} },
}

// since says how long ago a moment was, in whole units.
func since(ms int64, now time.Time) string {
	switch d := now.Sub(time.UnixMilli(ms)); {
	case d < time.Minute:
		return "less than a minute"
	case d < 2*time.Hour:
		return spoken(d.Round(time.Minute).Seconds())
	case d < 48*time.Hour:
		return spoken(d.Round(time.Hour).Seconds())
	default:
		return fmt.Sprintf("%d d", int(d.Hours()/24))
	}
}

// moment returns a time as an HTML element; modules convert it to the browser's zone.
func moment(at api.Time) template.HTML {
	layout := "15:04"
	if t, now := at.Local(), time.Now(); t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		layout = "Jan 2 15:04"
	}
	return timeElement(at, "", layout)
}

// dated is moment, always with the date.
func dated(at api.Time) template.HTML { return timeElement(at, " data-dated", dayLayout) }

func timeElement(at api.Time, attribute, layout string) template.HTML {
	if at.IsZero() {
		return "–"
	}
	// None of this is text by others.
	return template.HTML(fmt.Sprintf(`<time datetime="%s"%s>%s</time>`, at.UTC().Format(time.RFC3339), attribute, at.Local().Format(layout)))
}

// render answers with a page.
func render(w http.ResponseWriter, status int, name string, what any) {
	var out bytes.Buffer
	if err := templates().ExecuteTemplate(&out, name, what); err != nil {
		http.Error(w, "the page could not be written: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	out.WriteTo(w)
}

func staticFiles() fs.FS {
	static, err := fs.Sub(files, "static")
	if err != nil {
		panic(err) // it is embedded
	}
	return static
}

// staticHandler serves the style sheet, the modules and the icon. They are public, as the page for
// strangers needs its style.
func (b *Board) staticHandler() http.Handler {
	server := http.FileServerFS(b.static)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "" || strings.HasSuffix(r.URL.Path, "/") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-cache")
		server.ServeHTTP(w, r)
	})
}

// spoken formats a number of seconds in the largest unit that fits.
func spoken(seconds float64) string {
	switch {
	case seconds < 60:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 3600:
		return trim(seconds/60) + " min"
	case seconds < 48*3600:
		return trim(seconds/3600) + " h"
	}
	return trim(seconds/86400) + " d"
}

func trim(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }

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

// taskOf finds the task of a request.
func (b *Board) taskOf(w http.ResponseWriter, r *http.Request) (api.Task, bool) {
	id, err := task.ParseTaskID(r.PathValue("id"))
	if err != nil {
		b.say(w, http.StatusNotFound, "There is no such task", "A task is named by its id.")
		return api.Task{}, false
	}
	t, err := client.Do(r.Context(), b.Daemon, api.OpGetTask, api.GetTaskInput{ID: string(id)})
	if err != nil {
		b.refuse(w, r, "task", "Task", err)
	}
	return t, err == nil
}
