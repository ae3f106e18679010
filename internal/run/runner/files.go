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

// files makes them. The caller removes them, also after an error.
func (j *job) files(ctx context.Context) (f files, err error) {
	if f.task, err = safefile.Scratch(filePrefix, fileSuffix); err != nil {
		return f, err
	}
	if f.summary, err = safefile.Scratch(filePrefix, fileSuffix); err != nil {
		return f, err
	}
	if f.usage, err = safefile.Scratch(filePrefix, fileSuffix); err != nil {
		return f, err
	}
	return f, j.Brief(ctx, f.task, j.claim)
}

func (f files) remove() {
	for _, file := range []*os.File{f.task, f.summary, f.usage} {
		if file != nil {
			os.Remove(file.Name())
			file.Close()
		}
	}
}

// said returns what the command says of its work: what it wrote into the summary's file, else its
// last line on stdout. It is empty if the command said nothing.
func (f files) said(stdout *output) string {
	return cmp.Or(readWritten(f.summary.Name()), stdout.said().last())
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

// environment returns the command's environment.
func (j *job) environment(f files) []string {
	return append(slices.Clone(j.Env),
		"DIBS_TASK_ID="+string(j.claim.Task.ID), "DIBS_TASK_KEY="+j.claim.Task.Key, "DIBS_TASK_TITLE="+j.claim.Task.Title, "DIBS_TASK_URL="+j.claim.Task.URL,
		"DIBS_CLAIM_ID="+string(j.claim.ID), "DIBS_AGENT="+j.claim.Agent,
		"DIBS_TASK_FILE="+f.task.Name(), "DIBS_SUMMARY_FILE="+f.summary.Name(), "DIBS_USAGE_FILE="+f.usage.Name(),
		fmt.Sprintf("DIBS_FENCE=%d", j.claim.Fence))
}
