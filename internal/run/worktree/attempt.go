package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
// here or at the remote. What a process that was killed had begun is finished first. The error is
// ErrInUse while the last attempt still runs on this machine, or the branch is checked out elsewhere.
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
	if m.Task == "" {
		m = Mark{Task: f.Task, Branch: r.branch(ctx, f)}
	}
	if m.Made {
		if _, err := os.Lstat(m.Path); errors.Is(err, fs.ErrNotExist) {
			m.Made = false // somebody removed it: the branch is still there
		}
	}
	if !m.Made && (filepath.Dir(m.Path) != r.folder() || !r.ours(ctx, m)) {
		m.Path = r.free(f, m.Branch)
	}
	m.Claim, m.Agent, m.Base, m.From, m.Done = f.Claim, f.Agent, base, r.base, false
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
	pushed, tip := r.pushed(ctx, a.Branch), r.commit(ctx, branch)
	if !a.Made {
		r.discard(ctx, a.Path)
		if at, _ := r.git(ctx, r.common, "for-each-ref", "--format=%(worktreepath)", branch); at != "" {
			return fmt.Errorf("its branch %s is %w in %s", a.Branch, ErrInUse, at)
		}
		if tip == "" || pushed != "" && r.has(ctx, pushed, tip) {
			if err := r.change(ctx, r.common, "update-ref", branch, cmp.Or(pushed, a.Base), tip); err != nil {
				return err
			}
		}
		r.step()
		if err := os.MkdirAll(filepath.Dir(a.Path), 0o777); err != nil {
			return err
		}
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
		return fmt.Errorf("remove %s, and %s is checked out anew: it is no worktree of this repository any more", a.Path, a.Branch)
	}
	for _, lock := range []string{"index.lock", "HEAD.lock"} { // of a git that was killed: we hold the mark's lock
		_ = os.Remove(filepath.Join(dir, lock))
	}
	if head, err := r.git(ctx, a.Path, "symbolic-ref", "--quiet", "HEAD"); err != nil || head != branch {
		return fmt.Errorf("check out %s in its worktree, or remove that: it is on %s, in %s", a.Branch, cmp.Or(strings.TrimPrefix(head, "refs/heads/"), "no branch"), a.Path)
	}
	if pushed != "" && !r.has(ctx, branch, pushed) { // somebody went on elsewhere
		if err := r.change(ctx, a.Path, "merge", "--quiet", "--ff-only", pushed); err != nil {
			r.say("%s is without what was pushed of it: %v", a.Branch, err)
		}
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

// unlockRef removes a lock of one of our branches that a killed git left: others hold one for a moment.
func (r *Repository) unlockRef(ref string) {
	file := filepath.Join(r.common, ref+".lock")
	for range 20 {
		if _, err := os.Lstat(file); err != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	_ = os.Remove(file)
}

// branch returns the branch of a task: one of its earlier attempts, or a new name.
func (r *Repository) branch(ctx context.Context, f For) string {
	name := "dibs/" + cmp.Or(slug(f.Key, 40, false), f.Task[max(0, len(f.Task)-12):]) + "-"
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
	if a.Made { // else, or once it was removed, there is nothing to unlock
		_ = a.r.change(context.Background(), a.r.common, "worktree", "unlock", a.Path)
	}
	a.lock.Close()
}

// Where says where the work is: the branch, and how much of it there is; any reports whether there is.
func (a *Attempt) Where(ctx context.Context) (where string, any bool) {
	fork, _ := a.r.git(ctx, a.Path, "merge-base", a.Base, "HEAD")
	size, _ := a.r.git(ctx, a.Path, "diff", "--shortstat", cmp.Or(fork, a.Base))
	if dirty, _ := a.r.git(ctx, a.Path, "status", "--porcelain"); dirty != "" {
		size += ", not all of it committed"
	}
	host, _ := os.Hostname()
	return "branch " + a.Branch + " on " + cmp.Or(host, "its machine") + ": " + cmp.Or(strings.Trim(size, " ,"), "nothing changed"), size != ""
}

// maxChanged is how many files Changed names.
const maxChanged = 32

// Changed returns the files that the attempt has changed, by their paths from the top of the
// repository: at most 32, and the folders at the top instead if they are more.
func (a *Attempt) Changed(ctx context.Context) []string {
	fork, _ := a.r.git(ctx, a.Path, "merge-base", a.Base, "HEAD")
	changed, _ := a.r.git(ctx, a.Path, "diff", "--name-only", "-z", cmp.Or(fork, a.Base))
	fresh, _ := a.r.git(ctx, a.Path, "ls-files", "--others", "--exclude-standard", "-z")
	all := strings.FieldsFunc(changed+"\x00"+fresh, func(r rune) bool { return r == 0 })
	if len(all) > maxChanged {
		for i, file := range all {
			if top, _, deeper := strings.Cut(file, "/"); deeper {
				all[i] = top + "/"
			}
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), maxChanged)]
}

// Commit is a script of sh that commits what is not committed, in the agent's name. It fails where
// the worktree is not on its branch, or in the middle of a merge with conflicts.
const Commit = `set -e
on=$(git symbolic-ref --quiet --short HEAD || echo "no branch")
if [ "$on" != "$DIBS_BRANCH" ]; then echo "the worktree is on $on, not on $DIBS_BRANCH" >&2; exit 1; fi
torn=$(git diff --name-only --diff-filter=U | head -n 1)
if [ -n "$torn" ]; then echo "$torn has conflicts that are not resolved" >&2; exit 1; fi
[ -n "$(git status --porcelain)" ] || exit 0
git add --all
if git diff --cached --quiet && ! git rev-parse --quiet --verify MERGE_HEAD >/dev/null; then exit 0; fi
mail=$(git config user.email || echo agent@dibs.invalid)
export GIT_AUTHOR_NAME="$DIBS_AGENT" GIT_AUTHOR_EMAIL="$mail"
git var GIT_COMMITTER_IDENT >/dev/null 2>&1 || export GIT_COMMITTER_NAME="$DIBS_AGENT" GIT_COMMITTER_EMAIL="$mail"
git commit --quiet -m "${DIBS_TASK_KEY:+$DIBS_TASK_KEY: }$DIBS_TASK_TITLE"
`

// Publish notes that the publisher ended with 0, and the address that it printed, if any.
func (a *Attempt) Publish(ctx context.Context, address string) error {
	a.Done, a.Tip, a.Published = true, a.r.commit(ctx, "refs/heads/"+a.Branch), cmp.Or(address, a.Published)
	return a.r.write(a.Mark)
}

// Completed removes the worktree of a completed task if its work is elsewhere, too. Leave is still to come.
func (a *Attempt) Completed(ctx context.Context) error {
	if a.r.state(ctx, a.Mark) == Kept {
		return nil
	}
	_, err := a.r.remove(ctx, a.Mark)
	return err
}
