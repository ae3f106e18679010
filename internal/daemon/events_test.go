package daemon_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// eventsAfter returns the events after that one, in short: kind, agent, holder, edits, and the
// title of the task.
func (n *node) eventsAfter(after int64) []string {
	n.w.Helper()
	out := []string{}
	_, err := n.Events(n.w.Context(), api.EventsInput{After: after}, false, func(e api.Event) error {
		out = append(out, word(e))
		return nil
	})
	if err != nil {
		n.w.Fatal(err)
	}
	return out
}

func word(e api.Event) string {
	parts := []string{string(e.Kind)}
	for _, part := range []string{e.Agent, e.Holder} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if e.Task != nil {
		parts = append(parts, fmt.Sprintf("%q", e.Task.Title))
	}
	return strings.Join(append(parts, e.Changed...), " ")
}

// last returns the id of the newest event.
func (n *node) last() int64 {
	n.w.Helper()
	id, err := n.Events(n.w.Context(), api.EventsInput{}, false, func(api.Event) error { return nil })
	if err != nil {
		n.w.Fatal(err)
	}
	return id
}

// wantEvents waits until nothing more happens, and checks the events since then.
func (n *node) wantEvents(after int64, want ...string) {
	n.w.Helper()
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, n.eventsAfter(after)); diff != "" {
		n.w.Errorf("events (-want +got):\n%s", diff)
	}
}

// trash moves a page to the trash, as a person.
func (w *world) trash(id string) {
	w.Helper()
	mustDo(w, w.notion.TrashPage(id))
}

func sorted(words []string) []string { return slices.Sorted(slices.Values(words)) }

const interval = 15 * time.Second // the default of sync.interval

