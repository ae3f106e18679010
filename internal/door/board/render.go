package board

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"time"

	"dibs/internal/api"
)

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

// dayLayout is that of a moment with its date.
const dayLayout = "2 Jan 2006, 15:04"

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
