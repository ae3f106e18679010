package wording_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"dibs/internal/claim"
	"dibs/internal/outbox/wording"

	"github.com/google/go-cmp/cmp"
)

// line returns the line of a fact in a log of that level, without its time; empty for none.
func line(f claim.Fact, level slog.Level, handler func(*bytes.Buffer, *slog.HandlerOptions) slog.Handler) string {
	var out bytes.Buffer
	lines := wording.NewLines(slog.New(handler(&out, &slog.HandlerOptions{
		Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	if lines.Want(f) {
		lines.Write(f)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func inText(out *bytes.Buffer, o *slog.HandlerOptions) slog.Handler {
	return slog.NewTextHandler(out, o)
}
func inJSON(out *bytes.Buffer, o *slog.HandlerOptions) slog.Handler {
	return slog.NewJSONHandler(out, o)
}

func TestLine(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 4, 15, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		fact claim.Fact
		want string
	}{
		{
			claim.Fact{
				Kind: claim.KindReleased, Task: "4c1d", Key: "T-3", Title: "Fix the ladder", Agent: "Sandman", Claim: "01K", Fence: 7,
				Holder: "Oracle", Expires: at.Add(400 * time.Millisecond), Summary: "yours",
			},
			`level=INFO msg="a task was given back" event=released key=T-3 title="Fix the ladder" agent=Sandman holder=Oracle task=4c1d claim=01K fence=7 until=2026-05-04T15:00:00Z summary=yours`,
		},
		{
			claim.Fact{Kind: claim.KindGranted, Task: "4c1d", Agent: "Oracle", Claim: "01L", Fence: 8, Assigned: true},
			`level=INFO msg="a claim was granted" event=granted agent=Oracle task=4c1d claim=01L fence=8 assigned=true`,
		},
		{
			claim.Fact{Kind: claim.KindSwept, Task: "4c1d", Agent: "Oracle", Holder: "Oracle", By: "user ada", Detail: "its lease ran out"},
			`level=INFO msg="a stale claim was swept" event=swept agent=Oracle by="user ada" task=4c1d reason="its lease ran out"`,
		},
		{
			claim.Fact{Kind: claim.KindOverridden, Task: "4c1d", Agent: "Oracle", Holder: "Sandman", Former: "01K"},
			`level=INFO msg="a stale claim was taken over" event=overridden agent=Oracle holder=Sandman task=4c1d former=01K`,
		},
		{
			claim.Fact{Kind: claim.KindCommented, Task: "4c1d", By: claim.Sweeper, Summary: "it waits for itself"},
			`level=INFO msg="a task was told that it can never become ready" event=commented by=` + claim.Sweeper + ` task=4c1d summary="it waits for itself"`,
		},
		{
			claim.Fact{Kind: claim.KindDenied, Task: "4c1d", Agent: "Oracle", Holder: "Sandman", Code: claim.CodeHeld, Count: 3},
			`level=DEBUG msg="a claim was denied" event=denied agent=Oracle holder=Sandman task=4c1d code=held count=3`,
		},
	} {
		if diff := cmp.Diff(tt.want, line(tt.fact, slog.LevelDebug, inText)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// At info is what changes who has a task, or ends the work on it.
func TestLineLevels(t *testing.T) {
	t.Parallel()
	for kind, level := range map[claim.Kind]slog.Level{
		claim.KindGranted: slog.LevelInfo, claim.KindCompleted: slog.LevelInfo, claim.KindReview: slog.LevelInfo, claim.KindFailed: slog.LevelInfo,
		claim.KindBlocked: slog.LevelInfo, claim.KindReleased: slog.LevelInfo, claim.KindLost: slog.LevelInfo, claim.KindOrphaned: slog.LevelInfo,
		claim.KindOverridden: slog.LevelInfo, claim.KindSwept: slog.LevelInfo, claim.KindReopened: slog.LevelInfo, claim.KindWithdrawn: slog.LevelInfo,
		claim.KindConflict: slog.LevelInfo,
		claim.KindDenied:   slog.LevelDebug, claim.KindContested: slog.LevelDebug, claim.KindRenewed: slog.LevelDebug, claim.KindExpiring: slog.LevelDebug,
		claim.KindCleared: slog.LevelDebug, claim.KindAdded: slog.LevelDebug, claim.KindCommented: slog.LevelDebug, claim.KindMessage: slog.LevelDebug,
		claim.KindReserved: slog.LevelDebug, claim.KindUnreserved: slog.LevelDebug,
	} {
		f := claim.Fact{Kind: kind, Agent: "Sandman"}
		if got := line(f, level, inText); !strings.HasPrefix(got, "level="+level.String()) || !strings.Contains(got, " event="+string(kind)+" ") {
			t.Errorf("%s: %s", kind, got)
		}
		if got := line(f, level+1, inText); got != "" {
			t.Errorf("%s above its level: %s", kind, got)
		}
	}
}

// Whatever others wrote, it is one short line of visible characters.
func TestLineIsOneLine(t *testing.T) {
	t.Parallel()
	hostile := "a\nb\r\x1b[2J\x07\u202e\u2028\u200b level=ERROR event=lost \"}\n{" + strings.Repeat("é\x00", 100_000)
	f := claim.Fact{
		Kind: claim.KindFailed, Task: "4c1d", Key: hostile, Title: hostile, Agent: hostile, Holder: "x" + hostile, By: hostile,
		Claim: claim.ID(hostile), Former: claim.ID(hostile), Code: claim.Code(hostile), Detail: hostile, Summary: hostile,
	}
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	if got := line(f, slog.LevelInfo, inText); strings.ContainsFunc(got, hidden) || len(got) > 8000 || strings.Count(got, " event=lost") != strings.Count(got, " level=ERROR event=lost") {
		t.Errorf("in text: %d bytes, %.2000q", len(got), got)
	}
	var attrs map[string]any
	got := line(f, slog.LevelInfo, inJSON)
	if err := json.Unmarshal([]byte(got), &attrs); err != nil || len(got) > 8000 {
		t.Fatalf("in JSON: %d bytes, %.2000q: %v", len(got), got, err)
	}
	if len(attrs) != 14 || attrs[claim.AttrEvent] != "failed" {
		t.Errorf("in JSON: %d keys, %v", len(attrs), attrs)
	}
	for key, value := range attrs {
		if s, _ := value.(string); strings.ContainsFunc(s, hidden) || utf8.RuneCountInString(s) > 240 {
			t.Errorf("%s: %q", key, s)
		}
	}
}

// The titles of entries are sentences for people, without codes.
func TestTitles(t *testing.T) {
	at := time.Date(2026, 11, 22, 14, 2, 30, 0, time.UTC)
	denied := func(code claim.Code, holder string, expires time.Time) claim.Fact {
		return claim.Fact{Kind: claim.KindDenied, Code: code, Holder: holder, Expires: expires}
	}
	for _, tt := range []struct {
		event claim.Fact
		want  string
	}{
		{claim.Fact{Kind: claim.KindGranted}, "Oracle claimed “Fix the login”"},
		{claim.Fact{Kind: claim.KindGranted, Holder: "Sandman"}, "Oracle claimed “Fix the login”, after the claim of Sandman had run out"},
		{denied(claim.CodeHeld, "Sandman", at.Add(30*time.Minute)), "Oracle was refused “Fix the login”: held by Sandman until 14:32 UTC"},
		{denied(claim.CodeHeld, "Sandman", at.Add(24*time.Hour)), "Oracle was refused “Fix the login”: held by Sandman until 23 Nov 14:02 UTC"},
		{denied(claim.CodeHeld, "", time.Time{}), "Oracle was refused “Fix the login”: somebody holds it"},
		{denied(claim.CodeReserved, "Maria", time.Time{}), "Oracle was refused “Fix the login”: reserved for Maria"},
		{denied(claim.CodeLostRace, "Sandman", at), "Oracle was refused “Fix the login”: Sandman was faster"},
		{denied(claim.CodeLostRace, "", time.Time{}), "Oracle was refused “Fix the login”: its claim was overruled"},
		{denied(claim.CodeNotOpen, "", time.Time{}), "Oracle was refused “Fix the login”: it is not open"},
		{denied(claim.CodeBlockedByDependency, "", time.Time{}), "Oracle was refused “Fix the login”: it waits for another task"},
		{claim.Fact{Kind: claim.KindSwept, Holder: "Sandman"}, "Sandman's claim on “Fix the login” ran out, and the task was reopened"},
		{claim.Fact{Kind: claim.KindOverridden, Holder: "Sandman"}, "Sandman's claim on “Fix the login” ran out, and Oracle took the task over"},
		{claim.Fact{Kind: claim.KindSwept, Holder: "Sandman", By: "user ada"}, "Sandman's claim on “Fix the login” ran out, and the task was reopened, asked for by user ada"},
		{claim.Fact{Kind: claim.KindReserved, Detail: "a in /work"}, "Oracle reserved a in /work"},
		{claim.Fact{Kind: claim.KindReserved, Detail: "d: the last of 3", Count: 3}, "Oracle made 3 more reservations"},
		{claim.Fact{Kind: claim.KindContested, Count: 1}, "One request for “Fix the login” was refused while Oracle held it"},
		{claim.Fact{Kind: claim.KindContested, Count: 7}, "7 requests for “Fix the login” were refused while Oracle held it"},
	} {
		e := tt.event
		e.At, e.Agent, e.Title = at, "Oracle", "Fix the login"
		if got := wording.NewEntry(e, claim.MeshLog).Title; got != tt.want {
			t.Errorf("%s %s: %q, want %q", e.Kind, e.Code, got, tt.want)
		}
	}
	for _, code := range []claim.Code{
		claim.CodeHeld, claim.CodeNotOpen, claim.CodeLostRace, claim.CodeBlockedByDependency, claim.CodeReserved, claim.CodeNothingReady,
		claim.CodeLimitReached, claim.CodeNotFound, claim.CodeNotionUnavailable, claim.CodeNotionRefused, "some_new_code",
	} {
		if got := wording.NewEntry(claim.Fact{Kind: claim.KindDenied, Agent: "Oracle", Title: "Fix", Code: code}, claim.MeshLog).Title; strings.Contains(got, "_") {
			t.Errorf("%s: the title %q shows a code", code, got)
		}
	}
}

// A message's entry can be told from what is said of claims, by its id.
func TestMessageEntry(t *testing.T) {
	e := claim.Fact{ID: "01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", At: time.Now(), Kind: claim.KindMessage, Agent: "Sandman", Holder: "Oracle", Detail: "two\nlines"}
	entry := wording.NewEntry(e, claim.MeshLog)
	if event, ok := wording.ParseMessageID(entry.ID); !ok || event != e.ID || !wording.IsEntryID(entry.ID) {
		t.Errorf("entry id %q", entry.ID)
	}
	if want := "Sandman to @Oracle: two lines"; entry.Title != want {
		t.Errorf("title %q, want %q", entry.Title, want)
	}
	fields := make(map[string]any)
	for _, f := range entry.Fields {
		fields[f.Name] = f.Value
	}
	if fields["from"] != "Sandman" || fields["to"] != "Oracle" || fields["message"] != "two\nlines" || fields[wording.EntryID] != entry.ID {
		t.Errorf("fields %v", fields)
	}
	e.Agent, e.Holder = "", "all"
	if got := wording.NewEntry(e, claim.MeshLog).Title; got != "to all: two lines" {
		t.Errorf("title %q", got)
	}
	e.Kind = claim.KindReleased
	if _, ok := wording.ParseMessageID(wording.NewEntry(e, claim.MeshLog).ID); ok {
		t.Error("the entry of a claim counts as a message")
	}
	for _, text := range []string{"", "message-", "draft", "message-draft"} {
		if wording.IsEntryID(text) {
			t.Errorf("%q counts as the id of an entry", text)
		}
	}
}