func TestEventsOfATasksLife(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		first := w.add("first", nil)
		second := w.add("second", map[string]any{"depends_on": relation(first)})
		n := w.daemon(nil)
		time.Sleep(time.Minute)
		n.wantEvents(0) // earlier states are no news

		cl := n.mustClaim("Sandman", first)
		time.Sleep(time.Minute)
		n.wantEvents(0, `claimed Sandman "first"`)
		after := n.last()
		mustDo(w, n.complete(cl))
		time.Sleep(time.Second)
		n.wantEvents(after, `completed Sandman "first"`, `ready "second"`)

		after = n.last()
		cl = n.mustClaim("Oracle", second)
		if _, err := client.Do(w.Context(), n.Client, api.OpRelease, api.On(string(cl.ID), "", api.StopRequest{Reason: "too hard"})); err != nil {
			w.Fatal(err)
		}
		cl = n.mustClaim("Sandman", second)
		if _, err := client.Do(w.Context(), n.Client, api.OpBlock, api.On(string(cl.ID), "", api.BlockRequest{})); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Minute)
		n.wantEvents(after, `claimed Oracle "second"`, `released Oracle "second"`, `ready "second"`, `claimed Sandman "second"`, `blocked Sandman "second"`)

		after = n.last()
		w.add("third", nil)
		w.edit(second, map[string]any{"status": option("status", "OPEN")})
		time.Sleep(interval)
		if diff := cmp.Diff([]string{`created "third"`, `ready "second"`, `ready "third"`, `unblocked "second"`}, sorted(n.eventsAfter(after))); diff != "" {
			w.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// TestPeoplesEditsOfAHeldTask edits a task while an agent watches its claim.
func TestPeoplesEditsOfAHeldTask(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	type edit struct {
		do func(w *world, id string)
		// lost says that this ends the claim.
		lost bool
		want []string // the events
		// left is the part of the claim that the daemon leaves on the card, if it does not clear
		// all of it.
		left func(*shown)
	}
	status := func(name string) func(*world, string) {
		return func(w *world, id string) { w.edit(id, map[string]any{"status": option("status", name)}) }
	}
	for name, tt := range map[string]edit{
		"open":      {status("OPEN"), true, []string{`claim_lost Sandman "work"`, `released Sandman "work"`, `ready "work"`}, func(s *shown) { *s = openCard }},
		"completed": {status("COMPLETED"), true, []string{`claim_lost Sandman "work"`, `completed Sandman "work"`, `ready "waits"`}, nil},
		"cancelled": {status("CANCELLED"), true, []string{`claim_lost Sandman "work"`, `cancelled Sandman "work"`}, nil},
		"blocked":   {status("BLOCKED"), true, []string{`claim_lost Sandman "work"`, `blocked Sandman "work"`}, nil},
		"cleared": {
			func(w *world, id string) { w.edit(id, map[string]any{"claimed_by": text("rich_text", "")}) },
			true, []string{`claim_lost Sandman "work"`, `released Sandman "work"`}, nil,
		},
		"handed to another agent": {
			func(w *world, id string) { w.edit(id, map[string]any{"claimed_by": text("rich_text", "Oracle")}) },
			true, []string{`claim_lost Sandman Oracle "work"`, `reassigned Sandman Oracle "work"`}, func(s *shown) { s.ClaimedAt, s.Token = "", false },
		},
		"trashed": {
			func(w *world, id string) { w.trash(id) },
			true, []string{`claim_lost Sandman "work"`, `trashed Sandman "work"`}, nil,
		},
		"archived": {
			func(w *world, id string) {
				mustDo(w, w.notion.ArchivePage(id, true))
			},
			true, []string{`claim_lost Sandman "work"`, `trashed Sandman "work"`}, nil,
		},
		"moved":            {(*world).moveAway, true, []string{`claim_lost Sandman "work"`, `trashed Sandman "work"`}, nil},
		"no longer shared": {(*world).unshare, true, []string{`claim_lost Sandman "work"`, `trashed Sandman "work"`}, nil},
		"renamed": {
			func(w *world, id string) { w.edit(id, map[string]any{"Name": text("title", "play")}) },
			false, []string{`edited Sandman "play" title`}, nil,
		},
		"of other priority": {
			func(w *world, id string) { w.edit(id, map[string]any{"priority": option("select", "critical")}) },
			false, []string{`edited Sandman "work" priority`}, nil,
		},
		"of other timeout": {
			func(w *world, id string) { w.edit(id, map[string]any{"claim_timeout_minutes": number(60)}) },
			false, []string{`edited Sandman "work" timeout`}, nil,
		},
		"made to wait": {
			func(w *world, id string) {
				w.edit(id, map[string]any{"depends_on": relation(w.add("more", map[string]any{"status": option("status", "BLOCKED")}))})
			},
			false, []string{`edited Sandman "work" dependencies`, `created "more"`, `blocked "more"`}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				id := w.add("work", nil)
				w.add("waits", map[string]any{"depends_on": relation(id)})
				n := w.daemon(nil)
				cl := n.mustClaim("Sandman", id)
				time.Sleep(3 * time.Minute) // the claim is old news by then
				after := n.last()

				heard := make(chan api.Claim, 1)
				go func() {
					got, err := client.Do(w.Context(), n.Client, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), Agent: "Sandman", After: api.EventsFuture, Wait: time.Hour.String()})
					if err != nil {
						w.Error(err)
					}
					heard <- got
				}()
				time.Sleep(7 * time.Second)
				start := time.Now()
				tt.do(w, id)
				edited := w.page(id)
				got := <-heard
				if took := time.Since(start); took > interval {
					w.Errorf("the agent knew after %v, want %v at most", took, interval)
				}
				if got.Event == nil || word(*got.Event) != tt.want[0] || (got.State == claim.Ended) != tt.lost {
					w.Errorf("answer = %s, event %+v, want %s", got.State, got.Event, tt.want[0])
				}
				if tt.lost && (got.Outcome != claim.EndLost || got.Detail == "" || got.Event.Detail == "" || got.Event.Claim != cl.ID) {
					w.Errorf("the answer does not say how the claim was lost: %+v, event %+v", got, got.Event)
				}
				time.Sleep(interval)
				if diff := cmp.Diff(sorted(tt.want), sorted(n.eventsAfter(after))); diff != "" {
					w.Errorf("events (-want +got):\n%s", diff)
				}
				// Whatever the agent does next preserves the person's edit.
				err := n.complete(cl)
				if tt.lost != (code(err) == string(api.CodeClaimLost)) {
					w.Errorf("completion: err = %v, lost = %v", err, tt.lost)
				}
				time.Sleep(5 * time.Minute)
				if tt.lost {
					n.complete(cl) // says so again
					time.Sleep(5 * time.Minute)
					if diff := cmp.Diff([]string{"orphaned: Sandman"}, w.work()); diff != "" {
						w.Errorf("what was done is not in the task log (-want +got):\n%s", diff)
					}
				}
				page := w.page(id)
				for _, property := range []string{"Name", "priority", "claim_timeout_minutes", "depends_on"} {
					if diff := cmp.Diff(edited.Value(property), page.Value(property)); diff != "" {
						w.Errorf("%s was overwritten (-edited +now):\n%s", property, diff)
					}
				}
				want := show(edited)
				if tt.left != nil {
					tt.left(&want)
				}
				if diff := cmp.Diff(want, show(page)); tt.lost && diff != "" || edited.Trashed != page.Trashed || edited.Archived != page.Archived {
					w.Errorf("the person's edit was overwritten (-edited +now):\n%s", diff)
				}
			})
		})
	}
}

