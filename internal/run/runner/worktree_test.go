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
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/run/runner"
	"dibs/internal/run/worktree"
	"dibs/internal/testkit"
)

const task = "11111111-2222-3333-4444-555555555555"

// attempt is a process that runs one attempt with the daemon on a socket, in the current folder.
func attempt(socket string) int {
	os.Setenv("DOOMED", strconv.Itoa(os.Getpid()))
	trees, err := worktree.Open(context.Background(), ".", "", func(string, ...any) {})
	if err != nil {
		return 100
	}
	code, err := runner.Run(context.Background(), runner.Options{
		Daemon: client.Of(socket, ""), Claim: api.ClaimRequest{Agent: "Sandman"}, Patience: time.Second, Trees: trees,
		// What it commits is noted before, and what it leaves is committed for it.
		Command: []string{"sh", "-c", `echo one >> a && git add a && git commit -qm one && git rev-parse HEAD >> "$NOTES/commits" && echo two >> a`},
		Publish: `echo "$DIBS_CLAIM_ID" >> "$NOTES/published" && git push -q origin "$DIBS_BRANCH" && echo https://forge.example/1`,
		Stdout:  io.Discard, Stderr: os.Stderr, Env: os.Environ(), Supervisor: []string{os.Args[0], "guard"},
		Brief: func(context.Context, io.Writer, api.Claim) error { return nil }, Tell: func(runner.News) {},
		Say: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
	})
	if errors.Is(err, runner.ErrLost) {
		return 4
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 101
	}
	return code
}

// granting is a daemon that grants a new claim each time, which ends the former one, and can lose it.
type granting struct {
	claims atomic.Int64
	lose   atomic.Bool
	told   atomic.Pointer[string] // the last comment
}

func (d *granting) id() claim.ID {
	return claim.ID(fmt.Sprintf("01KA8XQ5V8ZJ6N3T4R7W9Y%04d", d.claims.Load()))
}

