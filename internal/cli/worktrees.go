package cli

import (
	"context"
	"errors"
	"slices"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/run/worktree"

	"github.com/spf13/cobra"
)

// worktrees is the output of `worktrees --json`.
type worktrees struct {
	Worktrees []worktreeHere `json:"worktrees"`
	Removed   []string       `json:"removed,omitempty"` // by --prune, their paths
}

type worktreeHere struct {
	Path   string         `json:"path"`
	Branch string         `json:"branch"`
	Task   *api.TaskRef   `json:"task"` // nil if nobody knows it
	Agent  string         `json:"agent"`
	State  worktree.State `json:"state"`
}

func (a *app) worktreesCommand() *cobra.Command {
	var prune bool
	cmd := &cobra.Command{
		Use:   "worktrees",
		Short: "List the git worktrees that dibs run has made in this repository",
		Long: "List the git worktrees that dibs run --worktree has made in this repository, with the task and the state\n" +
			"of each. held: a live claim has it. merged: the base has its work, or merging it would change nothing.\n" +
			"published: --publish ended with 0, or the branch is at a remote. kept: its work is here alone. orphan:\n" +
			"nobody knows its task.\n\n" +
			"--prune fetches, and removes those whose work is merged or published, and in which nothing is uncommitted.\n" +
			"Their branches stay. What dibs did not make is left alone.",
		RunE: a.asking(with(&prune, a.runWorktrees)),
	}
	cmd.Flags().BoolVar(&prune, "prune", false, "remove what is merged or published, and clean")
	return cmd
}

func (a *app) runWorktrees(cmd *cobra.Command, daemon *client.Client, prune bool, _ []string) error {
	ctx := cmd.Context()
	held, err := client.Do(ctx, daemon, api.OpListClaims, api.AgentFilter{})
	if err != nil {
		return err
	}
	r, err := worktree.Open(ctx, ".", "", func(format string, args ...any) { a.say("dibs: "+format, args...) })
	if err != nil {
		return &usageError{err}
	}
	if prune {
		_ = r.CheckBase(ctx) // which fetches; without a base nothing is merged
	}
	marks, states, err := r.List(ctx)
	if err != nil {
		return err
	}
	all := worktrees{Worktrees: []worktreeHere{}}
	for i, m := range marks {
		h := worktreeHere{Path: m.Path, Branch: m.Branch, Agent: m.Agent, State: states[i]}
		if slices.ContainsFunc(held.Claims, func(c api.Claim) bool { return string(c.ID) == m.Claim }) {
			h.State = worktree.Held
		}
		if prune && (h.State == worktree.Merged || h.State == worktree.Published) {
			removed, err := r.Remove(ctx, m)
			if err != nil {
				a.say("dibs: %s stays: %v", clean(m.Path), err)
			}
			if removed {
				a.say("removed %s; its branch %s stays", clean(m.Path), clean(m.Branch))
				all.Removed = append(all.Removed, m.Path)
				continue
			}
		}
		if h.Task, err = known(ctx, daemon, m.Task); err != nil {
			return err
		}
		if h.Task == nil && h.State != worktree.Held {
			h.State = worktree.Orphan
		}
		all.Worktrees = append(all.Worktrees, h)
	}
	return list[worktreeHere]{document: all, items: all.Worktrees, empty: "dibs run has made no worktree here.", columns: []column[worktreeHere]{
		{name: "STATE", cell: func(h worktreeHere) cell { return plain(string(h.State)) }},
		{name: "TASK", cell: func(h worktreeHere) cell {
			if h.Task == nil {
				return plain("-")
			}
			return plain(handle(*h.Task))
		}},
		{name: "AGENT", cell: func(h worktreeHere) cell { return plain(clean(h.Agent)) }},
		{name: "BRANCH", cell: func(h worktreeHere) cell { return plain(clean(h.Branch)) }},
		{name: "PATH", whole: true, cell: func(h worktreeHere) cell { return plain(clean(h.Path)) }},
	}}.print(a)
}

// known returns a task; nil if the daemon does not know it.
func known(ctx context.Context, daemon *client.Client, id string) (*api.TaskRef, error) {
	if id == "" {
		return nil, nil
	}
	t, err := client.Do(ctx, daemon, api.OpGetTask, api.GetTaskInput{ID: id})
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.Code(claim.CodeNotFound) {
		return nil, nil
	}
	return &t.TaskRef, err
}
