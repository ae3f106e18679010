package board_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"dibs/internal/api"
)

// TestPausedAndResumed pauses everybody with one click, and resumes everybody and an agent with one
// each; every page says what is paused.
func TestPausedAndResumed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: left out with -short")
	}
	t.Parallel()
	m := newMesh(t, "empty", 3)
	v := &visitor{t: t, server: httptest.NewServer(m.board.Handler())}
	t.Cleanup(v.server.Close)
	v.enter(m.board)
	press := func(path string) {
		t.Helper()
		if resp, body := v.ask("POST", path, "Origin: "+v.server.URL); resp.StatusCode != 303 || resp.Header.Get("Location") != "/" {
			t.Fatalf("%s: %s %s", path, resp.Status, body)
		}
	}
	press("/pause")
	if _, err := m.client.Claim(t.Context(), api.ClaimRequest{Agent: "Sandman"}, ""); err == nil || !strings.Contains(err.Error(), "maria paused everybody: on the board") {
		t.Errorf("claimed in the pause: %v", err)
	}
	m.until("a page says that everybody is paused, and does not offer to pause", func() bool {
		_, body := v.ask("GET", "/events")
		return strings.Contains(body, "Everybody is paused, by maria: on the board") && strings.Contains(body, `action="/pause" hidden`)
	})
	press("/resume")
	if _, err := m.client.Pause(t.Context(), api.PauseRequest{Agent: "Oracle", ForSeconds: 3600, Reason: "<b>too eager</b>"}, ""); err != nil {
		t.Fatal(err)
	}
	said := ""
	m.until("the board says that Oracle is paused", func() bool {
		_, said = v.ask("GET", "/")
		return strings.Contains(said, "Oracle is paused until")
	})
	if strings.Contains(said, "<b>too") || strings.Contains(said, `action="/pause" hidden`) {
		t.Errorf("the page has\n%s", said)
	}
	press("/resume?agent=Oracle")
	if s, err := m.client.Status(t.Context()); err != nil || len(s.Pauses) > 0 {
		t.Errorf("what is paused: %+v, %v", s.Pauses, err)
	}
}
