package board

import (
	"fmt"
	"net/http"

	"dibs/internal/api"
	"dibs/internal/claim"
)

// brake shows in h what is paused.
func (h *health) brake(pauses []api.Pause) {
	h.Brake, h.Halted = "", false
	for _, p := range pauses {
		h.Brake += fmt.Sprintf("%s %d %d;", p.Agent, milliseconds(p.At), milliseconds(p.ExpiresAt))
		h.Halted = h.Halted || p.Agent == ""
	}
}

// setPauses stores what is paused.
func (s *state) setPauses(pauses []api.Pause) {
	s.mu.Lock()
	s.pauses = pauses
	h := s.health
	s.mu.Unlock()
	h.brake(pauses)
	s.setHealth(h)
}

func (b *Board) pause(w http.ResponseWriter, r *http.Request) {
	done, err := b.Daemon.Pause(r.Context(), api.PauseRequest{By: b.User, Reason: "on the board"}, "")
	b.braked(w, r, "Pause", done, err)
}

func (b *Board) resume(w http.ResponseWriter, r *http.Request) {
	done, err := b.Daemon.Resume(r.Context(), api.ResumeRequest{Agent: r.FormValue("agent"), By: b.User}, "")
	b.braked(w, r, "Resume", done, err)
}

// braked goes back to the board, which shows what is paused by now.
func (b *Board) braked(w http.ResponseWriter, r *http.Request, action string, done api.Paused, err error) {
	if err != nil {
		b.Log.Warn("an action on the board was refused", "action", action, claim.AttrBy, b.User, claim.AttrError, err)
		b.refuse(w, r, "health", action, err)
		return
	}
	b.Log.Info("done on the board", "action", action, claim.AttrBy, b.User)
	b.state.setPauses(done.Pauses)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
