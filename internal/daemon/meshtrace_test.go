package daemon_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/internal/notion/emulator"
)

// trace is what happened in a mesh: each line has the virtual time in nanoseconds, and those of
// one moment are a set, in the order of their letters. Two runs are the same run if their traces
// are the same.
type trace struct {
	began time.Time

	mu    sync.Mutex
	now   time.Duration
	lines []string
	first int // the first line of now
}

func (t *trace) add(who, format string, args ...any) {
	at := time.Since(t.began)
	line := fmt.Sprintf("%18.9f %s ", at.Seconds(), who) + fmt.Sprintf(format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if at != t.now {
		t.now, t.first = at, len(t.lines)
	}
	i, known := slices.BinarySearch(t.lines[t.first:], line)
	if !known {
		t.lines = slices.Insert(t.lines, t.first+i, line)
	}
}

// hash tells this trace from others.
func (t *trace) hash() string {
	sum := sha256.Sum256([]byte(t.String()))
	return hex.EncodeToString(sum[:8])
}

func (t *trace) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}

// line is one of the trace; empty behind the last.
func (t *trace) line(i int) string {
	if i >= len(t.lines) {
		return ""
	}
	return t.lines[i]
}

// ulids are the ids of claims, entries and triggers.
var ulids = regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b`)

// about returns the lines that have a word in them.
func (t *trace) about(word string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out strings.Builder
	for _, line := range t.lines {
		if strings.Contains(line, word) {
			fmt.Fprintln(&out, line)
		}
	}
	return out.String()
}

// chance is a number that a seed draws for one moment and one thing. It depends on no draw
// before it, so that two things at one moment may come in either order.
func chance(seed uint64, what ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, append([]any{seed, time.Now().UnixNano()}, what...)...)
	x := h.Sum64() // FNV mixes its last bytes poorly
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// wire carries a daemon's requests to the emulator, and writes them down. There is no HTTP
// connection in between, whose goroutines would run in any order.
type wire struct {
	who    string
	notion *emulator.Emulator
	trace  *trace
}

// RoundTrip implements http.RoundTripper.
func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	said := fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body)
	w.trace.add(w.who, "> %s", said)
	in := r.Clone(r.Context())
	in.Body, in.RequestURI, in.Host = io.NopCloser(bytes.NewReader(body)), r.URL.RequestURI(), r.URL.Host
	in.URL.Scheme, in.URL.Host = "", ""
	out := httptest.NewRecorder()
	if cut := carried(w.notion, out, in); cut || r.Context().Err() != nil {
		w.trace.add(w.who, "< cut off: %.60s", said)
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		return nil, io.ErrUnexpectedEOF
	}
	w.trace.add(w.who, "< %d %s %.60s", out.Code, digest(out.Body.Bytes()), said)
	answer := out.Result()
	answer.Request = r
	return answer, nil
}

// carried reports whether the connection was cut instead of an answer.
func carried(h http.Handler, w http.ResponseWriter, r *http.Request) (cut bool) {
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			cut = true
		} else if p != nil {
			panic(p)
		}
	}()
	h.ServeHTTP(w, r)
	return false
}

var requestID = regexp.MustCompile(`"request_id":"[^"]*"`)

// digest tells one answer from others, but for what is never the same.
func digest(body []byte) string {
	h := fnv.New32a()
	h.Write(requestID.ReplaceAll(body, nil))
	return fmt.Sprintf("%d bytes %08x", len(body), h.Sum32())
}
