package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os/user"
	"slices"
	"strconv"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/run/sessionid"
	"dibs/internal/task"

	"github.com/spf13/cobra"
)

// maxDays is the largest value of --days.
const maxDays = 30

func (a *app) agentsCommand() *cobra.Command {
	days := 7
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "List the agents seen lately, and how they do",
		Long: "List the agents seen in the last days, the one last seen first: what each holds, how many tasks it has\n" +
			"completed today, how long it had those of the last seven days (the median), how much waits in its inbox,\n" +
			"and what it reported to have used. An agent is seen when it asks for a task, renews, polls or finishes.\n" +
			"--agent limits the list to one.",
		Example: "  dibs agents --days 1",
		RunE:    a.asking(with(&days, a.runAgents)),
	}
	cmd.Flags().IntVar(&days, "days", days, "only agents seen in that many days, at most 30")
	return cmd
}

func (a *app) runAgents(cmd *cobra.Command, daemon *client.Client, days int, _ []string) error {
	if days < 1 || days > maxDays {
		return usagef("--days %d: want 1 to %d", days, maxDays)
	}
	only, err := a.only(cmd)
	if err != nil {
		return err
	}
	lately, err := client.Do(cmd.Context(), daemon, api.OpListAgents, api.ListAgentsInput{Days: days})
	if err != nil {
		return err
	}
	empty := fmt.Sprintf("Nobody was seen here within %s.", count(int64(days), "day"))
	if only != "" {
		lately.Agents = slices.DeleteFunc(lately.Agents, func(s api.AgentSummary) bool { return s.Agent != only })
		empty = fmt.Sprintf("%s was not seen here within %s.", clean(only), count(int64(days), "day"))
	}
	now := time.Now()
	unused := !slices.ContainsFunc(lately.Agents, func(s api.AgentSummary) bool { return s.Usage != nil })
	return list[api.AgentSummary]{document: lately, items: lately.Agents, empty: empty, columns: []column[api.AgentSummary]{
		{name: "AGENT", cell: func(s api.AgentSummary) cell { return plain(clean(s.Agent)) }},
		{name: "LAST SEEN", cell: func(s api.AgentSummary) cell { return plain(ago(s.LastSeen.Time, now)) }},
		{name: "TODAY", cell: func(s api.AgentSummary) cell { return plain(fmt.Sprint(s.DoneToday)) }},
		{name: "MEDIAN", cell: func(s api.AgentSummary) cell { return plain(median(s.MedianSeconds)) }},
		{name: "INBOX", cell: func(s api.AgentSummary) cell { return plain(fmt.Sprint(s.Inbox)) }},
		{name: "HOLDS", cell: func(s api.AgentSummary) cell { return plain(holding(s.Claims, now)) }},
		{name: "USED TODAY", hide: unused, cell: func(s api.AgentSummary) cell { return plain(spent(s.UsageToday)) }},
		{name: "USED IN ALL", hide: unused, cell: func(s api.AgentSummary) cell { return plain(spent(s.Usage)) }},
	}}.print(a)
}

// holding names the first of the claims, and says how many more there are.
func holding(claims []api.Claim, now time.Time) string {
	if len(claims) == 0 {
		return "-"
	}
	line := heldUntil(claims[0], now)
	if more := len(claims) - 1; more > 0 {
		line += fmt.Sprintf(", and %d more", more)
	}
	return line
}

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
	fromToken       = "token"   // which is for one name
)

func (a *app) whoamiCommand() *cobra.Command {
	var o whoamiOptions
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Show which agent you are, and how you stand",
		Long: "Show which agent you are: your name and where it comes from, whether your user may use it, what you hold\n" +
			"and may hold, and how many triggers wait in your inbox. It takes none of them. auto is the name of this\n" +
			"session, which is minted now if it has none.",
		Example: "  dibs whoami --agent auto\n  export DIBS_AGENT=$(dibs whoami --agent auto --name)",
		RunE:    a.asking(with(&o, a.runWhoami)),
	}
	o.add(cmd)
	return cmd
}

type whoamiOptions struct{ nameOnly bool }

func (o *whoamiOptions) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.nameOnly, "name", false, "print the name and nothing else")
}

