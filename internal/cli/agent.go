package cli

import (
	"context"
	"os"

	"dibs/internal/api"
	"dibs/internal/run/sessionid"
	"dibs/internal/task"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"
)

// given says where the name for auto came from.
type given struct {
	minted bool
	// from is what identifies this session; empty if nothing does.
	from string
}

// claimer returns the agent's name, for commands that need one.
func (a *app) claimer() (string, error) {
	if a.agent == "" {
		return "", usagef("which agent? give --agent or set DIBS_AGENT")
	}
	err := a.named(true)
	return a.agent, err
}

// checkAgent returns an error for an invalid name, and replaces auto by this session's name.
func (a *app) checkAgent() error {
	if a.agent == "" {
		return nil
	}
	return a.named(false)
}

// ownName replaces auto by a name for this process alone, so that two of them are two agents.
func (a *app) ownName(ctx context.Context) error {
	if a.agent != task.AutoAgent {
		return nil
	}
	daemon, err := a.direct()
	if err != nil {
		return err
	}
	got, err := daemon.Mint(ctx, api.MintRequest{Session: sessionid.Of("run " + ulid.Make().String()).ID}, "")
	if err != nil {
		return err
	}
	a.agent = got.Agent
	return nil
}

// only returns the agent to which --agent limits a list. DIBS_AGENT says who asks, and limits
// nothing.
func (a *app) only(cmd *cobra.Command) (string, error) {
	if !cmd.Flags().Changed("agent") {
		return "", nil
	}
	err := a.checkAgent()
	return a.agent, err
}

// named replaces auto by the name that the daemon has for it, and validates any other name. With
// anew the name may be one that no later command gets, in an environment that does not identify
// sessions.
func (a *app) named(anew bool) error {
	if a.agent = task.Name(a.agent); a.agent != task.AutoAgent {
		if err := task.ValidateAgent(a.agent); err != nil {
			return &usageError{err}
		}
		return nil
	}
	here, known := sessionid.Find(os.Getenv)
	if !known && !anew {
		return usagef("nothing here tells one session from another, so that auto would be a new name for each command: set DIBS_AGENT to the name that you were given, or DIBS_SESSION to a text of your own")
	}
	if !known && a.request != "" {
		here.ID = sessionid.Of(a.request).ID // a repeated command belongs to the same agent
	}
	daemon, err := a.daemon()
	if err != nil {
		return err
	}
	got, err := daemon.Mint(a.ctx, api.MintRequest{Session: here.ID}, "")
	if err != nil {
		return err
	}
	a.agent, a.given = got.Agent, given{minted: got.Minted, from: here.From}
	switch {
	case got.Minted && known:
		a.say("dibs: you are %s, in this session", clean(got.Agent))
	case got.Minted:
		a.say("dibs: you are %s: set DIBS_AGENT to it, or later commands with auto get another name", clean(got.Agent))
	}
	return nil
}
