package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// State says what may become of a worktree.
type State string

// States of worktrees.
const (
	Held      State = "held"      // a live claim has it
	Kept      State = "kept"      // its work is nowhere else
	Published State = "published" // the publisher ended with 0, or the branch is at a remote
	Merged    State = "merged"    // the base has its work
	Orphan    State = "orphan"    // nobody knows its task
)

// List returns the marks of worktrees, and the state of each as far as the repository knows: Held while
// a process of this machine is at it, else Kept, Published or Merged. Folders beside them that are no
// worktrees any more are listed as Orphan, with a path alone.
func (r *Repository) List(ctx context.Context) (marks []Mark, states []State, err error) {
	tasks, err := r.tasks()
	paths := make(map[string]bool)
	for _, task := range tasks {
		m, wrong := r.read(task)
		if err = errors.Join(err, wrong); m.Path == "" || m.Task != task {
			continue
		}
		state := Held
		if lock, wrong := r.lock(task); wrong == nil {
			state = r.state(ctx, m)
			lock.Close()
		}
		marks, states, paths[m.Path] = append(marks, m), append(states, state), true
	}
	trees, _ := r.git(ctx, r.common, "worktree", "list", "--porcelain")
	for line := range strings.Lines(trees) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "worktree "); ok {
			paths[path] = true // another's
		}
	}
	folders, _ := os.ReadDir(r.folder())
	for _, f := range folders {
		if path := filepath.Join(r.folder(), f.Name()); f.IsDir() && !paths[path] {
			marks, states = append(marks, Mark{Path: path}), append(states, Orphan)
		}
	}
	return marks, states, err
}

// state returns what the repository knows of a mark that nobody is at.
func (r *Repository) state(ctx context.Context, m Mark) State {
	tip := r.commit(ctx, "refs/heads/"+m.Branch)
	base, err := r.knownBase(ctx, m.From)
	switch {
	case tip == "" && m.Made:
		return Kept // somebody removed the branch
	case tip == "", err == nil && r.merged(ctx, base, tip):
		return Merged // or it was never worked on
	case m.Done && m.Tip == tip, r.pushed(ctx, m.Branch) == tip:
		return Published
	}
	return Kept
}

// merged reports whether the base has a commit, or merging it would change nothing.
func (r *Repository) merged(ctx context.Context, base, tip string) bool {
	if r.has(ctx, base, tip) {
		return true
	}
	tree, err := r.git(ctx, r.common, "merge-tree", "--write-tree", base, tip)
	if err != nil { // a git before 2.38, or a conflict: then each commit counts by itself
		left, err := r.git(ctx, r.common, "cherry", base, tip)
		return err == nil && !strings.Contains("\n"+left, "\n+")
	}
	same, err := r.git(ctx, r.common, "rev-parse", base+"^{tree}")
	return err == nil && tree == same
}

// Remove removes the worktree of a mark, unless a process is at it, or something in it is
// not committed. The branch stays. It reports whether it did.
func (r *Repository) Remove(ctx context.Context, m Mark) (bool, error) {
	lock, err := r.lock(m.Task)
	if errors.Is(err, ErrInUse) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.Close()
	now, err := r.read(m.Task)
	if err != nil || now != m {
		return false, err // it is another attempt's by now
	}
	return r.remove(ctx, m)
}

// remove is Remove with the lock held.
func (r *Repository) remove(ctx context.Context, m Mark) (bool, error) {
	_, err := os.Lstat(m.Path)
	gone := errors.Is(err, fs.ErrNotExist)
	switch {
	case gone:
		r.forget(m.Path)
	case !r.ours(ctx, m):
		if m.Made {
			return false, nil // on another branch, or another's by now
		}
	case !m.Made:
		r.discard(ctx, m.Path)
	default:
		if dirty, err := r.git(ctx, m.Path, "status", "--porcelain"); err != nil || strings.TrimSpace(dirty) != "" {
			return false, err
		}
		_, _ = r.git(ctx, r.common, "worktree", "unlock", m.Path) // it may not be locked
		if err := r.change(ctx, r.common, "worktree", "remove", m.Path); err != nil {
			return false, err
		}
	}
	r.step()
	_ = os.Remove(strings.TrimSuffix(r.markFile(m.Task), ".json") + ".setup")
	if m.Published != "" {
		m.Path, m.Made, m.Done = "", false, false
		return true, r.write(m)
	}
	r.step()
	return true, os.Remove(r.markFile(m.Task))
}
