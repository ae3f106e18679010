package daemon_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/testkit"
)

// TestMadeUpNamesAreBounded polls as one user under ever new names, and sends a long message to all
// of them: both store something for each name.
func TestMadeUpNamesAreBounded(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(nil)
		ctx := w.Context()
		poll := func(agent string) error {
			_, err := n.Poll(ctx, agent, api.PollRequest{}, "")
			return err
		}
		toAll := func() error {
			_, err := n.Send(ctx, api.MessageRequest{From: "A0", To: "all", Text: strings.Repeat("y", 16<<10)}, "")
			return err
		}
		refused := func(what string, err error) (wait time.Duration) {
			w.Helper()
			p, ok := errors.AsType[*api.Problem](err)
			if !ok || p.Code != api.Code(claim.CodeLimitReached) || p.Status != 429 || p.RetryAfter == 0 {
				w.Fatalf("%s: %v, want limit_reached", what, err)
			}
			return time.Duration(p.RetryAfter) * time.Second
		}
		names := 0
		var err error
		for ; names < 1000 && err == nil; names++ {
			err = poll(fmt.Sprint("A", names))
		}
		wait := refused("a new name", err)
		if names < 200 || names > 300 {
			w.Errorf("%d names were taken up", names-1)
		}
		if err := poll("A0"); err != nil {
			w.Errorf("a name that is known: %v", err)
		}
		time.Sleep(wait)
		if err := poll("late"); err != nil {
			w.Errorf("a new name after the wait: %v", err)
		}

		time.Sleep(time.Hour)
		told := 0
		for err = nil; told < 200 && err == nil; told++ {
			err = toAll()
		}
		if wait = refused("a message to all", err); told > 10 {
			w.Errorf("%d long messages to 200 agents were taken", told-1)
		}
		time.Sleep(wait)
		if err := toAll(); err != nil {
			w.Errorf("to all, after the wait: %v", err)
		}
		time.Sleep(time.Hour)
		for range 100 { // short ones are bounded as for one agent
			if _, err := n.Send(ctx, api.MessageRequest{From: "A0", To: "A1", Text: "go on"}, ""); err != nil {
				w.Fatal(err)
			}
		}
	})
}