func TestTrashedAndRestored(t *testing.T) {
	testkit.RacedElsewhere(t)
	testkit.TakesSeconds(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		held, free := w.add("held", nil), w.add("free", nil)
		n := w.daemon(nil)
		n.mustClaim("Sandman", held)
		time.Sleep(3 * time.Minute)
		after := n.last()
		w.trash(held)
		w.trash(free)
		time.Sleep(interval)
		n.wantEvents(after, `claim_lost Sandman "held"`, `trashed Sandman "held"`)
		time.Sleep(time.Hour) // a full sync
		after = n.last()
		for _, id := range []string{held, free} {
			mustDo(w, w.notion.RestorePage(id))
		}
		time.Sleep(2 * time.Minute)
		got := sorted(n.eventsAfter(after))
		for i, e := range got { // the sweep of the same minute may have taken the name off before
			got[i] = strings.Replace(e, `restored Sandman "held"`, `restored "held"`, 1)
		}
		if diff := cmp.Diff([]string{`ready "free"`, `ready "held"`, `restored "free"`, `restored "held"`, `swept Sandman "held"`}, got); diff != "" {
			w.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// TestMovedHereOrShared brings old tasks to the board. Sharing is no edit, so only a full sync
// finds it.
func TestMovedHereOrShared(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		moved, shared := w.add("moved", nil), w.add("shared", nil)
		w.moveAway(moved)
		w.unshare(shared)
		time.Sleep(10 * time.Minute)
		n := w.daemon(nil)
		time.Sleep(time.Minute)
		mustDo(w, w.notion.MovePage(moved, w.tasks))
		mustDo(w, w.notion.SharePage(shared))
		time.Sleep(interval + time.Second)
		n.wantEvents(0, `created "moved"`, `ready "moved"`)
		after := n.last()
		time.Sleep(time.Hour)
		n.wantEvents(after, `created "shared"`, `ready "shared"`)
	})
}

func TestEditWhileAClaimSettles(t *testing.T) {
	testkit.RacedElsewhere(t)
	testkit.TakesSeconds(t)
	t.Parallel()
	for name, tt := range map[string]struct {
		edit map[string]any
		code string
		want []string
		left func(*shown) // nothing, if the card showed the claim
	}{
		"cancelled":       {map[string]any{"status": option("status", "CANCELLED")}, "not_open", []string{`cancelled "work"`}, func(s *shown) { *s = shown{Status: "CANCELLED"} }},
		"taken back":      {map[string]any{"status": option("status", "OPEN"), "claimed_by": text("rich_text", "")}, "lost_race", nil, nil},
		"given to Oracle": {map[string]any{"claimed_by": text("rich_text", "Oracle")}, "reserved", []string{`claimed Oracle "work"`}, func(s *shown) { s.ClaimedAt, s.Token = "", false }},
		"renamed":         {map[string]any{"Name": text("title", "play")}, "<nil>", []string{`claimed Sandman "play"`, `edited Sandman "play" title`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				id := w.add("work", nil)
				n := w.daemon(func(c *config.Config) {
					c.Sync.Interval = time.Second // sees the write and the edit
					c.Claim.Settle = 3 * time.Second
				})
				done := make(chan error, 1)
				go func() {
					_, err := n.claim("Sandman", id)
					done <- err
				}()
				time.Sleep(1500 * time.Millisecond)
				w.edit(id, tt.edit)
				edited := show(w.page(id))
				if tt.left != nil {
					tt.left(&edited)
				}
				time.Sleep(time.Second)
				n.wantEvents(0)
				if err := <-done; code(err) != tt.code {
					w.Errorf("claim: err = %v, want %s", err, tt.code)
				}
				time.Sleep(time.Minute)
				n.wantEvents(0, tt.want...)
				if diff := cmp.Diff(edited, show(w.page(id))); diff != "" {
					w.Errorf("the person's edit was overwritten (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// stream is a manual reader of server-sent events.
type stream struct {
	cancel context.CancelFunc
	mu     sync.Mutex
	lines  []string
	ended  chan struct{}
}

func (n *node) stream(path, lastID string) *stream {
	n.w.Helper()
	ctx, cancel := context.WithCancel(n.w.Context())
	s := &stream{cancel: cancel, ended: make(chan struct{})}
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return n.dial(ctx) },
		DisableKeepAlives: true,
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://dibs"+path, nil)
	if err != nil {
		n.w.Fatal(err)
	}
	if lastID != "" {
		r.Header.Set(api.LastEventID, lastID)
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		n.w.Fatal(err)
	}
	if media := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || media != api.EventStream {
		body, _ := io.ReadAll(resp.Body)
		n.w.Fatalf("%s: %s, %s: %s", path, resp.Status, media, body)
	}
	go func() {
		defer close(s.ended)
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			s.mu.Lock()
			s.lines = append(s.lines, lines.Text())
			s.mu.Unlock()
		}
	}()
	return s
}

func (s *stream) read() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.lines...)
}

func TestStreamOfEvents(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		other := w.add("other", nil)
		n := w.daemon(quiet)
		all := n.stream("/v1/events", "")
		oracles := n.stream("/v1/events?agent=Oracle", "")
		others := n.stream("/v1/events?task="+other, "")
		time.Sleep(time.Second)
		cl := n.mustClaim("Sandman", id)
		n.mustClaim("Oracle", other)
		time.Sleep(14 * time.Second)

		lines := all.read()
		want := []string{": alive", "id: 0", "", "id: 1", "event: claimed", "", "id: 2", "event: claimed", ""}
		var got []string
		for _, line := range lines {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				if !strings.HasPrefix(data, `{"id":`) || !strings.Contains(data, `"kind":"claimed","task":{"id":"`) {
					w.Errorf("data: %s", data)
				}
				continue
			}
			got = append(got, line)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			w.Errorf("stream (-want +got):\n%s", diff)
		}
		for name, s := range map[string]*stream{"Oracle's": oracles, "the other task's": others} {
			if text := strings.Join(s.read(), "\n"); strings.Count(text, "data: ") != 1 || !strings.Contains(text, "id: 2\nevent: claimed\n") {
				w.Errorf("%s stream is %s", name, text)
			}
		}
		// A quiet stream sends signs of life with its position.
		mustDo(w, n.complete(cl))
		time.Sleep(16 * time.Second)
		quiet := oracles.read()
		if diff := cmp.Diff([]string{": alive", "id: 3", ""}, quiet[len(quiet)-3:]); diff != "" {
			w.Errorf("the end of a quiet stream (-want +got):\n%s", diff)
		}
		// A reader that reconnects continues where it was.
		again := n.stream("/v1/events?after=0", "1")
		time.Sleep(time.Second)
		if text := strings.Join(again.read(), "\n"); strings.Count(text, "data: ") != 2 || !strings.Contains(text, "id: 3\nevent: completed\n") {
			w.Errorf("the stream after event 1 is %s", text)
		}
		// Readers that leave or stay do not delay the daemon.
		oracles.cancel()
		start := time.Now()
		n.stop()
		if took := time.Since(start); took > time.Second {
			w.Errorf("the daemon took %v to stop", took)
		}
		<-all.ended
	})
}

