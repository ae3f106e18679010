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
	"strconv"
	"strings"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/task"
)

// view is what an address shows below the header, or in the panel beside that.
type view struct {
	Name, Title string
	Template    string
	Body        any
	// Every is how often an open page reads it again when something changes, at most; zero is a second.
	Every time.Duration
}

// answered is the Every of what answers a form: its address shows something else.
const answered = 24 * time.Hour

// writer returns what an address shows that has such parameters.
type writer func(context.Context, url.Values) (view, error)

// page is the frame of every page.
type page struct {
	glance
	view
	ReadOnly   bool
	User       string
	Main, Pane template.HTML
	// Beside is the address of the list when nothing is beside it; empty where the page is no list.
	Beside string
	// Selected is the task that is beside the list.
	Selected task.ID
}

// Pages are the links of the header.
func (p page) Pages() (all []choice) {
	for _, of := range [][3]string{
		{"now", "Now", "/"}, {"tasks", "Board", "/tasks"}, {"agents", "Agents", "/agents"}, {"activity", "Activity", "/activity"}, {"insights", "Insights", "/insights"}, {"health", "Health", "/health"},
	} {
		all = append(all, choice{Name: of[1], URL: of[2], On: p.Name == of[0]})
	}
	return all
}

// part is what a template of a view has.
type part struct {
	glance
	Body     any
	ReadOnly bool
	User     string
	// Back is where a form leads after it was sent, if not to the task; empty in a page of its own.
	Back     string
	Selected task.ID
}

// listPage answers with one of the lists.
func (b *Board) listPage(w http.ResponseWriter, r *http.Request) {
	b.showList(w, r, http.StatusOK, r.URL, nil)
}

// showList answers with the list of an address, and beside it beside, or what the address asks for.
func (b *Board) showList(w http.ResponseWriter, r *http.Request, status int, at *url.URL, beside *view) {
	q := at.Query()
	v, err := b.lists[at.Path](r.Context(), q)
	if err != nil {
		b.refuse(w, r, v, err)
		return
	}
	p := page{view: v, Beside: without(at, passing...), Selected: task.ID(q.Get("task"))}
	if beside == nil && (q.Get("task") != "" || q.Get("do") != "") {
		one, err := b.beside(r.Context(), q)
		if _, ours := errors.AsType[*missing](err); err != nil && !ours && gone(r) {
			return
		} else if err != nil {
			one = refusedView(err)
		}
		beside = &one
	}
	b.show(w, status, p, beside)
}

// passing are the parameters of what is beside a list, which nothing else leads on with.
var passing = []string{"task", "do", "at", "done", "to", "after", "was"}

// without returns an address without some of its parameters.
func without(at *url.URL, names ...string) string {
	q := at.Query()
	for _, name := range names {
		q.Del(name)
	}
	if len(q) == 0 {
		return at.Path
	}
	return at.Path + "?" + q.Encode()
}

// answer answers with a view, as a page of its own.
func (b *Board) answer(w http.ResponseWriter, r *http.Request, status int, v view, err error) {
	if err != nil {
		b.refuse(w, r, v, err)
		return
	}
	b.show(w, status, page{view: v}, nil)
}

// show writes a page.
func (b *Board) show(w http.ResponseWriter, status int, p page, beside *view) {
	p.glance, p.ReadOnly, p.User = b.state.current(), b.ReadOnly, b.User
	write := func(v view, back string) (template.HTML, error) {
		var out bytes.Buffer
		err := templates().ExecuteTemplate(&out, v.Template, part{p.glance, v.Body, p.ReadOnly, p.User, back, p.Selected})
		return template.HTML(out.String()), err // a template has escaped it
	}
	var err error
	if p.Main, err = write(p.view, ""); err == nil && beside != nil {
		p.Title, p.Every = beside.Title, max(p.Every, beside.Every)
		p.Pane, err = write(*beside, p.Beside)
	}
	if err != nil {
		http.Error(w, "the page could not be written: "+err.Error(), http.StatusInternalServerError)
		return
	}
	render(w, status, "frame.html", p)
}

// missing is an address that leads nowhere.
type missing struct{ Title, Text string }

func (m *missing) Error() string { return m.Text }

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

