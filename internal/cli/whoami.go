package cli

import (
	"cmp"
	"fmt"
	"io"
	"os/user"
	"strconv"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/run/sessionid"
	"dibs/internal/task"

	"github.com/spf13/cobra"
)

// whoami is what the daemon knows of the agent, and where its name came from.
type whoami struct {
	api.Agent
	From    string `json:"from"` // one of the constants below
	Session string `json:"session,omitempty"`
	User    string `json:"user,omitempty"`
}

// Where a name came from.
const (
	fromFlag        = "flag"
	fromEnvironment = "DIBS_AGENT"
	fromSession     = "session" // named earlier
	fromMint        = "minted"  // just now
)

func (a *app) whoamiCommand() *cobra.Command {
	var nameOnly bool
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Show which agent you are, and how you stand",
		Long: "Show which agent you are: your name and where it comes from, whether your user may use it, what you hold\n" +
			"and may hold, and how many triggers wait in your inbox. It takes none of them. auto is the name of this\n" +
			"session, which is minted now if it has none.",
		Example: "  dibs whoami --agent auto\n  export DIBS_AGENT=$(dibs whoami --agent auto --name)",
		RunE: a.asking(func(cmd *cobra.Command, _ []string, daemon *client.Client) error {
			if nameOnly && a.json {
				return usagef("--name prints no document: leave out --json, which has the name as agent")
			}
			auto := a.agent == task.AutoAgent
			agent, err := a.claimer()
			if err != nil {
				return err
			}
			who := whoami{From: fromEnvironment, Session: a.given.from}
			switch {
			case a.given.minted:
				who.From = fromMint
			case auto:
				who.From = fromSession
			case cmd.Flags().Changed("agent"):
				who.From = fromFlag
			}
			if who.Agent, err = daemon.Agent(cmd.Context(), agent); err != nil {
				return err
			}
			if nameOnly {
				_, err := fmt.Fprintln(a.stdout, clean(who.Agent.Agent))
				return err
			}
			if who.UID != nil {
				if u, err := user.LookupId(strconv.Itoa(*who.UID)); err == nil {
					who.User = u.Username
				}
			}
			err = a.print(who, func(w io.Writer) { showWhoami(w, who, time.Now()) })
			if err != nil || !who.Allowed {
				return err
			}
			for _, c := range who.Lost {
				// Marks the loss as delivered; on failure the agent hears of it again.
				_, _ = daemon.Lookup(cmd.Context(), string(c.ID), agent)
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&nameOnly, "name", false, "print the name and nothing else")
	return cmd
}

func showWhoami(w io.Writer, who whoami, now time.Time) {
	row(w, "agent", clean(who.Agent.Agent))
	row(w, "name from", nameFrom(who))
	if who.UID != nil {
		row(w, "user", clean(cmp.Or(who.User, "no name"))+fmt.Sprintf(" (%d)", *who.UID))
	}
	if who.Allowed {
		row(w, "allowed", "yes")
	} else {
		row(w, "allowed", "no: "+clean(who.Reason))
	}
	if who.Paused != nil {
		row(w, "paused", pausedLine(*who.Paused, now))
	}
	for i, c := range who.Claims {
		name := "holds"
		if i > 0 {
			name = ""
		}
		row(w, name, heldUntil(c, now)+spending(c))
		if c.Progress != "" {
			row(w, "", clean(c.Progress))
		}
	}
	if len(who.Claims) == 0 {
		row(w, "holds", "nothing")
	}
	for i, c := range who.Lost {
		name := "lost"
		if i > 0 {
			name = ""
		}
		row(w, name, quoted(c.Task)+": "+clean(cmp.Or(c.Detail, string(c.Outcome))))
	}
	limit := "any number of tasks"
	if who.MaxPerAgent > 0 {
		limit = fmt.Sprintf("%d of at most %d", len(who.Claims), who.MaxPerAgent)
	}
	row(w, "limit", limit)
	waits := "nothing waits"
	if who.Inbox > 0 {
		waits = fmt.Sprintf("%d waiting: dibs poll", who.Inbox)
	}
	row(w, "inbox", waits)
}

// nameFrom says where a name came from.
func nameFrom(who whoami) string {
	by := ""
	switch who.Session {
	case "":
	case sessionid.Terminal:
		by = ", identified by its terminal"
	default:
		by = ", identified by " + clean(who.Session)
	}
	switch who.From {
	case fromFlag:
		return "--agent"
	case fromSession:
		return "this session" + by
	case fromMint:
		if by == "" {
			return "minted now, and for this command only, unless you set DIBS_AGENT to it"
		}
		return "minted now for this session" + by
	}
	return who.From
}

// heldUntil names a held task and says until when.
func heldUntil(c api.Claim, now time.Time) string {
	name := quoted(c.Task)
	if c.State == "finishing" {
		return name + ", " + clean(string(c.Outcome)) + ", not yet in Notion"
	}
	return name + lasting(c.ExpiresAt, now)
}