// TestSlowReader leaves a stream unread while a lot happens.
func TestSlowReader(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		var ids []string
		for i := range 40 {
			ids = append(ids, w.add(fmt.Sprint("Task ", i), nil))
		}
		n := w.daemon(func(c *config.Config) { c.Notion.Rate, c.Notion.Burst = 100, 100 })
		conn, err := n.dial(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /v1/events HTTP/1.1\r\nHost: dibs\r\n\r\n"); err != nil {
			w.Fatal(err)
		}
		start := time.Now()
		for _, id := range ids {
			mustDo(w, n.complete(n.mustClaim("Sandman", id)))
		}
		if took := time.Since(start); took > 40*4*time.Second {
			w.Errorf("40 claims took %v beside a reader that does not read", took)
		}
		time.Sleep(time.Minute)
		// It was disconnected, and can continue where it was.
		conn.SetReadDeadline(time.Now().Add(time.Second))
		if data, err := io.ReadAll(conn); err != nil {
			w.Errorf("the connection of the slow reader is still open: %v after %q", err, data)
		}
		if got := len(n.eventsAfter(0)); got != 80 {
			w.Errorf("%d events, want 80", got)
		}
	})
}

func TestEventsNoLongerKept(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		n := w.daemon(func(c *config.Config) {
			quiet(c)
			c.Events.Keep = 2 * time.Hour
		})
		for range 3 {
			if _, err := client.Do(w.Context(), n.Client, api.OpRelease, api.On(string(n.mustClaim("Sandman", id).ID), "", api.StopRequest{})); err != nil {
				w.Fatal(err)
			}
		}
		time.Sleep(5 * time.Hour)
		n.mustClaim("Sandman", id)
		time.Sleep(2 * time.Hour) // the first nine are pruned by then
		told := n.eventsAfter(3)
		if len(told) < 2 || told[0] != "gap" || told[1] != `claimed Sandman "work"` {
			w.Errorf("events after 3 = %q, want a gap, then those that are kept", told)
		}
		if told := n.eventsAfter(0); told[0] != `claimed Sandman "work"` {
			w.Errorf("all events = %q, want no gap", told)
		}
		if told := n.eventsAfter(9); told[0] == "gap" {
			w.Errorf("events after 9 = %q, want no gap", told)
		}
		if told := n.eventsAfter(1000); len(told) == 0 || told[0] != "gap" {
			w.Errorf("events after one that never was = %q, want a gap", told)
		}
		// A connected reader that selects few events has no gap.
		s := n.stream("/v1/events?agent=Maria", "")
		time.Sleep(time.Hour)
		n.mustClaim("Sandman", id)
		time.Sleep(6 * time.Hour) // and this one, too
		if text := strings.Join(s.read(), "\n"); strings.Contains(text, "gap") {
			w.Errorf("a reader that was there all the time was told of a gap")
		}
		s.cancel()
	})
}