// refuse answers with the daemon's error, in the place of a view.
func (b *Board) refuse(w http.ResponseWriter, r *http.Request, of view, err error) {
	if m, ok := errors.AsType[*missing](err); ok {
		b.say(w, http.StatusNotFound, m.Title, m.Text)
		return
	}
	if gone(r) {
		return
	}
	status := http.StatusBadGateway
	if p, ok := errors.AsType[*api.Problem](err); ok {
		status = p.Status
	}
	v := refusedView(err)
	v.Name, v.Title = cmp.Or(of.Name, v.Name), cmp.Or(of.Title, v.Title)
	b.show(w, status, page{view: v}, nil)
}

func refusedView(err error) view {
	why := err.Error()
	if p, ok := errors.AsType[*api.Problem](err); ok {
		why = cmp.Or(p.Detail, p.Title)
	}
	return view{Name: "refused", Title: "Not now", Template: "refused.html", Body: text(why, 2*maxLine), Every: 3 * time.Second}
}

// choice is a link that changes the filter.
type choice struct {
	Name string
	URL  string
	On   bool
	N    int // how many tasks it leaves
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
	// lists are the addresses that can have a task or a form beside them, and beside returns that.
	lists  map[string]writer
	beside writer
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
	"words":    func(s any) string { return strings.ReplaceAll(fmt.Sprint(s), "_", " ") },
	"line":     func(s string) string { return text(s, 2*maxLine) },
	"since":    since,
	"initials": initials,
	"hue":      hue,
	"many":     many,
	"plus":     func(a, b int) int { return a + b },
	"over":     func(c card, now time.Time) bool { return c.Until > 0 && c.Until < now.UnixMilli() },
	"list":     func(of ...any) []any { return of },
}

func many(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// grouped formats a number with thousands separators.
func grouped(n int) string {
	out := strconv.Itoa(n)
	for i := len(out) - 3; i > 0; i -= 3 {
		out = out[:i] + "," + out[i:]
	}
	return out
}

// since says how long ago a moment was, in whole units.
func since(ms int64, now time.Time) string {
	switch d := now.Sub(time.UnixMilli(ms)); {
	case d < time.Minute:
		return "< 1 min"
	case d < 2*time.Hour:
		return spoken(d.Round(time.Minute).Seconds())
	case d < 48*time.Hour:
		return spoken(d.Round(time.Hour).Seconds())
	default:
		return fmt.Sprintf("%d d", int(d.Hours()/24))
	}
}

// moment returns a time as an HTML element; the module converts it to the browser's zone.
func moment(at api.Time) template.HTML {
	layout := "15:04"
	if t, now := at.Local(), time.Now(); t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		layout = "2 Jan 15:04"
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
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// maxForm limits a form's bytes. It is more than any form of the board sends: the largest says of
// maxBulk tasks how they were, in any script.
const maxForm = 1 << 20

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

// find finds the task of an address.
func (b *Board) find(ctx context.Context, name string) (api.Task, error) {
	id, err := task.ParseTaskID(name)
	if err != nil {
		return api.Task{}, &missing{"There is no such task", "A task is named by its id."}
	}
	return client.Do(ctx, b.Daemon, api.OpGetTask, api.GetTaskInput{ID: string(id)})
}

// formOf reads the form of a request. ok is false if that was answered already.
func (b *Board) formOf(w http.ResponseWriter, r *http.Request) (ok bool) {
	if err := r.ParseForm(); err != nil {
		b.say(w, http.StatusBadRequest, "The form could not be read", "Go back and try again.")
		return false
	}
	return true
}

// back returns the list that a form was beside; nil for none.
func (b *Board) back(r *http.Request) *url.URL {
	at, err := url.Parse(r.PostFormValue("back"))
	if err != nil || at.Host != "" || at.Scheme != "" || b.lists[at.Path] == nil {
		return nil
	}
	return &url.URL{Path: at.Path, RawQuery: at.RawQuery}
}

// again answers with a form that was not done: where it was.
func (b *Board) again(w http.ResponseWriter, r *http.Request, id task.ID, v view, err error) {
	if at := b.back(r); at != nil && err == nil {
		q := at.Query()
		if id != "" {
			q.Set("task", string(id))
		}
		at.RawQuery = q.Encode()
		b.showList(w, r, http.StatusConflict, at, &v)
		return
	}
	b.answer(w, r, http.StatusConflict, v, err)
}

// done leads to where a form was, or to alone, and says there what was done.
func (b *Board) done(w http.ResponseWriter, r *http.Request, id task.ID, verb, alone string) string {
	to := alone
	if at := b.back(r); at != nil {
		q := at.Query()
		if id != "" && r.PostFormValue("stay") != "" {
			q.Set("task", string(id))
		}
		q.Set("done", verb)
		at.RawQuery = q.Encode()
		to = at.String()
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return to
}
