package daemon_test

import (
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
)

// What an agent says of its work is kept with its claim, over a restart too, and is no request.
func TestProgress(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Fix the login", nil)
		options := w.options(quiet)
		n := w.start(options)
		cl := n.mustClaim("Sandman", id)
		time.Sleep(time.Second)
		w.notion.ResetRequests()
		renew := func(n *node, said string) api.Claim {
			w.Helper()
			c, err := n.Renew(w.Context(), string(cl.ID), api.RenewRequest{Agent: "Sandman", Progress: said}, "")
			mustDo(w, err)
			return c
		}
		if got := renew(n, "half\n\x1b[31mway\u202e "+strings.Repeat("ü", 1000)).Progress; !strings.HasPrefix(got, "half [31mway üü") || len([]rune(got)) != 300 {
			w.Errorf("progress = %q", got)
		}
		renew(n, "tests are green")
		if got := renew(n, "").Progress; got != "tests are green" {
			w.Errorf("after a renewal that says nothing: %q", got)
		}
		if got := w.requests(); len(got) > 0 {
			w.Errorf("it cost %q", got)
		}
		n.stop()
		n = w.start(options)
		all, err := n.Claims(w.Context(), "")
		mustDo(w, err)
		if len(all.Claims) != 1 || all.Claims[0].Progress != "tests are green" || n.task(id).Progress != "tests are green" {
			w.Errorf("after a restart: %+v, %q", all.Claims, n.task(id).Progress)
		}
	})
}
