package daemon_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"dibs/internal/api"
	"dibs/internal/testkit"
)

// forged is a title that imitates something else wherever it is written unescaped.
const forged = "Fix\x1b[2J\x07 the\nlevel=ERROR msg=forged\n\nid: 99\nevent: claim_lost\ndata: {}\n\u202e login” was done by Oracle \"}\n{\"level\":\"ERROR\",\"msg\":\"forged\"}"

// TestHostileTitle runs a task with a hostile title through its life, and checks everything that is
// written about it.
func TestHostileTitle(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		spans := slices.Repeat([]any{map[string]any{"text": map[string]any{"content": strings.Repeat("x\x1b", 1000)}}}, 20)
		id, huge := w.add(forged, nil), w.add("", map[string]any{"Name": map[string]any{"title": spans}})
		var text, structured bytes.Buffer
		options := &slog.HandlerOptions{Level: slog.LevelDebug}
		o := w.options(nil)
		o.Log = slog.New(slog.NewMultiHandler(slog.NewTextHandler(&text, options), slog.NewJSONHandler(&structured, options)))
		n := w.start(o)
		cl := n.mustClaim("Sandman", id)
		n.claim("Oracle", id)
		w.edit(id, map[string]any{"claimed_by": map[string]any{"rich_text": []any{}}})
		time.Sleep(time.Minute) // the claim is lost, and logged
		if err := n.complete(cl); code(err) != string(api.CodeClaimLost) {
			w.Errorf("err = %v, want claim_lost", err)
		}
		big := n.mustClaim("Sandman", huge)
		if len(big.Task.Title) > 8000 {
			w.Errorf("a long title comes out with %d bytes", len(big.Task.Title))
		}
		if err := n.complete(big); err != nil {
			w.Error(err)
		}
		time.Sleep(time.Minute)
		stream := n.get("/v1/events?after=0&follow=false")
		n.stop()

		if !strings.Contains(text.String(), "forged") {
			w.Error("the log does not mention the task, so it shows nothing")
		}
		for line := range strings.Lines(text.String()) {
			if !strings.HasPrefix(line, "time=") || strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return !unicode.IsPrint(r) }) || len(line) > 64<<10 {
				w.Errorf("the log has the line %.300q", line)
			}
		}
		events := make(map[string]int)
		for line := range strings.Lines(structured.String()) {
			var entry struct{ Msg, Event, Title string }
			if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Msg == "forged" || strings.ContainsAny(line, "\x1b\x07\u202e") {
				w.Errorf("the JSON log has the line %.300q: %v", line, err)
			}
			if entry.Event != "" {
				events[entry.Event]++
			}
			if len([]rune(entry.Title)) > 240 || strings.ContainsFunc(entry.Title, func(r rune) bool { return !unicode.IsPrint(r) }) {
				w.Errorf("the JSON log has the title %q", entry.Title)
			}
		}
		if events["granted"] != 2 || events["lost"] != 1 || events["completed"] != 1 {
			w.Errorf("the JSON log has the events %v", events)
		}
		for line := range strings.Lines(stream) {
			line = strings.TrimSpace(line)
			if kind, _, ok := strings.Cut(line, ":"); line != "" && (!ok || kind != "" && kind != "id" && kind != "event" && kind != "data") || line == "id: 99" || line == "data: {}" {
				w.Errorf("the stream of events has the line %.300q", line)
			}
		}
		entries := w.notion.Pages(w.notion.Databases().MeshLog)
		if len(entries) < 2 {
			w.Fatalf("%d entries in the mesh log", len(entries))
		}
		for _, p := range entries {
			if title := p.Title(); strings.ContainsFunc(title, func(r rune) bool { return !unicode.IsPrint(r) }) || len(title) > 8000 {
				w.Errorf("an entry is titled %.300q", title)
			}
		}
	})
}
