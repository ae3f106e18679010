package worktree

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"dibs/internal/testkit"
)

// dying names the variable with the number of the step at which the process dies, and repository the
// one with the folder.
const dying, repository = "DIBS_TEST_DIES_AT", "DIBS_TEST_REPOSITORY"

func TestMain(m *testing.M) {
	if at, err := strconv.Atoi(os.Getenv(dying)); err == nil {
		os.Exit(doomed(os.Getenv(repository), at))
	}
	os.Exit(m.Run())
}

// doomed makes an attempt, works, publishes, and removes the worktree, and kills itself at a step.
func doomed(dir string, at int) int {
	ctx := context.Background()
	r, err := Open(ctx, dir, "", func(string, ...any) {})
	if err != nil {
		return 1
	}
	r.step = func() {
		if at--; at == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	a, err := r.Begin(ctx, attempt)
	if err != nil {
		return 2
	}
	if !work(a.Path) {
		return 3
	}
	if a.Publish(ctx, "https://forge.example/1") != nil || a.Completed(ctx) != nil {
		return 4
	}
	a.Leave()
	return 0
}

var attempt = For{Task: "11111111-2222-3333-4444-555555555555", Key: "TASK-2", Title: "Fix the login!", Claim: "C", Agent: "Sandman"}

func run(dir string, args ...string) (string, bool) {
	cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.org"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err == nil
}

func work(dir string) bool {
	name := filepath.Join(dir, "work")
	before, _ := os.ReadFile(name)
	if os.WriteFile(name, append(before, "done\n"...), 0o666) != nil {
		return false
	}
	_, added := run(dir, "add", "work")
	_, ok := run(dir, "commit", "--quiet", "-m", "work")
	return added && ok
}

// newRepository returns a repository with a commit, and a worktree that somebody else made at the path
// that ours would have.
func newRepository(t *testing.T) (dir, foreign string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "app")
	testkit.Must(t, os.Mkdir(dir, 0o777))
	foreign = filepath.Join(dir+".worktrees", "TASK-2-fix-the-login")
	for _, args := range [][]string{
		{"init", "--quiet", "-b", "main"}, {"commit", "--quiet", "--allow-empty", "-m", "first"},
		{"worktree", "add", "--quiet", "-b", "theirs", foreign},
	} {
		out, ok := run(dir, args...)
		testkit.Require(t, ok, "git %v: %s", args, out)
	}
	return dir, foreign
}

// TestKilledAtEveryStep kills the process at each step, and checks that the next one finishes: no commit
// is lost, no second worktree is left, and another's is not touched.
func TestKilledAtEveryStep(t *testing.T) {
	testkit.TakesSeconds(t)
	for at, died := 1, true; died; at++ {
		testkit.Require(t, at < 50, "it never ends")
		dir, foreign := newRepository(t)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), dying+"="+strconv.Itoa(at), repository+"="+dir)
		err := cmd.Run()
		died = cmd.ProcessState.ExitCode() == -1
		testkit.Require(t, died || err == nil, "step %d: %v", at, err)
		testkit.Require(t, died || at > 8, "only %d steps", at)
		before, _ := run(dir, "rev-list", "--all", "--reflog")

		r, err := Open(t.Context(), dir, "", t.Logf)
		testkit.Must(t, err)
		a, err := r.Begin(t.Context(), attempt)
		testkit.Require(t, err == nil, "step %d: the next attempt: %v", at, err)
		testkit.Check(t, a.Branch == "dibs/TASK-2-fix-the-login" && a.Path == foreign+"-2", "step %d: %+v", at, a.Mark)
		on, _ := run(a.Path, "symbolic-ref", "--short", "HEAD")
		testkit.Check(t, on == a.Branch, "step %d: on %s", at, on)
		reachable, _ := run(dir, "rev-list", "--all")
		for commit := range strings.FieldsSeq(before) {
			testkit.Check(t, strings.Contains(reachable, commit), "step %d: commit %s is lost", at, commit)
		}
		trees, _ := run(dir, "worktree", "list")
		testkit.Check(t, strings.Count(trees, "\n") == 2, "step %d: %s", at, trees)

		m := a.Mark
		a.Leave()
		removed, err := r.Remove(t.Context(), m)
		testkit.Check(t, removed && err == nil, "step %d: removed %v, %v", at, removed, err)
		trees, _ = run(dir, "worktree", "list")
		testkit.Check(t, strings.Count(trees, "\n") == 1 && strings.Contains(trees, "[theirs]"), "step %d: %s", at, trees)
		left, _, err := r.List(t.Context())
		testkit.Check(t, len(left) == 0 && err == nil, "step %d: marks %v, %v", at, left, err)
	}
}

