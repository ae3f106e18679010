package worktree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Mark says what was made for a task.
type Mark struct {
	Task      string `json:"task"`
	Claim     string `json:"claim"` // of the last attempt
	Agent     string `json:"agent"`
	Branch    string `json:"branch"`
	Path      string `json:"path"`           // empty once it was removed
	Base      string `json:"base"`           // the commit
	From      string `json:"from,omitempty"` // the ref that --base named
	Attempt   int    `json:"attempt"`
	Made      bool   `json:"made"`                // the worktree is whole; until then nobody worked in it
	Done      bool   `json:"done,omitempty"`      // the publisher ended with 0, at Published
	Published string `json:"published,omitempty"` // the address that the publisher printed
	Tip       string `json:"tip,omitempty"`       // the commit that was published
}

// ErrInUse says that another process is at a task's worktree, or its branch is checked out elsewhere.
var ErrInUse = errors.New("in use")

func (r *Repository) marks() string { return filepath.Join(r.common, "dibs", "worktrees") }

func (r *Repository) markFile(task string) string { return filepath.Join(r.marks(), task+".json") }

// lock takes the lock of a task's mark, which ends with this process. The file stays: one that was
// removed could be locked by two.
func (r *Repository) lock(task string) (*os.File, error) {
	if err := os.MkdirAll(r.marks(), 0o777); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(r.marks(), task+".lock"), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("its worktree is %w by another dibs", ErrInUse)
		}
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return f, nil
}

// read returns the mark of a task; an empty one if there is none.
func (r *Repository) read(task string) (m Mark, err error) {
	text, err := os.ReadFile(r.markFile(task))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, fmt.Errorf("%s: %w", r.markFile(task), err)
	}
	return m, nil
}

// write saves a mark, whole or not at all.
func (r *Repository) write(m Mark) error {
	r.step()
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	name := r.markFile(m.Task) + ".new"
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	r.step()
	return os.Rename(name, r.markFile(m.Task))
}

// Of returns the mark of the worktree that a folder is in; an empty one if dibs made none there.
func Of(ctx context.Context, dir string) (Mark, error) {
	r, err := Open(ctx, dir, "", nil)
	if err != nil {
		return Mark{}, err
	}
	top, err := r.git(ctx, dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return Mark{}, err
	}
	tasks, err := r.tasks()
	for _, task := range tasks {
		if m, err := r.read(task); err == nil && m.Made && sameFile(m.Path, top) {
			return m, nil
		}
	}
	return Mark{}, err
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// tasks returns the tasks that have a mark.
func (r *Repository) tasks() (tasks []string, err error) {
	found, err := os.ReadDir(r.marks())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, f := range found {
		if task, ok := strings.CutSuffix(f.Name(), ".json"); ok {
			tasks = append(tasks, task)
		}
	}
	return tasks, err
}
