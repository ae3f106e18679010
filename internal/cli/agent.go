package cli

import (
	"os"

	"dibs/internal/api"
	"dibs/internal/session"
	"dibs/internal/task"

	"github.com/spf13/cobra"
)

// given says how auto became a name.
type given struct {
	minted bool
	// from is what tells this session from others; empty if nothing does.
	from string
}

// claimer returns the agent that acts, for commands that need one.
func (a *app) claimer() (string, error) {
	if a.agent == "" {
		return "", usagef("which agent? give --agent or set DIBS_AGENT")
	}
	err := a.named(true)
	return a.agent, err
}

// checkAgent reports a name that no agent can have, and puts this session's name in the
// place of auto.
func (a *app) checkAgent() error {
	if a.agent == "" {
		return nil
	}
	return a.named(false)
}

// only returns the agent that a question is limited to: the one that --agent
// names. DIBS_AGENT says who asks, not what about.
func (a *app) only(cmd *cobra.Command) (string, error) {
	if !cmd.Flags().Changed("agent") {
		return "", nil
	}
	err := a.checkAgent()
	return a.agent, err
}

// named has the daemon say what auto stands for, and checks any other name. anew lets that
// be a name which no later command gets: one in an environment that does not tell sessions
// from each other.
func (a *app) named(anew bool) error {
	if a.agent != task.AutoAgent {
		if err := task.ValidateAgent(a.agent); err != nil {
			return &usageError{err}
		}
		return nil
	}
	here, known := session.Find(os.Getenv)
	if !known && !anew {
		return usagef("nothing here tells one session from another, so that auto would be a new name for each command: set DIBS_AGENT to the name that you were given, or DIBS_SESSION to a text of your own")
	}
	if !known && a.request != "" {
		here.ID = session.Of(a.request).ID // a command that is repeated is the same agent's
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