func TestOnlyCleanWorktreesOfNobodyAreRemoved(t *testing.T) {
	dir, _ := newRepository(t)
	r, err := Open(t.Context(), dir, "", t.Logf)
	testkit.Must(t, err)
	a, err := r.Begin(t.Context(), attempt)
	testkit.Must(t, err)
	_, err = r.Begin(t.Context(), attempt)
	testkit.Check(t, errors.Is(err, ErrInUse), "a second attempt at once: %v", err)
	removed, err := r.Remove(t.Context(), a.Mark)
	testkit.Check(t, !removed && err == nil, "held: removed %v, %v", removed, err)
	a.Leave()
	_, states, err := r.List(t.Context())
	testkit.Check(t, len(states) == 1 && states[0] == Merged && err == nil, "untouched: states %v, %v", states, err)
	testkit.Require(t, work(a.Path), "no commit")
	testkit.Must(t, os.WriteFile(filepath.Join(a.Path, "new"), nil, 0o666))
	removed, err = r.Remove(t.Context(), a.Mark)
	testkit.Check(t, !removed && err == nil, "not committed: removed %v, %v", removed, err)
	_, states, err = r.List(t.Context())
	testkit.Check(t, len(states) == 1 && states[0] == Kept && err == nil, "states %v, %v", states, err)
}

// TestRemotes goes from a first attempt to one on another machine, and to what is merged, beside a plain
// clone, a bare one and a mirror.
func TestRemotes(t *testing.T) {
	testkit.TakesSeconds(t)
	for _, kind := range []string{"--quiet", "--bare", "--mirror"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			git := func(args ...string) string {
				out, ok := run(dir, args...)
				testkit.Require(t, ok, "git %v: %s", args, out)
				return out
			}
			in := func(name string) string { return filepath.Join(dir, name) }
			git("init", "--quiet", "--bare", "-b", "trunk", "forge.git")
			git("clone", "--quiet", "forge.git", "hers")
			testkit.Must(t, os.Mkdir(in("hers/.dibs"), 0o777))
			testkit.Must(t, os.WriteFile(in("hers/.dibs/setup"), []byte("#!/bin/sh\n"), 0o777))
			push := func(text string) {
				git("-C", "hers", "add", "--all")
				git("-C", "hers", "commit", "--quiet", "--allow-empty", "-m", text)
				git("-C", "hers", "push", "--quiet", "origin", "HEAD:trunk")
			}
			push("first")
			git("clone", kind, "forge.git", "app")
			push("second")

			open := func(base string) *Repository {
				r, err := Open(t.Context(), in("app"), base, func(text string, args ...any) { t.Errorf(text, args...) })
				testkit.Must(t, err)
				return r
			}
			r := open("")
			a, err := r.Begin(t.Context(), attempt)
			testkit.Must(t, err)
			testkit.Check(t, a.Base == git("-C", "hers", "rev-parse", "HEAD"), "the base %s was not fetched", a.Base)
			testkit.Check(t, a.Path == in("app.worktrees/TASK-2-fix-the-login") && a.Mark.Attempt == 1, "%+v", a.Mark)
			text, err := os.ReadFile(a.Setup)
			testkit.Check(t, string(text) == "#!/bin/sh\n" && err == nil, "setup %q, %v", text, err)
			testkit.Require(t, work(a.Path), "no commit")
			where, any := a.Where(t.Context())
			testkit.Check(t, any && strings.HasSuffix(where, ": 1 file changed, 1 insertion(+)"), "it is %s", where)
			state := func(want State) {
				t.Helper()
				_, states, err := r.List(t.Context())
				testkit.Check(t, len(states) == 1 && states[0] == want && err == nil, "states %v, %v; want %s", states, err, want)
			}
			state(Held)
			a.Leave()
			state(Kept)
			of, err := Of(t.Context(), a.Path)
			testkit.Check(t, of.Task == attempt.Task && err == nil, "in the worktree is %+v, %v", of, err)
			of, _ = Of(t.Context(), in("hers"))
			testkit.Check(t, of.Task == "", "in hers is %+v", of)

			// It is pushed, and goes on elsewhere; the next attempt here has that.
			git("-C", a.Path, "push", "--quiet", in("forge.git"), a.Branch)
			git("-C", "hers", "fetch", "--quiet", "origin")
			git("-C", "hers", "checkout", "--quiet", a.Branch)
			git("-C", "hers", "commit", "--quiet", "--allow-empty", "-m", "more")
			git("-C", "hers", "push", "--quiet", "origin", a.Branch)
			more := git("-C", "hers", "rev-parse", "HEAD")
			again, err := r.Begin(t.Context(), attempt)
			testkit.Must(t, err)
			testkit.Check(t, again.Path == a.Path && again.Mark.Attempt == 2 && r.commit(t.Context(), "refs/heads/"+a.Branch) == more, "%+v", again.Mark)
			again.Leave()
			state(Published)

			// Squashed, it is merged.
			testkit.Require(t, work(a.Path), "nothing new to commit") // the same file again
			testkit.Must(t, r.write(again.Mark))
			git("-C", "hers", "checkout", "--quiet", "-B", "trunk", "origin/trunk")
			git("-C", "hers", "merge", "--quiet", "--squash", "origin/"+a.Branch)
			testkit.Must(t, os.WriteFile(in("hers/work"), []byte("done\ndone\n"), 0o666))
			push("squashed")
			testkit.Must(t, r.CheckBase(t.Context()))
			state(Merged)
			removed, err := r.Remove(t.Context(), again.Mark)
			testkit.Check(t, removed && err == nil, "removed %v, %v", removed, err)
			testkit.Check(t, r.commit(t.Context(), "refs/heads/"+a.Branch) != "", "the branch is gone")

			err = open("nowhere").CheckBase(t.Context())
			testkit.Check(t, err != nil, "a base that is not there: %v", err)
			testkit.Must(t, open("trunk").CheckBase(t.Context()))
		})
	}
}
