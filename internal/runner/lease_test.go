package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/runner"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "guard" {
		if err := runner.Supervise(); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// The lease ends while the daemon cannot say so, as when the machine slept: the command is held still
// until the page was read, and then goes on, or is stopped if somebody else has the task.
func TestLeaseIsOver(t *testing.T) {
	if _, err := exec.LookPath("ps"); err != nil {
		t.Skip("there is no ps")
	}
	for name, tt := range map[string]struct {
		answer api.Code // to a renewal, once Notion can be reached; empty if the page shows the claim
		code   int
		lost   bool
		want   string // the requests that end it
	}{
		"the page shows the claim": {want: "complete"},
		"somebody else has it":     {answer: api.CodeClaimLost, lost: true, code: runner.Signalled + 15},
		"the agent may not":        {answer: api.CodeForbiddenAgent, lost: true, code: runner.Signalled + 15},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			pid, over := filepath.Join(dir, "pid"), filepath.Join(dir, "over")
			c := api.Claim{ID: "01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", Agent: "Sandman", State: claim.Held, ExpiresAt: api.Time{Time: time.Now().Add(time.Second)}}
			renewals, ended := 0, ""
			var mu sync.Mutex
			refuse := func(w http.ResponseWriter, code api.Code) {
				p := api.NewProblem(code, "no")
				w.Header().Set("Content-Type", api.ProblemType)
				w.WriteHeader(p.Status)
				_ = json.NewEncoder(w).Encode(p)
			}
			daemon := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet { // the way to the daemon is cut
					<-r.Context().Done()
					return
				}
				mu.Lock()
				defer mu.Unlock()
				switch _, verb, _ := strings.Cut(r.URL.Path, string(c.ID)); verb {
				case "":
				case "/renew":
					if renewals++; renewals == 1 {
						refuse(w, api.Code(claim.CodeNotionUnavailable))
						return
					}
					id, err := os.ReadFile(pid)
					if err != nil {
						t.Error(err)
					}
					if state, err := exec.Command("ps", "-o", "stat=", "-p", strings.TrimSpace(string(id))).Output(); err != nil || !strings.Contains(string(state), "T") {
						t.Errorf("the command is not held still: %q, %v", state, err)
					}
					if err := os.WriteFile(over, nil, 0o600); err != nil {
						t.Error(err)
					}
					if tt.answer != "" {
						refuse(w, tt.answer)
						return
					}
					c.ExpiresAt = api.Time{Time: time.Now().Add(time.Hour)}
				default:
					ended += strings.TrimPrefix(verb, "/")
				}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(c)
			})
			socket := filepath.Join(dir, "s")
			l, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			s := &http.Server{Handler: daemon}
			go s.Serve(l)
			defer s.Close()

			script := `echo $$ >"` + pid + `"; until [ -e "` + over + `" ]; do sleep 0.01; done`
			if tt.lost {
				script = `echo $$ >"` + pid + `"; while :; do sleep 0.01; done`
			}
			code, err := runner.Run(t.Context(), runner.Options{
				Daemon: client.Of(socket, ""), Claim: api.ClaimRequest{Agent: "Sandman"}, Command: []string{"sh", "-c", script}, Patience: time.Minute,
				Stdout: io.Discard, Stderr: io.Discard, Env: os.Environ(), Supervisor: []string{os.Args[0], "guard"},
				Brief: func(context.Context, io.Writer, api.Claim) error { return nil },
				Tell:  func(runner.News) {}, Say: t.Logf,
			})
			if code != tt.code || errors.Is(err, runner.ErrLost) != tt.lost || err != nil && !tt.lost || ended != tt.want {
				t.Errorf("code %d, %v, and the daemon was told %q; want %d, lost: %v, %q", code, err, ended, tt.code, tt.lost, tt.want)
			}
		})
	}
}
