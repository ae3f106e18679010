package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// For is the attempt that wants a worktree.
type For struct {
	Task, Key, Title, Claim, Agent string
	Former                         int // attempts that the daemon knows
}

// Attempt is a worktree that is in use by this process.
type Attempt struct {
	Mark
	Setup string // the base's .dibs/setup, a file to run; empty if there is none
	r     *Repository
	lock  *os.File
}

// Begin returns the worktree of an attempt. It goes on with that of the last one, and with its branch,
// here or at the remote. What a process that was killed had begun is finished first. ErrInUse is
// returned while the last attempt still runs on this machine.
func (r *Repository) Begin(ctx context.Context, f For) (_ *Attempt, err error) {
	base, err := r.baseCommit(ctx)
	if err != nil {
		return nil, err
	}
	lock, err := r.lock(f.Task)
	if err != nil {
		return nil, err
	}
	a := &Attempt{r: r, lock: lock}
	defer func() {
		if err != nil {
			a.Leave()
		}
	}()
	m, err := r.read(f.Task)
	if err != nil {
		return nil, err
	}
	again := m.Task != ""
	if !again {
		m = Mark{Task: f.Task, Branch: r.branch(ctx, f)}
	}
	if m.Made {
		if _, err := os.Lstat(m.Path); errors.Is(err, fs.ErrNotExist) {
			m.Made = false // somebody removed it: the branch is still there
		}
	}
	if !m.Made && (m.Path == "" || !r.ours(ctx, m)) {
		m.Path = r.free(f, m.Branch)
	}
	m.Claim, m.Agent, m.Base, m.Done = f.Claim, f.Agent, base, false
	m.Attempt = max(m.Attempt, f.Former) + 1
	if err := r.write(m); err != nil {
		return nil, err
	}
	a.Mark = m
	if err := a.make(ctx); err != nil {
		return nil, err
	}
	if err := a.setup(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// make makes the worktree that the mark names, or finishes it.
func (a *Attempt) make(ctx context.Context) error {
	r, branch := a.r, "refs/heads/"+a.Branch
	r.unlockRef(branch)
	if !a.Made {
		r.discard(ctx, a.Path)
		if _, err := r.git(ctx, r.common, "rev-parse", "--verify", "--quiet", branch); err != nil {
			from := cmp.Or(r.pushed(ctx, a.Branch), a.Base)
			if err := r.change(ctx, r.common, "update-ref", branch, from, ""); err != nil {
				return err
			}
		}
		r.step()
		if err := os.MkdirAll(filepath.Dir(a.Path), 0o777); err != nil {
			return err
		}
		// git refuses a branch that is checked out elsewhere, and a folder that is not empty.
		if err := r.change(ctx, r.common, "worktree", "add", "--quiet", a.Path, a.Branch); err != nil {
			return err
		}
		a.Made = true
		if err := r.write(a.Mark); err != nil {
			return err
		}
	}
	dir, err := r.git(ctx, a.Path, "rev-parse", "--path-format=absolute", "--git-dir")
	if err != nil || filepath.Dir(filepath.Dir(dir)) != r.common {
		return fmt.Errorf("%s is no worktree of this repository any more: remove it, and its branch %s is checked out anew", a.Path, a.Branch)
	}
	for _, lock := range []string{"index.lock", "HEAD.lock"} { // of a git that was killed: we hold the mark's lock
		_ = os.Remove(filepath.Join(dir, lock))
	}
	if head, err := r.git(ctx, a.Path, "symbolic-ref", "--quiet", "HEAD"); err != nil || head != branch {
		return fmt.Errorf("%s is on %s: check out %s there, or remove it", a.Path, cmp.Or(head, "a commit without a branch"), a.Branch)
	}
	_ = r.change(ctx, r.common, "worktree", "lock", "--reason", "dibs: "+a.Agent+" is at it", a.Path) // it may be locked
	return nil
}

// setup takes .dibs/setup out of the base, if it is executable there.
func (a *Attempt) setup(ctx context.Context) error {
	entry, err := a.r.git(ctx, a.r.common, "ls-tree", a.Base, "--", ".dibs/setup")
	if err != nil || !strings.HasPrefix(entry, "100755 ") {
		return err
	}
	text, err := a.r.git(ctx, a.r.common, "cat-file", "blob", a.Base+":.dibs/setup")
	if err != nil {
		return err
	}
	a.Setup = filepath.Join(a.r.marks(), a.Task+".setup")
	_ = os.Remove(a.Setup)
	return os.WriteFile(a.Setup, []byte(text+"\n"), 0o700)
}

// unlockRef removes a lock of one of our branches that a killed git left: git itself holds one for
// less than a second.
func (r *Repository) unlockRef(ref string) {
	file := filepath.Join(r.common, ref+".lock")
	if info, err := os.Lstat(file); err == nil && time.Since(info.ModTime()) > 10*time.Second {
		_ = os.Remove(file)
	}
}

// branch returns the branch of a task: one of its earlier attempts, or a new name.
func (r *Repository) branch(ctx context.Context, f For) string {
	name := f.Key
	if name == "" {
		name = f.Task[max(0, len(f.Task)-12):]
	}
	name = "dibs/" + slug(name, 40, false) + "-"
	found, _ := r.git(ctx, r.common, "for-each-ref", "--format=%(refname)", "refs/heads/"+name+"*", "refs/remotes/*/"+name+"*")
	if first, _, _ := strings.Cut(found, "\n"); first != "" {
		return first[strings.Index(first, "/dibs/")+1:]
	}
	return name + cmp.Or(slug(f.Title, 30, true), "task")
}

// slug returns the letters and digits of a text, with dashes between.
func slug(text string, most int, lower bool) string {
	if lower {
		text = strings.ToLower(text)
	}
	words := strings.FieldsFunc(text, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9')
	})
	s := strings.Join(words, "-")
	return strings.Trim(s[:min(most, len(s))], "-")
}

// pushed returns the commit of a branch at a remote, as it was fetched; empty if it is not there.
func (r *Repository) pushed(ctx context.Context, branch string) string {
	found, _ := r.git(ctx, r.common, "for-each-ref", "--format=%(objectname)", "refs/remotes/*/"+branch)
	first, _, _ := strings.Cut(found, "\n")
	return first
}

// free returns a path for a new worktree, at which nothing is.
func (r *Repository) free(f For, branch string) string {
	path := filepath.Join(r.folder(), strings.TrimPrefix(branch, "dibs/"))
	for n, at := 2, path; ; n++ {
		if _, err := os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
			return at
		}
		at = fmt.Sprintf("%s-%d", path, n)
	}
}

