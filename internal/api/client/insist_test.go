package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/door/server"
)

// unsaving is a daemon whose journal cannot be used until a time.
type unsaving struct {
	until      time.Time
	retryAfter int
	keys       []string
	asked      []time.Time
}

func (u *unsaving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.keys, u.asked = append(u.keys, r.Header.Get(api.KeyHeader)), append(u.asked, time.Now())
	if time.Now().Before(u.until) {
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, `{"code":"journal_unavailable","detail":"no","retry_after":%d}`, u.retryAfter)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"id":"done"}`)
}

// What cannot be saved is asked again under one key, for the time that was said, as rarely as
// the daemon asks for, and not after the end of the context.
func TestInsist(t *testing.T) {
	for _, tt := range []struct {
		name       string
		key        string
		back       time.Duration // until the journal can be used
		retryAfter int
		insist     time.Duration
		stopped    time.Duration // when the context ends; 0: never
		asked      int
		ended      time.Duration
		done       bool
	}{
		{name: "it can be saved", insist: time.Minute, asked: 1, done: true},
		{name: "not for long", back: 12 * time.Second, retryAfter: 5, insist: time.Minute, asked: 4, ended: 15 * time.Second, done: true},
		{name: "with a key of the caller's", key: "mine", back: 2 * time.Second, retryAfter: 5, insist: time.Minute, asked: 2, ended: 5 * time.Second, done: true},
		{name: "for longer than a minute", back: time.Hour, retryAfter: 20, insist: time.Minute, asked: 4, ended: time.Minute},
		{name: "until somebody does something", back: time.Hour, insist: time.Minute, asked: 1},
		{name: "later than it is waited for", back: time.Hour, retryAfter: 61, insist: time.Minute, asked: 1},
		{name: "a script", back: time.Hour, retryAfter: 5, asked: 1},
		{name: "after a signal", back: time.Hour, retryAfter: 5, insist: time.Minute, stopped: 7 * time.Second, asked: 2, ended: 7 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				daemon := &unsaving{until: begun.Add(tt.back), retryAfter: tt.retryAfter}
				pipe := server.NewPipe()
				web := &http.Server{Handler: daemon}
				go web.Serve(pipe)
				defer web.Close()
				c := client.Over("pipe", pipe.Dial)
				told := 0
				if tt.insist > 0 {
					c.Insist(tt.insist, func(*api.Problem) { told++ })
				}
				ctx := t.Context()
				if tt.stopped > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.stopped)
					defer cancel()
				}
				_, err := c.Complete(ctx, "x", api.CompleteRequest{}, tt.key)
				p, refused := errors.AsType[*api.Problem](err)
				if tt.done != (err == nil) || !tt.done && (!refused || p.Code != api.Code(claim.CodeJournalUnavailable)) {
					t.Errorf("Complete = %v", err)
				}
				if took := time.Since(begun); len(daemon.asked) != tt.asked || took != tt.ended {
					t.Errorf("asked %d times in %v, want %d in %v", len(daemon.asked), took, tt.asked, tt.ended)
				}
				if want := min(1, tt.asked-1); told != want {
					t.Errorf("told %d times, want %d", told, want)
				}
				for _, key := range daemon.keys {
					if key != daemon.keys[0] || tt.key != "" && key != tt.key || (key == "") != (tt.insist == 0) {
						t.Errorf("the keys are %q", daemon.keys)
					}
				}
				if key := daemon.keys[0]; key != "" && (api.ValidateKey(key) != nil || api.Outlives(key) != (tt.key != "")) {
					t.Errorf("the key is %q", key)
				}
			})
		})
	}
}
