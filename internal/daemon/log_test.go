package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
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

// journald is the log of a daemon, in JSON.
type journald struct {
	w     *world
	mu    sync.Mutex
	out   bytes.Buffer
	stuck chan struct{} // whoever logs waits until this is closed; nil if nobody does
}

// journalled returns the options of a daemon, and its log.
func (w *world) journalled(change func(*config.Config)) (daemon.Options, *journald) {
	j, o, c := &journald{w: w}, w.options(change), config.Default().Log
	c.Format = "json"
	o.Log = slog.New(stalling{c.Handler(j, slog.LevelInfo), j})
	return o, j
}

func (j *journald) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.out.Write(b)
}

// stalling is a handler that stands still while its log is stuck.
type stalling struct {
	slog.Handler
	j *journald
}

func (s stalling) WithAttrs(attrs []slog.Attr) slog.Handler {
	return stalling{s.Handler.WithAttrs(attrs), s.j}
}

func (s stalling) Handle(ctx context.Context, r slog.Record) error {
	s.j.mu.Lock()
	stuck := s.j.stuck
	s.j.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	return s.Handler.Handle(ctx, r)
}

// lines returns the lines with an event since the last call.
func (j *journald) lines() (out []map[string]any) {
	j.w.Helper()
	synctest.Wait() // so that nobody is writing
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.out.String()) {
		attrs := make(map[string]any)
		if err := json.Unmarshal([]byte(line), &attrs); err != nil {
			j.w.Fatalf("%q: %v", line, err)
		}
		if attrs[claim.AttrEvent] != nil {
			out = append(out, attrs)
		}
	}
	j.out.Reset()
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
		o, j := w.journalled(func(c *config.Config) { c.Claim.Timeout = 10 * time.Minute; c.Schedule.Sweep = "@every 100h" })
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
		_, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{}))
		mustDo(w, err)
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

		blocked := w.add("Blocked", nil)
		mustDo(w, n.block(n.mustClaim("Sandman", blocked), "no time", ""))
		_, err = client.Do(w.Context(), n.Client, api.OpReopen, api.ReopenInput{ID: blocked, Body: &api.ReopenRequest{Agent: "Oracle"}})
		mustDo(w, err)
		j.want("blocked, and reopened", []string{claim.AttrEvent, claim.AttrTitle, claim.AttrAgent, claim.AttrSummary, claim.AttrReason},
			"granted Blocked Sandman - -", "blocked Blocked Sandman no time -", "reopened Blocked Oracle - it was BLOCKED")

		stale, left := w.add("Stale", nil), w.add("Left", nil)
		former := n.mustClaim("Sandman", stale)
		n.mustClaim("Sandman", left)
		j.lines()
		time.Sleep(20 * time.Minute)
		j.want("leases that run out", whoseTask)
		n.mustClaim("Oracle", stale)
		j.want("a stale claim, taken over", append(whoseTask, claim.AttrFormer),
			"granted TASK-4 Oracle Sandman -", "overridden TASK-4 Oracle Sandman "+string(former.ID))
		_, err = client.Do(w.Context(), n.Client, api.OpSweep, api.KeyedInput[*api.SweepRequest]{})
		mustDo(w, err)
		time.Sleep(time.Minute)
		j.want("a stale claim, swept", whoseTask, "swept TASK-5 Sandman -")

		n.stop()
		w.start(o)
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
		o, j := w.journalled(nil)
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
		if syncs := count(w.requests(), "POST query"); syncs < 100 {
			t.Errorf("%d syncs in an hour", syncs)
		}
		if synctest.Wait(); j.out.Len() > 0 {
			t.Errorf("in an hour of polls and syncs:\n%s", &j.out)
		}
	})
}

// What Notion refuses has a line, without secrets, and that it is down, and back; what passes by itself
// has none. (Package transport shows that there is not one for every sync.)
func TestLogTellsRefusals(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("First", nil)
		o, j := w.journalled(nil)
		n := w.start(o)
		time.Sleep(time.Minute)
		j.lines()
		w.notion.Inject(emulator.Fault{Kind: emulator.Forbidden403, Path: "/v1/pages", Times: 1})
		if _, err := n.claim("Sandman", id); err == nil {
			t.Error("granted")
		}
		j.want("Notion refuses a claim", []string{claim.AttrEvent, claim.AttrRequest, claim.AttrStatus, claim.AttrCode}, "notion_refused pages.get 403 restricted_resource")
		for kind, want := range map[emulator.FaultKind][]string{emulator.Conflict409: nil, emulator.Error503: {"WARN notion_down", "INFO notion_back"}} {
			away := w.notion.Inject(emulator.Fault{Kind: kind})
			time.Sleep(10 * time.Minute)
			away()
			time.Sleep(10 * time.Minute)
			j.want(string(kind), []string{"level", claim.AttrEvent}, want...)
		}
	})
}

// A log that stands still holds up nothing, and has every line once it goes on.
func TestLogStandsStill(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		ids := []string{w.add("First", nil), w.add("Second", nil), w.add("Third", nil)}
		o, j := w.journalled(nil)
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
		oa, ja := w.journalled(sharing(s, "a"))
		ob, jb := w.journalled(sharing(s, "b"))
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
