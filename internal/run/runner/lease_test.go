package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/run/runner"
	"dibs/internal/testkit"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "guard" {
		if err := runner.Supervise(); err != nil {
			panic(err)
		}
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "attempt" {
		os.Exit(attempt(os.Args[2]))
	}
	os.Exit(m.Run())
}

// The lease ends while the daemon cannot say so, as when the machine slept: the command is held still
// until the page was read, and then goes on, or is killed if somebody else may have the task.
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
		"somebody else has it":     {answer: api.CodeClaimLost, lost: true, code: runner.Signalled + 9},
		"the agent may not":        {answer: api.CodeForbiddenAgent, lost: true, code: runner.Signalled + 9},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			pid, over, wrote := filepath.Join(dir, "pid"), filepath.Join(dir, "over"), filepath.Join(dir, "wrote")
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
					testkit.OK(t, err)
					deadline := time.Now().Add(20 * time.Second) // the machine may be busy
					for moving := true; moving; {
						states, err := exec.Command("ps", "-A", "-o", "pgid=,stat=").Output()
						moving = slices.ContainsFunc(strings.Split(string(states), "\n"), func(line string) bool {
							f := strings.Fields(line)
							return len(f) == 2 && f[0] == strings.TrimSpace(string(id)) && !strings.ContainsAny(f[1], "TZ")
						})
						if err != nil || moving && time.Now().After(deadline) {
							t.Errorf("a process of the command is not held still: %v", err)
							break
						}
					}
					testkit.OK(t, os.WriteFile(over, nil, 0o600))
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
			l := testkit.Got(net.Listen("unix", socket))(t)
			s := &http.Server{Handler: daemon}
			go s.Serve(l)
			defer s.Close()

			script := `echo $$ >"` + pid + `"; until [ -e "` + over + `" ]; do sleep 0.01; done`
			if tt.lost {
				// It starts processes when the lease ends, and would write if it were asked to end.
				script = `trap 'echo >"` + wrote + `"' TERM; echo $$ >"` + pid + `"; sleep 0.9; i=0; while [ $((i += 1)) -lt 1000 ]; do sleep 60 & done; wait`
			}
			said := ""
			code, err := runner.Run(t.Context(), runner.Options{
				Daemon: client.Of(socket, ""), Claim: api.ClaimRequest{Agent: "Sandman"}, Command: []string{"sh", "-c", script}, Patience: time.Second,
				Stdout: io.Discard, Stderr: io.Discard, Env: os.Environ(), Supervisor: []string{os.Args[0], "guard"},
				Brief: func(context.Context, io.Writer, api.Claim) error { return nil },
				Tell:  func(runner.News) {}, Say: func(format string, args ...any) { said += fmt.Sprintf(format, args...) + "\n" },
			})
			testkit.Check(t, code == tt.code && errors.Is(err, runner.ErrLost) == tt.lost && (err == nil || tt.lost) && ended == tt.want,
				"code %d, %v, and the daemon was told %q; want %d, lost: %v, %q", code, err, ended, tt.code, tt.lost, tt.want)
			testkit.Refused(os.Stat(wrote))(t)
			testkit.Check(t, strings.Count(said, "is held still until") == 1 && strings.Contains(said, "sh goes on: ") != tt.lost,
				"said %q", said)
		})
	}
}
