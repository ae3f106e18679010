package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/daemon"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"

	"github.com/google/go-cmp/cmp"
)

// journald is the log of a daemon, in both formats.
type journald struct {
	w  *world
	mu sync.Mutex

	text, structured bytes.Buffer
	stuck            chan struct{} // whoever logs waits until this is closed; nil if nobody does
}

// journalled returns the options of a daemon, and its log.
func (w *world) journalled(level slog.Level, change func(*config.Config)) (daemon.Options, *journald) {
	j := &journald{w: w}
	o := w.options(change)
	c := config.Default().Log
	text := c.Handler(part{j, &j.text}, level)
	c.Format = "json"
	o.Log = slog.New(both{slog.NewMultiHandler(text, c.Handler(part{j, &j.structured}, level)), j})
	return o, j
}

// both are the formats of a log that may stand still.
type both struct {
	slog.Handler
	j *journald
}

func (b both) WithAttrs(attrs []slog.Attr) slog.Handler { return both{b.Handler.WithAttrs(attrs), b.j} }

func (b both) Handle(ctx context.Context, r slog.Record) error {
	b.j.mu.Lock()
	stuck := b.j.stuck
	b.j.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	return b.Handler.Handle(ctx, r)
}

// part is one format of the log.
type part struct {
	j   *journald
	out *bytes.Buffer
}

func (p part) Write(b []byte) (int, error) {
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	return p.out.Write(b)
}

// lines returns the lines with an event since the last call: those in JSON, which have to say the
// same as the text.
func (j *journald) lines() []map[string]any {
	j.w.Helper()
	synctest.Wait() // so that nobody is writing
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []map[string]any
	text := strings.Split(strings.TrimSpace(j.text.String()), "\n")
	for i, line := range strings.Split(strings.TrimSpace(j.structured.String()), "\n") {
		if line == "" {
			continue
		}
		attrs := make(map[string]any)
		if err := json.Unmarshal([]byte(line), &attrs); err != nil {
			j.w.Fatalf("%q: %v", line, err)
		}
		if attrs[claim.AttrEvent] == nil {
			continue
		}
		out = append(out, attrs)
		for key, value := range attrs {
			if n, ok := value.(float64); ok {
				value = fmt.Sprintf("%.0f", n)
			}
			if bare, quoted := fmt.Sprintf(" %s=%v", key, value), fmt.Sprintf(" %s=%q", key, value); key != "time" && key != "level" &&
				!strings.Contains(text[i], bare) && !strings.Contains(text[i], quoted) {
				j.w.Errorf("in text there is no %s: %s", bare, text[i])
			}
		}
	}
	j.text.Reset()
	j.structured.Reset()
	return out
}

// says returns the values of those keys in each line since the last call, "-" for none.
func (j *journald) says(keys ...string) []string {
	j.w.Helper()
	var out []string
	for _, line := range j.lines() {
		var values []string
		for _, key := range keys {
			value := "-"
			if line[key] != nil {
				value = fmt.Sprint(line[key])
			}
			values = append(values, value)
		}
		out = append(out, strings.Join(values, " "))
	}
	return out
}

