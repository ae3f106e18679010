package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
)

// State says what may become of a worktree.
type State string

// States of worktrees.
const (
	Held      State = "held"      // a live claim has it
	Kept      State = "kept"      // its work is nowhere else
	Published State = "published" // the publisher ended with 0
	Merged    State = "merged"    // the base has its work
	Orphan    State = "orphan"    // nobody knows its task
)

// List returns the marks, and the state of each, as far as the repository knows: Held while a process of
// this machine is at it, else Kept, Published or Merged.
func (r *Repository) List(ctx context.Context) (marks []Mark, states []State, err error) {
	tasks, err := r.tasks()
	for _, task := range tasks {
		m, wrong := r.read(task)
		if wrong != nil || m.Task != task {
			err = errors.Join(err, wrong)
			continue
		}
		state := Held
		if lock, wrong := r.lock(task); wrong == nil {
			state = r.state(ctx, m)
			lock.Close()
		}
		marks, states = append(marks, m), append(states, state)
	}
	return marks, states, err
}

// state returns what the repository knows of a mark that nobody is at.
func (r *Repository) state(ctx context.Context, m Mark) State {
	tip := r.tip(ctx, m.Branch)
	base, err := r.knownBase(ctx, r.remote(ctx))
	switch {
	case tip == "":
		return Kept
	case err == nil && tip != m.Base && r.merged(ctx, base, tip):
		return Merged
	case m.Done && m.Tip == tip:
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
	same, wrong := r.git(ctx, r.common, "rev-parse", base+"^{tree}")
	return err == nil && wrong == nil && tree == same
}

// tip returns the commit of a branch; empty if there is no such branch.
func (r *Repository) tip(ctx context.Context, branch string) string {
	commit, _ := r.git(ctx, r.common, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch)
	return commit
}

// Remove removes the worktree of a mark, and the mark, unless a process is at it, or something in it is
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
	r.step()
	return true, os.Remove(r.markFile(m.Task))
}
