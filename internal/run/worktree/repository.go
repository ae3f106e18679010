// Package worktree makes a git worktree and a branch for each attempt at a task, with git's own
// commands.
//
// What it made is known by a mark, a file in dibs/worktrees below the repository's common directory,
// one for each task. A mark is written before what it names is made, and removed after that is gone, so
// that whoever comes next can finish what was begun; a lock beside it says that a process is at it.
// What has no mark is not touched. A worktree is removed only with nothing in it that its branch does
// not have, and the branch stays. So does the mark of a task that was published, without a path: the
// next attempt is told the address.
package worktree

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"dibs/internal/kit/clock"
)

// fetchTime limits how long a remote is waited for.
const fetchTime = 30 * time.Second

// fetchAgain is how long a fetch waits for another one in the same repository.
const fetchAgain = 100 * time.Millisecond

// Repository is a repository in which attempts get worktrees.
type Repository struct {
	common string // its common directory
	base   string // what --base says, empty for the default
	say    func(format string, args ...any)
	// step is called before each step that changes something; a test dies there.
	step func()
}

// Open returns the repository of a folder. base is a ref from which branches are made; empty for the
// default branch of the remote, else HEAD.
func Open(ctx context.Context, dir, base string, say func(string, ...any)) (*Repository, error) {
	r := &Repository{base: base, say: say, step: func() {}}
	common, err := r.git(ctx, dir, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return nil, err
	}
	r.common = common
	return r, nil
}

// CheckBase returns an error if there is nothing to make branches from.
func (r *Repository) CheckBase(ctx context.Context) error {
	_, err := r.baseCommit(ctx)
	return err
}

// baseCommit fetches, if a remote can be reached, and returns the commit from which branches are made.
func (r *Repository) baseCommit(ctx context.Context) (string, error) {
	remote := r.remote(ctx)
	if remote != "" {
		fetching, cancel := context.WithTimeout(ctx, fetchTime)
		defer cancel()
		// Not as the repository may have it: a bare clone keeps nothing of what it fetches, and a mirror
		// would take its own branches back to where they are at the remote.
		fetch := func() error {
			_, err := r.git(fetching, r.common, "fetch", "--quiet", "--refmap=", remote, "+refs/heads/*:refs/remotes/"+remote+"/*")
			return err
		}
		err := fetch()
		for err != nil && strings.Contains(err.Error(), "cannot lock ref") && clock.Pause(fetching, fetchAgain) == nil { // somebody else fetches
			err = fetch()
		}
		if err == nil && r.base == "" && r.commit(ctx, "refs/remotes/"+remote+"/HEAD") == "" {
			_, err = r.git(fetching, r.common, "remote", "set-head", remote, "--auto") // as a clone does
		}
		if err != nil {
			r.say("%v: going on with what was fetched before", err)
		}
	}
	return r.knownBase(ctx, r.base)
}

// commit returns the commit of a ref; empty if there is none.
func (r *Repository) commit(ctx context.Context, ref string) string {
	commit, _ := r.git(ctx, r.common, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	return commit
}

// knownBase returns the commit of a base, as far as it was fetched.
func (r *Repository) knownBase(ctx context.Context, base string) (string, error) {
	remote := r.remote(ctx)
	candidates := []string{"refs/remotes/" + remote + "/HEAD", "HEAD"}
	if base != "" {
		candidates = []string{base, "refs/remotes/" + remote + "/" + base}
	}
	first, second := r.commit(ctx, candidates[0]), r.commit(ctx, candidates[1])
	switch {
	case first == "" && second == "":
		return "", fmt.Errorf("there is no commit %s in %s: name one with --base", cmp.Or(base, "HEAD"), r.common)
	case base != "" && first != "" && second != "" && r.has(ctx, second, first):
		return second, nil // the local branch is behind
	}
	return cmp.Or(first, second), nil
}

// remote returns the remote to fetch from: origin, or the only one; empty without any.
func (r *Repository) remote(ctx context.Context) string {
	out, _ := r.git(ctx, r.common, "remote")
	names := strings.Fields(out)
	if len(names) == 1 || len(names) > 1 && !slices.Contains(names, "origin") {
		return names[0]
	} else if len(names) > 1 {
		return "origin"
	}
	return ""
}

// has reports whether a commit contains another.
func (r *Repository) has(ctx context.Context, commit, other string) bool {
	_, err := r.git(ctx, r.common, "merge-base", "--is-ancestor", other, commit)
	return err == nil
}

// folder returns where worktrees lie: beside the repository.
func (r *Repository) folder() string {
	home := r.common
	if filepath.Base(home) == ".git" {
		home = filepath.Dir(home)
	}
	return strings.TrimSuffix(home, ".git") + ".worktrees"
}

// Environment returns env without the variables by which git would take another repository, as those
// of one of its hooks.
func Environment(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(setting string) bool {
		name, _, _ := strings.Cut(setting, "=")
		return slices.Contains([]string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"}, name)
	})
}

// git runs a command of git in a folder, and returns what it wrote.
func (r *Repository) git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.WaitDelay, cmd.SysProcAttr = dir, 5*time.Second, attributes()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it removes its locks
	cmd.Env = append(Environment(os.Environ()), "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		lines := bytes.Split(bytes.TrimSpace(failed.Stderr), []byte("\n"))
		return "", fmt.Errorf("git %s: %s", args[0], cmp.Or(string(lines[len(lines)-1]), failed.Error()))
	}
	return strings.TrimRight(string(out), "\r\n"), err
}

// change is git for what changes something.
func (r *Repository) change(ctx context.Context, dir string, args ...string) error {
	r.step()
	_, err := r.git(ctx, dir, args...)
	return err
}