// want compares what the log says since the last call.
func (j *journald) want(what string, keys []string, want ...string) {
	j.w.Helper()
	if diff := cmp.Diff(want, j.says(keys...)); diff != "" {
		j.w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

var whoseTask = []string{claim.AttrEvent, claim.AttrKey, claim.AttrAgent, claim.AttrHolder}

// What happens to a claim has a line each, whoever caused it, and a restart says nothing again.
func TestLogTellsWhatHappens(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		first, second := w.add("First", nil), w.add("Second", nil)
		o, j := w.journalled(slog.LevelInfo, func(c *config.Config) { c.Claim.Timeout = 10 * time.Minute; c.Schedule.Sweep = "@every 100h" })
		n := w.start(o)

		cl := n.mustClaim("Sandman", first)
		lines := j.lines()
		if len(lines) != 1 {
			t.Fatalf("a grant has the lines %v", lines)
		}
		delete(lines[0], "time")
		want := map[string]any{
			"level": "INFO", "msg": "a claim was granted", "event": "granted", "key": "TASK-1", "title": "First", "agent": "Sandman",
			"task": first, "claim": string(cl.ID), "fence": float64(cl.Fence), "until": cl.ExpiresAt.UTC().Format(time.RFC3339),
		}
		if diff := cmp.Diff(want, lines[0]); diff != "" {
			t.Errorf("a grant (-want +got):\n%s", diff)
		}
		if _, err := n.claim("Oracle", first); err == nil {
			t.Error("granted twice")
		}
		if _, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{})); err != nil {
			t.Error(err)
		}
		j.want("a refusal and a renewal", whoseTask)
		mustDo(w, n.complete(cl))
		j.want("completed", append(whoseTask, claim.AttrClaim, claim.AttrSummary), "completed TASK-1 Sandman - "+string(cl.ID)+" done")

		cl = n.mustClaim("Sandman", second)
		w.edit(second, map[string]any{"claimed_by": text("rich_text", "maria")})
		time.Sleep(time.Minute)
		j.want("a person takes the task", whoseTask, "granted TASK-2 Sandman -", "lost TASK-2 Sandman maria")
		if err := n.complete(cl); code(err) != string(api.CodeClaimLost) {
			t.Errorf("err = %v", err)
		}
		j.want("work that is finished too late", whoseTask, "orphaned TASK-2 Sandman maria")

		for _, end := range []struct {
			event string
			do    func(cl api.Claim) error
		}{
			{"released", func(cl api.Claim) error {
				_, err := client.Do(w.Context(), n.Client, api.OpRelease, api.On(string(cl.ID), "", api.StopRequest{Agent: cl.Agent, Reason: "no time"}))
				return err
			}},
			{"failed", func(cl api.Claim) error {
				_, err := client.Do(w.Context(), n.Client, api.OpFail, api.On(string(cl.ID), "", api.FailRequest{Agent: cl.Agent, Reason: "no time"}))
				return err
			}},
			{"blocked", func(cl api.Claim) error {
				_, err := client.Do(w.Context(), n.Client, api.OpBlock, api.On(string(cl.ID), "", api.BlockRequest{Agent: cl.Agent, Reason: "no time"}))
				return err
			}},
		} {
			id := w.add(end.event, nil)
			cl := n.mustClaim("Sandman", id)
			j.lines()
			mustDo(w, end.do(cl))
			j.want(end.event, []string{claim.AttrEvent, claim.AttrTitle, claim.AttrSummary}, end.event+" "+end.event+" no time")
			if end.event == "blocked" {
				_, err := client.Do(w.Context(), n.Client, api.OpReopen, api.ReopenInput{ID: string(cl.Task.ID), Body: &api.ReopenRequest{Agent: "Oracle"}})
				mustDo(w, err)
				j.want("reopened", []string{claim.AttrEvent, claim.AttrTitle, claim.AttrAgent, claim.AttrReason}, "reopened blocked Oracle it was BLOCKED")
			}
		}

		stale, left := w.add("Stale", nil), w.add("Left", nil)
		former := n.mustClaim("Sandman", stale)
		n.mustClaim("Sandman", left)
		j.lines()
		time.Sleep(20 * time.Minute)
		j.want("leases that run out", whoseTask)
		n.mustClaim("Oracle", stale)
		j.want("a stale claim, taken over", append(whoseTask, claim.AttrFormer),
			"granted TASK-6 Oracle Sandman -", "overridden TASK-6 Oracle Sandman "+string(former.ID))
		if _, err := client.Do(w.Context(), n.Client, api.OpSweep, api.KeyedInput[*api.SweepRequest]{}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		j.want("a stale claim, swept", whoseTask, "swept TASK-7 Sandman -")

		n.stop()
		n = w.start(o)
		time.Sleep(time.Minute)
		j.want("a restart", whoseTask)
	})
}

// A daemon that has nothing to tell is silent, however often it syncs, polls and sweeps.
func TestLogIsSilent(t *testing.T) {
	testkit.RacedElsewhere(t)
	testkit.TakesSeconds(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("First", nil)
		w.add("Second", nil)
		o, j := w.journalled(slog.LevelInfo, nil)
		n := w.start(o)
		cl := n.mustClaim("Sandman", id)
		time.Sleep(time.Minute)
		j.lines()
		w.notion.ResetRequests()
		for i := range 60 {
			if i%10 == 0 {
				if _, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{})); err != nil {
					t.Error(err)
				}
			}
			if _, err := client.Do(w.Context(), n.Client, api.OpPoll, api.PollInput{Name: "Oracle", Body: &api.PollRequest{}}); err != nil {
				t.Error(err)
			}
			n.claim("Oracle", id)
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		if syncs := count(w.requests(), "POST query"); syncs < 100 {
			t.Errorf("%d syncs in an hour", syncs)
		}
		if j.text.Len()+j.structured.Len() > 0 {
			t.Errorf("in an hour of polls and syncs:\n%s", &j.text)
		}
	})
}

// unwelcoming is a Notion that refuses requests.
type unwelcoming struct {
	next http.RoundTripper

	mu     sync.Mutex
	status int // 0 if it refuses none
	code   string
}

func (r *unwelcoming) set(status int, code string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.code = status, code
}

func (r *unwelcoming) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	status, code := r.status, r.code
	r.mu.Unlock()
	if status == 0 {
		return r.next.RoundTrip(req)
	}
	body := fmt.Sprintf(`{"object":"error","status":%d,"code":%q,"message":"go\u001b[2J\naway, %s"}`, status, code, req.Header.Get("Authorization"))
	return &http.Response{
		StatusCode: status, Body: io.NopCloser(strings.NewReader(body)),
		Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}},
	}, nil
}

