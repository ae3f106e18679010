package daemon_test

import (
	"bytes"
	"context"
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

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/journal/inbox"
	"dibs/internal/journal/journaltest"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit/referee"
)

// judge waits until everything is quiet, and looks at what is left.
func (m *mesh) judge() {
	m.settle()
	m.empty()
	m.checkBoard()
	for _, l := range m.lines {
		l.stopped()
	}
	m.ghost.Wait()
	var facts []claim.Fact
	for _, l := range m.lines {
		facts = append(facts, m.facts(l)...)
	}
	m.book.CheckRecord(facts)
	dbs := m.notion.Databases()
	referee.CheckLogs(m.book.Book, facts, map[claim.Log][]emulator.Page{
		claim.MeshLog: m.notion.Pages(dbs.MeshLog), claim.TaskLog: m.notion.Pages(dbs.TaskLog),
	}, func(p emulator.Page) time.Time { return p.Created })
	m.checkHolds(facts)
}

// settle waits until no daemon has anything left to do, and no page shows a claim.
func (m *mesh) settle() {
	var left []string
	for range 6 * 12 {
		time.Sleep(5 * time.Minute)
		left = nil
		for _, l := range m.lines {
			left = append(left, l.unquiet()...)
		}
		for _, p := range m.notion.Pages(m.tasks) {
			nobodys := p.Text("claimed_by")+p.Date("claimed_at")+p.Text("claim_token") == "" // which only people may open
			if referee.Left(p) && !p.Trashed && !nobodys {
				left = append(left, fmt.Sprintf("%q is %s", m.book.title(p.ID), referee.Shows(p)))
			}
		}
		if len(left) == 0 {
			return
		}
	}
	m.book.Complain("all is quiet, and yet:\n  %s", strings.Join(left, "\n  "))
}

// empty has the agents take all that is left for them, twice, so that what was taken and not
// acknowledged comes back in between; and then nothing is there that was acknowledged.
func (m *mesh) empty() {
	for range 3 {
		for _, h := range m.crew {
			for h.poll() > 0 {
			}
		}
		time.Sleep(visibility + time.Minute)
	}
	m.book.inbox.CheckTold()
}

// checkBoard looks whether anything is left of claims, and whether what is free can be had.
func (m *mesh) checkBoard() {
	late := newHand(m, 99, m.lines[0])
	for _, p := range m.notion.Pages(m.tasks) {
		token := claim.ParseToken(p.Text("claim_token"))
		switch {
		case !token.Void || p.Trashed:
		case m.leftAlone(p):
			m.count("void marks that the timeout decides about")
		default:
			m.book.Complain("%q shows a void mark: %s", m.book.title(p.ID), referee.Shows(p))
		}
		if p.Select("status") != "OPEN" || p.Trashed || p.Text("claimed_by") != "" {
			continue
		}
		_, err := ask(late, "a claim of "+m.book.title(p.ID), func(ctx context.Context, c *client.Client, key string) (api.Claim, error) {
			cl, err := client.Do(ctx, c, api.OpClaim, api.Keyed(key, api.ClaimRequest{Agent: late.name, Task: p.ID}))
			if err == nil {
				_, err = client.Do(ctx, c, api.OpRelease, api.On(string(cl.ID), key+"-back", api.StopRequest{Agent: late.name}))
			}
			return cl, err
		})
		if err != nil && code(err) != denied(claim.CodeBlockedByDependency) {
			m.book.Complain("%q is free, and cannot be had: %v", m.book.title(p.ID), err)
		}
	}
	time.Sleep(time.Minute)
}

// leftAlone reports whether a void mark may stay on a page. A daemon that was away does not touch it any
// more once the lease that it shows is over. A sweep still takes it off a task that is IN_PROGRESS.
func (m *mesh) leftAlone(p emulator.Page) bool {
	const grace = 2 * time.Minute // which a daemon needs to take it off
	at, err := time.Parse(time.RFC3339, p.Date("claimed_at"))
	if err != nil || p.Select("status") == "IN_PROGRESS" {
		return false
	}
	lease := m.lease
	if minutes := p.Number("claim_timeout_minutes"); minutes > 0 {
		lease = time.Duration(minutes) * time.Minute
	}
	return m.book.AwayAt(at.Add(time.Minute+lease), grace)
}

// facts are what the journal of a stopped daemon says, which must be sound.
func (m *mesh) facts(l *dynasty) []claim.Fact {
	facts, err := journaltest.Facts(m.Context(), l.journal())
	mustDo(m.world, err)
	found, err := journal.Inspect(m.Context(), l.journal())
	mustDo(m.world, err)
	for _, c := range found.Live {
		m.book.Complain("%s: claim %s of %s on %q is stuck: %s, due at %v", l.name(), c.ID, c.Agent, c.Task.Title, c.State, c.Due)
	}
	for _, mark := range found.Marks {
		// What waits for a late write is forgotten after a day.
		if mark.State != claim.Unseen {
			m.book.Complain("%s: mark %s (%s) beside %s on %q is stuck: %s, due at %v", l.name(), mark.ID, mark.Why, mark.Agent, mark.Task.Title, mark.State, mark.Due)
		}
	}
	return facts
}

