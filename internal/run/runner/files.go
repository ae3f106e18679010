package runner

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"dibs/internal/api"
	"dibs/internal/kit/safefile"
	"dibs/internal/run/worktree"
	"dibs/internal/task"
)

// The names of a command's files begin and end so.
const filePrefix, fileSuffix = "dibs-task-", ".md"

// files are the files of a command. They stay open, so that they are not taken for abandoned ones.
type files struct {
	task    *os.File // what the task's page says
	summary *os.File // where the command may write what it has done
	usage   *os.File // where it may write what it used for that
}

// newFiles makes them. The caller removes them, also after an error.
func newFiles(ctx context.Context, o Options, c api.Claim) (f files, err error) {
	if f.task, err = safefile.Scratch(filePrefix, fileSuffix); err != nil {
		return f, err
	}
	if f.summary, err = safefile.Scratch(filePrefix, fileSuffix); err != nil {
		return f, err
	}
	if f.usage, err = safefile.Scratch(filePrefix, fileSuffix); err != nil {
		return f, err
	}
	return f, o.Brief(ctx, f.task, c)
}

// names returns the paths of all of them.
func (f files) names() []string {
	return []string{f.task.Name(), f.summary.Name(), f.usage.Name()}
}

func (f files) remove() {
	for _, file := range []*os.File{f.task, f.summary, f.usage} {
		if file != nil {
			os.Remove(file.Name())
			file.Close()
		}
	}
}

// account waits for the command's account of its work: the summary's file, else the last line on
// stdout. It is empty if the command wrote neither.
func (f files) account(stdout *output) string {
	return cmp.Or(readWritten(f.summary.Name()), stdout.drain().last())
}

// used returns what the command wrote into its file that it used for the task, if anything.
func (f files) used() (used api.Used, err error) {
	if f.usage == nil {
		return used, nil
	}
	if written := readWritten(f.usage.Name()); written != "" {
		used.Usage, err = api.ParseUsage(written)
	}
	return used, err
}

// readWritten returns what the command wrote into one of its files, as plain text; nothing unless
// that is a plain file: a link could lead to one that is not for Notion.
func readWritten(name string) string {
	file, err := os.OpenFile(name, os.O_RDONLY|safefile.NoFollow|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	written, _ := io.ReadAll(io.LimitReader(file, tailBytes))
	return strings.TrimSpace(task.Plain(strings.ToValidUTF8(string(written), "")))
}

// environment returns the environment of a command for a claim, in a worktree if there is one.
func (f files) environment(o Options, c api.Claim, tree *worktree.Attempt) []string {
	env := append(slices.Clone(o.Env),
		"DIBS_TASK_ID="+string(c.Task.ID), "DIBS_TASK_KEY="+c.Task.Key, "DIBS_TASK_TITLE="+c.Task.Title, "DIBS_TASK_URL="+c.Task.URL,
		"DIBS_CLAIM_ID="+string(c.ID), "DIBS_AGENT="+c.Agent,
		"DIBS_TASK_FILE="+f.task.Name(), "DIBS_SUMMARY_FILE="+f.summary.Name(), "DIBS_USAGE_FILE="+f.usage.Name(),
		fmt.Sprintf("DIBS_FENCE=%d", c.Fence))
	if tree == nil {
		return env
	}
	return append(worktree.Environment(env), "PWD="+tree.Path,
		"DIBS_WORKTREE="+tree.Path, "DIBS_BRANCH="+tree.Branch, "DIBS_BASE="+tree.Base, "DIBS_PUBLISHED="+tree.Published,
		fmt.Sprintf("DIBS_ATTEMPT=%d", tree.Mark.Attempt))
}