// ours reports whether a mark's folder, if it is there, was made for it: it is empty, or a worktree of
// this repository on the mark's branch, or on none yet.
func (r *Repository) ours(ctx context.Context, m Mark) bool {
	entries, err := os.ReadDir(m.Path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return true
	}
	link, err := os.ReadFile(filepath.Join(m.Path, ".git"))
	dir := strings.TrimSpace(strings.TrimPrefix(string(link), "gitdir: "))
	if err != nil || filepath.Dir(filepath.Dir(dir)) != r.common {
		return false
	}
	head, err := os.ReadFile(filepath.Join(dir, "HEAD"))
	text := strings.TrimSpace(string(head))
	return errors.Is(err, fs.ErrNotExist) || text == "ref: refs/heads/"+m.Branch || strings.Trim(text, "0") == ""
}

// discard removes what is left of a worktree that was not whole, so that nobody worked in it.
func (r *Repository) discard(ctx context.Context, path string) {
	_ = r.change(ctx, r.common, "worktree", "remove", "--force", "--force", path)
	r.step()
	_ = os.RemoveAll(path)
	r.forget(path)
}

// forget removes what git keeps of a worktree whose folder is gone. That of others is left alone, so
// this is not git worktree prune.
func (r *Repository) forget(path string) {
	links, _ := filepath.Glob(filepath.Join(r.common, "worktrees", "*", "gitdir"))
	for _, link := range links {
		if text, err := os.ReadFile(link); err == nil && strings.TrimSpace(string(text)) == filepath.Join(path, ".git") {
			r.step()
			_ = os.RemoveAll(filepath.Dir(link))
		}
	}
}

// Leave lets go of the worktree, and keeps it.
func (a *Attempt) Leave() {
	if a.Made {
		_ = a.r.change(context.Background(), a.r.common, "worktree", "unlock", a.Path)
	}
	a.lock.Close()
}

// Where says where the work is, for the task's card: the branch, and how much differs from the base.
func (a *Attempt) Where(ctx context.Context) string {
	size, _ := a.r.git(ctx, a.r.common, "diff", "--shortstat", a.Base+"...refs/heads/"+a.Branch)
	return "branch " + a.Branch + ": " + cmp.Or(strings.TrimSpace(size), "nothing changed")
}

// On returns an error unless the worktree is still on its branch.
func (a *Attempt) On(ctx context.Context) error {
	head, _ := a.r.git(ctx, a.Path, "symbolic-ref", "--quiet", "--short", "HEAD")
	if head != a.Branch {
		return fmt.Errorf("the worktree %s is on %s, not on %s", a.Path, cmp.Or(head, "no branch"), a.Branch)
	}
	return nil
}

// Publish notes that the publisher ended with 0, and the address that it printed, if any.
func (a *Attempt) Publish(ctx context.Context, address string) error {
	tip, err := a.r.git(ctx, a.r.common, "rev-parse", "refs/heads/"+a.Branch)
	if err != nil {
		return err
	}
	a.Done, a.Tip, a.Published = true, tip, cmp.Or(address, a.Published)
	return a.r.write(a.Mark)
}

// Completed lets go of the worktree of a completed task, and removes it if its work is elsewhere, too.
func (a *Attempt) Completed(ctx context.Context) error {
	defer a.lock.Close()
	if err := a.r.change(ctx, a.r.common, "worktree", "unlock", a.Path); err != nil {
		a.r.say("%v", err)
	}
	if a.r.state(ctx, a.Mark) == Kept && a.r.pushed(ctx, a.Branch) != a.r.tip(ctx, a.Branch) {
		return nil
	}
	_, err := a.r.remove(ctx, a.Mark)
	return err
}