// checkHolds looks for claims that were lost for no reason, and for two agents that trusted to have one
// task at the same time.
func (m *mesh) checkHolds(facts []claim.Fact) {
	for _, f := range facts {
		h := m.book.Hold(f.Claim)
		switch {
		case f.Kind != claim.KindLost || h.ID == "":
		case m.book.Reason(h, f.At):
			m.book.Ended(h.ID, f.At, "its daemon found it lost")
		case f.At.Before(h.Expires.Add(-time.Minute)):
			m.book.Complain("claim %s of %s on %q was lost at %s, and nobody had touched the task", h.ID, h.Agent, m.book.title(h.Task), f.At.Format(time.TimeOnly))
		}
	}
	stories, excused := m.book.Doubles()
	for range excused {
		m.count("doubles that package claim leaves possible")
	}
	for task, story := range stories {
		m.book.Complain("two agents had %q at the same time:\n%s", m.book.title(task), story)
	}
}

// book is what is known of a mesh without asking its daemons.
type book struct {
	*referee.Book
	inbox *referee.Inbox

	mu       sync.Mutex
	titles   map[string]string   // of tasks, by ids
	offers   map[string]int      // how many there may have been, by who made them and task
	answers  map[string][]string // the ids of what came of them, in the same way
	reserves []*keeping
}

// keeping is an agent's reservation, as it was told.
type keeping struct {
	line         int
	thing, agent string
	from, to     time.Time
}

func newBook() *book {
	b := referee.NewBook()
	return &book{
		Book: b, inbox: referee.NewInbox(b, visibility),
		titles: make(map[string]string), offers: make(map[string]int), answers: make(map[string][]string),
	}
}

func (b *book) named(id, title string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.titles[id] = title
}

// title is what a task was called at first.
func (b *book) title(id string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.titles[id]
}

// granted notes that an agent was told of its claim, for which it asked first at call.
func (b *book) granted(h *hand, call time.Time, cl api.Claim) {
	b.Granted(referee.Hold{
		ID: cl.ID, Task: string(cl.Task.ID), Agent: h.name, Daemon: h.line.number, Call: call, Expires: cl.ExpiresAt.Time,
	})
}

// gaveUp notes that an agent says that it does not want a task, from now on.
func (b *book) gaveUp(h *hand, task string) {
	for _, g := range b.Holds() {
		if g.Agent == h.name && g.Task == task {
			b.Ended(g.ID, time.Now(), "its agent is to decline the task")
		}
	}
}

// shown notes that a trigger was handed to an agent. Each message that an agent sends has a text of its
// own. The others are about a task: they say what came of an offer, with words that are always the same.
func (b *book) shown(h *hand, taker string, t api.Trigger) {
	message := t.Type == inbox.Message
	if !b.inbox.Show(h.name, taker, t.ID, named(t), message && t.Task == nil) || !message || t.Task == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key := h.name + " " + string(t.Task.ID)
	b.answers[key] = append(b.answers[key], t.ID)
	if ids := b.answers[key]; len(ids) > b.offers[key] {
		b.Complain("%s is told %q of %q, the last of %s, and made %d offers of it", h.name, t.Text, b.titles[string(t.Task.ID)], strings.Join(ids, ", "), b.offers[key])
	}
}

// offered notes that an agent is about to offer a task.
func (b *book) offered(h *hand, task string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.offers[h.name+" "+task]++
}

// reserved notes that an agent was told that it has something for itself.
func (b *book) reserved(h *hand, thing string, r api.Reservation) *keeping {
	b.mu.Lock()
	defer b.mu.Unlock()
	const clocks = 2 * time.Second // by which ideas of the time may differ
	k := &keeping{h.line.number, thing, h.name, time.Now(), r.ExpiresAt.Time}
	for _, other := range b.reserves {
		if other.line != k.line || other.thing != thing {
			continue
		}
		if other.agent == k.agent && other.to.After(k.from) {
			other.to = k.from // this one takes its place, and may be shorter
		}
		if other.agent != k.agent && other.to.After(k.from.Add(clocks)) {
			b.Complain("%s has %s until %v, and %s was given it", other.agent, thing, other.to, k.agent)
		}
	}
	b.reserves = append(b.reserves, k)
	return k
}

// unreserved notes that an agent is about to give back what it has reserved. Who reserves the same
// twice has one reservation.
func (b *book) unreserved(k *keeping) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.reserves {
		if now := time.Now(); r.line == k.line && r.agent == k.agent && r.thing == k.thing && now.Before(r.to) {
			r.to = now
		}
	}
}

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
	request := fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body)
	w.trace.add(w.who, "> %s", request)
	in := r.Clone(r.Context())
	in.Body, in.RequestURI, in.Host = io.NopCloser(bytes.NewReader(body)), r.URL.RequestURI(), r.URL.Host
	in.URL.Scheme, in.URL.Host = "", ""
	out := httptest.NewRecorder()
	if cut := carried(w.notion, out, in); cut || r.Context().Err() != nil {
		w.trace.add(w.who, "< cut off: %.60s", request)
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		return nil, io.ErrUnexpectedEOF
	}
	w.trace.add(w.who, "< %d %s %.60s", out.Code, digest(out.Body.Bytes()), request)
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