func (a *app) runWhoami(cmd *cobra.Command, daemon *client.Client, o whoamiOptions, _ []string) error {
	if o.nameOnly && a.json {
		return usagef("--name prints no document: leave out --json, which has the name as agent")
	}
	auto, unnamed := a.agent == task.AutoAgent, a.agent == ""
	agent, err := a.claimer()
	if err != nil {
		return err
	}
	who := whoami{From: fromEnvironment, Session: a.given.from}
	switch {
	case unnamed:
		who.From = fromToken
	case a.given.minted:
		who.From = fromMint
	case auto:
		who.From = fromSession
	case cmd.Flags().Changed("agent"):
		who.From = fromFlag
	}
	if who.Agent, err = client.Do(cmd.Context(), daemon, api.OpGetAgent, api.GetAgentInput{Name: agent}); err != nil {
		return err
	}
	if o.nameOnly {
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
		_, _ = client.Do(cmd.Context(), daemon, api.OpGetClaim, api.GetClaimInput{ID: string(c.ID), Agent: agent, After: api.EventsFuture})
	}
	return nil
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
	case fromToken:
		return "the access token"
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

func (a *app) pauseCommand() *cobra.Command {
	var o pauseOptions
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Grant nothing for a while; what is held goes on",
		Long: "Grant nothing for a while, to anybody or, with --agent, to one agent or all that a pattern covers, such\n" +
			"as agent-*. DIBS_AGENT does not count here. What is held goes on: it can be renewed, finished and given\n" +
			"back. Who asks for a task is refused with the code paused; who waits for one with --wait goes on waiting.\n" +
			"Without --for it lasts until dibs resume; a restart does not end it.",
		Example: "  dibs pause --reason 'the build is broken'\n  dibs pause --agent Sandman --for 2h",
		RunE:    a.asking(with(&o, a.runPause)),
	}
	o.add(a, cmd)
	return cmd
}

type pauseOptions struct {
	body  api.PauseRequest
	lasts time.Duration
}

func (o *pauseOptions) add(a *app, cmd *cobra.Command) {
	cmd.Flags().DurationVar(&o.lasts, "for", 0, "how long (default: until dibs resume)")
	cmd.Flags().StringVar(&o.body.Reason, "reason", "", "why, a `text` for those who are refused")
	a.addRequestID(cmd)
}

func (a *app) runPause(cmd *cobra.Command, daemon *client.Client, o pauseOptions, _ []string) error {
	if cmd.Flags().Changed("for") && o.lasts < time.Second {
		return usagef("--for %v: want a time from 1s", o.lasts)
	}
	o.body.ForSeconds = o.lasts.Seconds()
	return a.brake(cmd, func(agent string) (api.Paused, error) {
		o.body.Agent = agent
		return client.Do(cmd.Context(), daemon, api.OpPause, api.Keyed(a.request, new(o.body)))
	})
}

func (a *app) resumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "End a pause",
		Long: "End the pause of everybody, that of claim.breaker included, or with --agent that of one agent or\n" +
			"pattern, as it was given. Other pauses go on, and are named.",
		RunE: a.asking(func(cmd *cobra.Command, daemon *client.Client, _ []string) error {
			return a.brake(cmd, func(agent string) (api.Paused, error) {
				return client.Do(cmd.Context(), daemon, api.OpResume, api.Keyed(a.request, &api.ResumeRequest{Agent: agent}))
			})
		}),
	}
	a.addRequestID(cmd)
	return cmd
}

// brake pauses or resumes the agent of --agent, or else everybody, and prints the pauses.
func (a *app) brake(cmd *cobra.Command, do func(agent string) (api.Paused, error)) error {
	agent := ""
	if cmd.Flags().Changed("agent") {
		var err error
		if agent, err = a.claimer(); err != nil {
			return err
		}
	}
	done, err := do(agent)
	if err != nil {
		return err
	}
	return a.print(done, func(w io.Writer) {
		switch {
		case !done.Changed:
			row(w, "nothing was paused")
		case len(done.Pauses) == 0:
			row(w, "nothing is paused")
		}
		for _, p := range done.Pauses {
			row(w, pausedLine(p, time.Now()))
		}
	})
}

// pausedLine describes a pause: whose it is, who ordered it, until when and why.
func pausedLine(p api.Pause, now time.Time) string {
	whom := "everybody is paused"
	if p.Agent != "" {
		whom = clean(p.Agent) + " is paused"
	}
	line := whom + lasting(p.ExpiresAt, now) + ", by " + clean(p.By)
	if p.Reason != "" {
		line += ": " + clean(p.Reason)
	}
	return line
}

// firstPaused is after what time a command that still waits asks whether its agent is paused, and
// askPaused how often from then on.
const (
	firstPaused = time.Second
	askPaused   = 5 * time.Second
)

// tellPaused says once on stderr, while a command waits, that the agent is paused.
func (a *app) tellPaused(ctx context.Context, daemon *client.Client, agent string, wait time.Duration) (stop func()) {
	if wait <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for pause := firstPaused; ; pause = askPaused {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
			if who, err := client.Do(ctx, daemon, api.OpGetAgent, api.GetAgentInput{Name: agent}); err == nil && who.Paused != nil {
				fmt.Fprintf(a.stderr, "dibs: %s; waiting\n", pausedLine(*who.Paused, time.Now()))
				return
			}
		}
	}()
	return func() { cancel(); <-gone }
}