// Whoever ends a claim in Notion, a person, a connection or one of Notion's own agents, is named to
// the agent and in the log, unless the connection may not read users.
func TestEditorsAreNamed(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(nil)
		cleaner, err := w.notion.AddBot("Cleaner", false)
		mustDo(w, err)
		helper, err := w.notion.AddBot("Helper\nof Notion", true)
		mustDo(w, err)
		ada, err := w.notion.AddPerson("Ada", "")
		mustDo(w, err)
		eve, err := w.notion.AddPerson("Eve", "")
		mustDo(w, err)
		for _, tt := range []struct{ user, name string }{{ada, "Ada"}, {cleaner, "Cleaner"}, {helper, "Helper of Notion"}, {ada, "Ada"}, {eve, ""}} {
			if tt.name == "" {
				w.notion.Inject(emulator.Fault{Path: "/v1/users", Kind: emulator.Forbidden403})
			}
			id := w.add("Alpha", nil)
			n.mustClaim("Sandman", id)
			n.react("Sandman", 0)
			w.notion.ResetRequests()
			mustDo(w, w.notion.EditPageAs(tt.user, id, map[string]any{"status": option("status", "CANCELLED")}))
			n.sync()
			got := strings.Join(n.react("Sandman", 0), "\n")
			want := "its status was set to CANCELLED (" + tt.name + " edited the card last)"
			if tt.name == "" {
				want = "its status was set to CANCELLED"
			}
			if !strings.HasSuffix(got, want) {
				w.Errorf("told %q, want %q", got, want)
			}
			asked := 0
			for _, r := range w.notion.Requests() {
				if strings.HasPrefix(r.Path, "/v1/users/") {
					asked++
				}
			}
			if asked > 1 {
				w.Errorf("%d requests for the name of %s", asked, tt.name)
			}
		}
	})
}
