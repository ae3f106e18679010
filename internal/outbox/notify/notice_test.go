package notify_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/claim"
	"dibs/internal/outbox"
	"dibs/internal/outbox/notify"

	"github.com/google/go-cmp/cmp"
)

// A person is wanted where nothing goes on without one, and where an agent lost its task.
func TestOf(t *testing.T) {
	for name, tt := range map[string]struct {
		fact claim.Fact
		want []config.Notice
	}{
		"asked":                    {claim.Fact{Kind: claim.KindBlocked, Asked: true}, []config.Notice{config.NoticeAsk, config.NoticeBlock}},
		"blocked":                  {claim.Fact{Kind: claim.KindBlocked}, []config.Notice{config.NoticeBlock}},
		"failed for good":          {claim.Fact{Kind: claim.KindFailed, Tried: claim.TriedOver}, []config.Notice{config.NoticeBlock}},
		"failed, to be tried":      {claim.Fact{Kind: claim.KindFailed, Tried: claim.TriedAgain}, nil},
		"up for review":            {claim.Fact{Kind: claim.KindReview}, []config.Notice{config.NoticeReview}},
		"lost":                     {claim.Fact{Kind: claim.KindLost}, []config.Notice{config.NoticeLost}},
		"stale, and taken":         {claim.Fact{Kind: claim.KindOverridden}, []config.Notice{config.NoticeLost}},
		"stale, and opened":        {claim.Fact{Kind: claim.KindSwept, Claim: "c", Tried: claim.TriedAgain}, []config.Notice{config.NoticeLost}},
		"stale once too often":     {claim.Fact{Kind: claim.KindSwept, Claim: "c", Tried: claim.TriedOver}, []config.Notice{config.NoticeLost, config.NoticeBlock}},
		"swept off a copied page":  {claim.Fact{Kind: claim.KindSwept, Tried: claim.TriedAgain}, nil},
		"can never become ready":   {claim.Fact{Kind: claim.KindCommented, By: claim.Sweeper}, []config.Notice{config.NoticeStuck}},
		"completed":                {claim.Fact{Kind: claim.KindCompleted, Tried: claim.TriedOver}, nil},
		"refused a task":           {claim.Fact{Kind: claim.KindDenied}, nil},
		"given back by the agent":  {claim.Fact{Kind: claim.KindReleased}, nil},
		"said something in Notion": {claim.Fact{Kind: claim.KindCommented}, nil},
	} {
		if diff := cmp.Diff(tt.want, notify.Of(tt.fact)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// taker takes messages.
type taker struct{ bodies []string }

func (k *taker) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	k.bodies = append(k.bodies, string(body))
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, err
}

func open(t *testing.T, o notify.Options, c config.Receiver) *notify.Receiver {
	t.Helper()
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	all, err := notify.Open([]config.Receiver{c}, o)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// A message is never longer than ntfy takes, and says how many notices it leaves out. Links that
// are none are left out, too.
func TestLongMessage(t *testing.T) {
	var took taker
	r := open(t, notify.Options{Transport: &took}, config.Receiver{URL: "https://ntfy.example/topic"})
	fact := claim.Fact{ID: "F", Kind: claim.KindBlocked, Agent: "Sandman", Title: strings.Repeat("Ä", 5000), URL: "javascript:alert(1)", Summary: "no"}
	in := outbox.Intent{ID: "F", Fact: fact}
	for range 30 {
		in.With = append(in.With, outbox.Intent{ID: "G", Fact: fact})
	}
	if _, err := r.Send(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	body := took.bodies[0]
	if len(body) > 4096 || len(body) < 2000 || strings.Contains(body, "javascript") || !strings.HasSuffix(body, "\n… and 27 more: dibs log has them") {
		t.Errorf("%d bytes: %s", len(body), body)
	}
}

// A command that takes too long is killed with all that it started.
func TestCommandIsKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "alive")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	r := open(t, notify.Options{}, config.Receiver{Command: "exec 3>" + path + "; sleep 300 & echo >&3; sleep 300"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tested := make(chan error)
	go func() { tested <- r.Test(ctx) }()
	alive, err := os.Open(path) // waits until the command has opened it, too
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	if _, err := alive.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-tested; !errors.Is(err, context.Canceled) {
		t.Errorf("the command that was killed: %v", err)
	}
	if err := alive.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(alive); err != nil { // the end comes once nobody has it open
		t.Errorf("something that the command started is alive: %v", err)
	}
}