// What Notion refuses has a line, and not one for every sync; nor has what passes by itself.
func TestLogTellsRefusals(t *testing.T) {
	t.Parallel()
	keys := []string{claim.AttrEvent, claim.AttrRequest, claim.AttrStatus, claim.AttrCode, claim.AttrReason}
	inWorld(t, 0, func(w *world) {
		id := w.add("First", nil)
		o, j := w.journalled(slog.LevelInfo, nil)
		server := &unwelcoming{next: o.Transport}
		o.Transport = server
		n := w.start(o)
		time.Sleep(time.Minute)
		j.lines()

		server.set(400, "validation_error")
		if _, err := n.claim("Sandman", id); err == nil {
			t.Error("granted")
		}
		lines := j.says(keys...)
		if want := "notion_refused pages.get 400 validation_error go\ufffd[2J away, Bearer [redacted]"; len(lines) == 0 || lines[0] != want {
			t.Errorf("Notion refuses a claim: %q, want %q", lines, want)
		}
		server.set(401, "unauthorized")
		time.Sleep(30 * time.Minute)
		lines = j.says(claim.AttrEvent, claim.AttrRequest, claim.AttrStatus)
		if slices.Sort(lines); len(slices.Compact(slices.Clone(lines))) != len(lines) || !slices.Contains(lines, "notion_refused databases.query 401") && !slices.Contains(lines, "notion_refused data_sources.query 401") {
			t.Errorf("Notion refuses the token for half an hour: %q", lines)
		}
		time.Sleep(time.Hour)
		again := 0
		for _, line := range j.lines() {
			if n, _ := line[claim.AttrCount].(float64); n > 100 {
				again++
			}
		}
		if again != 1 {
			t.Errorf("an hour later %d lines say that there were hundreds", again)
		}
		server.set(409, "conflict_error")
		time.Sleep(10 * time.Minute)
		server.set(0, "")
		time.Sleep(10 * time.Minute)
		j.want("a conflict", keys)

		away := w.notion.Inject(emulator.Fault{Kind: emulator.Error503})
		time.Sleep(10 * time.Minute)
		away()
		time.Sleep(10 * time.Minute)
		j.want("Notion is down, and back", []string{"level", claim.AttrEvent}, "WARN notion_down", "INFO notion_back")
	})
}

// A log that stands still holds up nothing, and has every line once it goes on.
func TestLogStandsStill(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		ids := []string{w.add("First", nil), w.add("Second", nil), w.add("Third", nil)}
		o, j := w.journalled(slog.LevelInfo, nil)
		n := w.start(o)
		time.Sleep(time.Minute)
		j.lines()
		goOn := make(chan struct{})
		j.mu.Lock()
		j.stuck = goOn
		j.mu.Unlock()
		for _, id := range ids {
			mustDo(w, n.complete(n.mustClaim("Sandman", id)))
		}
		time.AfterFunc(time.Second, func() { // while the daemon stops
			j.mu.Lock()
			defer j.mu.Unlock()
			j.stuck = nil
			close(goOn)
		})
		n.stop()
		j.want("what happened meanwhile", whoseTask,
			"granted TASK-1 Sandman -", "completed TASK-1 Sandman -",
			"granted TASK-2 Sandman -", "completed TASK-2 Sandman -",
			"granted TASK-3 Sandman -", "completed TASK-3 Sandman -")
	})
}

// Of the members of a cluster the one that leads tells, and the next one does not repeat it.
func TestLogOfACluster(t *testing.T) {
	testkit.RacedElsewhere(t)
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		w.add("First", nil)
		oa, ja := w.journalled(slog.LevelInfo, sharing(s, "a"))
		ob, jb := w.journalled(slog.LevelInfo, sharing(s, "b"))
		a := w.start(oa)
		a.led("a")
		b := w.start(ob)
		b.led("a")
		ja.want("the first leader", []string{claim.AttrEvent, "msg", "epoch"}, "leadership this daemon leads 1")
		jb.want("the other one", []string{claim.AttrEvent, "msg", "leader"}, "leadership another daemon leads a")

		cl := b.mustClaim("Sandman", "")
		ja.want("the leader grants", whoseTask, "granted TASK-1 Sandman -")
		jb.want("the door that was asked", whoseTask)
		depose(w, s)
		b.led("b")
		a.led("b")
		mustDo(w, a.complete(cl))
		time.Sleep(time.Minute)
		if got := ja.says(claim.AttrEvent); slices.ContainsFunc(got, func(s string) bool { return s != claim.EventLeadership }) || len(got) < 2 {
			t.Errorf("the former leader says %q", got)
		}
		jb.want("the next leader", []string{claim.AttrEvent, claim.AttrAgent}, "leadership -", "completed Sandman")
	})
}