func (d *granting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.URL.Query().Has("patient") && r.URL.Query().Get("patient") == "true" { // it waits for news
		select {
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
		}
	}
	if r.Method == http.MethodPost && r.URL.Path == "/v1/claims" {
		d.claims.Add(1)
	}
	c := api.Claim{ID: d.id(), Agent: "Sandman", State: claim.Held, Task: api.TaskRef{ID: task, Key: "TASK-2", Title: "Fix it"}, ExpiresAt: api.Time{Time: time.Now().Add(time.Hour)}}
	if r.Method == http.MethodGet && (d.lose.Load() || !strings.Contains(r.URL.Path, string(c.ID))) {
		c.State, c.Outcome = claim.Ended, claim.EndLost
	}
	if r.Method == http.MethodPost && r.URL.Path != "/v1/claims" {
		if c.Outcome = claim.EndCompleted; filepath.Base(r.URL.Path) == "comments" {
			d.told.Store(new(string(body)))
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(c)
}

// TestAttemptsAreKilled kills everything at each call of git, and has another attempt go on. No commit is
// lost, there is never a second worktree, another's is not touched, and none is left at the end. A
// loser publishes nothing.
func TestAttemptsAreKilled(t *testing.T) {
	testkit.TakesSeconds(t)
	git := testkit.Got(exec.LookPath("git"))(t)
	stride, rounds := 11, 1
	if testkit.InFull() {
		stride, rounds = 1, 5
	}
	for round := range rounds {
		testkit.Check(t, killedEverywhere(t, git, stride, round) > 20, "round %d: few calls of git", round)
	}
}

// killedEverywhere kills an attempt at every stride-th call of git, and returns how many calls there are.
// In turn it kills dibs run alone, and everything that it started with it: guard, command, git.
func killedEverywhere(t *testing.T, git string, stride, round int) (calls int) {
	for at := 1; ; at += stride {
		everything := (at+round)%2 == 1 && runtime.GOOS == "linux"
		dir := t.TempDir()
		app, notes, bin := filepath.Join(dir, "app"), filepath.Join(dir, "notes"), filepath.Join(dir, "bin")
		testkit.Must(t, errors.Join(os.Mkdir(notes, 0o777), os.Mkdir(bin, 0o777)))
		run := func(args ...string) string {
			cmd := exec.Command(git, append([]string{"-C", dir}, args...)...)
			out, err := cmd.CombinedOutput()
			testkit.Require(t, err == nil, "step %d: git %v: %v: %s", at, args, err, out)
			return string(out)
		}
		run("init", "-q", "--bare", "-b", "main", "forge.git")
		run("clone", "-q", "forge.git", "app")
		run("-C", app, "config", "user.name", "Maria")
		run("-C", app, "config", "user.email", "maria@example.org")
		run("-C", app, "commit", "-q", "--allow-empty", "-m", "first")
		run("-C", app, "push", "-q", "origin", "HEAD:main")
		run("-C", app, "worktree", "add", "-q", "-b", "theirs", filepath.Join(dir, "app.worktrees", "TASK-2-fix-it"))
		testkit.Must(t, os.WriteFile(filepath.Join(bin, "git"), []byte(`#!/bin/sh
echo >> "$NOTES/calls"
if [ $(wc -l < "$NOTES/calls") = "$AT" ]; then
  [ -z "$ALL" ] || kill -9 $(grep -lz "^NOTES=$NOTES\$" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3 | sort -n) # itself last
  kill -9 $DOOMED
fi
exec `+git+` "$@"
`), 0o700))
		d := &granting{}
		socket := filepath.Join(dir, "s")
		l := testkit.Got(net.Listen("unix", socket))(t)
		s := &http.Server{Handler: d}
		go s.Serve(l)
		try := func(at int) (code int) {
			cmd := exec.Command(os.Args[0], "attempt", socket)
			cmd.Dir = app
			cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "NOTES="+notes, "AT="+strconv.Itoa(at), "ALL="+map[bool]string{true: "all"}[everything])
			out, err := cmd.CombinedOutput() // which waits for all that was started
			if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
				t.Fatalf("step %d: %v", at, err)
			}
			t.Logf("step %d: code %d: %s", at, cmd.ProcessState.ExitCode(), out)
			return cmd.ProcessState.ExitCode()
		}
		ours := func() int { return strings.Count(run("-C", app, "worktree", "list"), "dibs/") }

		first, loser := try(at), "nobody"
		testkit.Require(t, first == -1 || first == 0, "step %d: code %d", at, first)
		testkit.Check(t, ours() <= 1, "step %d: %s", at, run("-C", app, "worktree", "list"))
		if first == -1 {
			d.lose.Store(true)
			lost := try(0)
			loser = string(d.id())
			testkit.Check(t, lost == 4, "step %d: code %d for a lost claim", at, lost)
			told := d.told.Load()
			testkit.Check(t, told != nil && strings.Contains(*told, "is on branch dibs/TASK-2-fix-it on "), "step %d: nobody was told where it is", at)
			testkit.Check(t, ours() == 1, "step %d: %s", at, run("-C", app, "worktree", "list"))
			d.lose.Store(false)
			testkit.Check(t, try(0) == 0, "step %d: the next attempt failed", at)
		}
		reachable := run("-C", app, "rev-list", "--branches")
		commits, _ := os.ReadFile(filepath.Join(notes, "commits"))
		for commit := range strings.FieldsSeq(string(commits)) {
			testkit.Check(t, strings.Contains(reachable, commit), "step %d: %s is lost", at, commit)
		}
		published, _ := os.ReadFile(filepath.Join(notes, "published"))
		testkit.Check(t, !strings.Contains(string(published), loser), "step %d: the loser published: %s", at, published)
		testkit.Check(t, run("-C", app, "rev-parse", "dibs/TASK-2-fix-it") == run("-C", "forge.git", "rev-parse", "dibs/TASK-2-fix-it"), "step %d: it is not published", at)
		testkit.Check(t, ours() == 0 && strings.Contains(run("-C", app, "worktree", "list"), "[theirs]"), "step %d: left: %s", at, run("-C", app, "worktree", "list"))
		r := testkit.Got(worktree.Open(t.Context(), app, "", t.Logf))(t)
		marks, _, err := r.List(t.Context())
		testkit.Check(t, len(marks) == 0 && err == nil, "step %d: %v, %v", at, marks, err)
		s.Close()
		if first == 0 {
			return at
		}
	}
}
