package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/spf13/cobra"
)

// arguments accepts one argument for each name; a name in brackets is optional.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		required := 0
		for _, name := range names {
			if !strings.HasPrefix(name, "[") {
				required++
			}
		}
		switch {
		case len(args) < required:
			return usagef("%s wants %s", cmd.CommandPath(), strings.Join(names, " "))
		case len(args) > len(names) && len(names) == 0:
			return usagef("%s wants no arguments, got %q", cmd.CommandPath(), args[0])
		case len(args) > len(names):
			return usagef("%s wants %s and no more, got %q", cmd.CommandPath(), strings.Join(names, " "), args[len(names)])
		}
		return nil
	}
}

// flagWants describes the values of flags by their type.
var flagWants = map[string]string{
	"bool":          "true or false",
	"int":           "a whole number",
	"int64":         "a whole number",
	"uint64":        "a whole number, 0 or more",
	"float64":       "a number",
	"duration":      "a time such as 90s or 10m",
	"durationSlice": "times such as 1s,2500ms",
}

// flagError turns the library's message about a flag into one of this program's.
func flagError(cmd *cobra.Command, err error) error {
	var value, name string
	if _, scanErr := fmt.Sscanf(err.Error(), "invalid argument %q for %q flag:", &value, &name); scanErr == nil {
		_, name, _ = strings.Cut(name, "--") // a short form may come first
		if instead, ok := gone[cmd.Name()+" --"+name]; ok {
			return usagef("--%s is gone: %s", name, instead)
		}
		switch want := flagWants[cmd.Flag(name).Value.Type()]; {
		case errors.Is(err, strconv.ErrRange):
			return usagef("--%s %s: the number is too large", name, value)
		case want != "":
			return usagef("--%s %q: want %s", name, value, want)
		}
	}
	return &usageError{err}
}

// taskID parses an argument that names a task. A key is returned as it is: the daemon knows its
// task.
func taskID(arg string) (task.ID, error) {
	id, err := task.ParseTaskID(arg)
	if err == nil {
		return id, nil
	}
	if key, ok := task.ParseKey(arg); ok {
		return task.ID(key), nil
	}
	return "", usagef("%q names no task: want its key such as T-3, its id, or its URL in Notion", arg)
}

// claimID parses an argument that names a claim, by its id or its task's.
func claimID(arg string) (string, error) {
	if id, ok := claim.ParseID(arg); ok {
		return string(id), nil
	}
	id, err := taskID(arg)
	if err != nil {
		return "", usagef("%q is neither the id of a claim nor of a task", arg)
	}
	return string(id), nil
}

// own returns the claim that the arguments name, or the agent's only one.
func (a *app) own(args []string) (string, error) {
	if len(args) > 0 {
		id, err := claimID(args[0])
		if err != nil {
			return "", err
		}
		return id, a.checkAgent()
	}
	if _, err := a.byToken(a.ctx); err != nil {
		return "", err
	}
	if a.agent == "" {
		return "", usagef("which claim? name its task, or say whose only claim you mean with --agent or DIBS_AGENT")
	}
	return api.OnlyClaim, a.checkAgent()
}

// many accepts one or more arguments.
func many(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s wants %s...", cmd.CommandPath(), name)
		}
		return nil
	}
}

// filesToo lets the shell complete file names.
func filesToo(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// gone has the commands and flags that dibs no longer has, and what to do instead. They are usage
// errors.
var gone = map[string]string{
	"history":          "use dibs report; with --json it has each day, and with --days 1 each hour",
	"demo --board":     "on a terminal the demo keeps the board open until a key is pressed, and --keep does elsewhere",
	"demo --machines":  "set journal.postgres for several daemons, see docs/cluster.md",
	"demo --postgres":  "set journal.postgres for several daemons, see docs/cluster.md",
	"simulate --plot":  "draw the figures that --json prints",
	"simulate --story": "docs/how-a-claim-works.md shows a race, request by request",
}

// refuseGone adds the flags that are gone, out of sight, so that flagError can refuse them.
func refuseGone(root *cobra.Command) {
	for what := range gone {
		name, flag, isFlag := strings.Cut(what, " --")
		for _, cmd := range root.Commands() {
			if isFlag && cmd.Name() == name {
				cmd.Flags().Var(goneFlag{}, flag, "")
				cmd.Flags().Lookup(flag).NoOptDefVal = "true"
				cmd.Flags().Lookup(flag).Hidden = true
			}
		}
	}
}

// goneFlag is a flag that cannot be set.
type goneFlag struct{}

func (goneFlag) Set(string) error { return errors.New("gone") }

func (goneFlag) String() string { return "" }

func (goneFlag) Type() string { return "" }

// filterFlags select tasks by their pages' properties.
type filterFlags struct {
	priority, text string
	where          []string
}

func (f *filterFlags) add(a *app, cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.priority, "priority", "", "only tasks of this `priority`, as the board calls it, or critical, high, medium, low or none")
	cmd.Flags().StringArrayVar(&f.where, "where", nil, "only tasks with this field, as `NAME=VALUE`; may be given several times. A field is one of tasks.fields, or title, key, status, priority, claimed_by, note; no value: an empty one")
	cmd.Flags().StringVar(&f.text, "text", "", "only tasks with all these `words` in the title")
	completeFlag(cmd, "priority", a.priorities)
	completeFlag(cmd, "where", a.fieldNames)
}

// filter returns the flags' filter. The daemon knows the fields, and what the words mean.
func (f *filterFlags) filter() (api.Filter, error) {
	for _, where := range f.where {
		if !strings.Contains(where, "=") {
			return api.Filter{}, usagef("--where %q: want NAME=VALUE", where)
		}
	}
	return api.Filter{Priority: f.priority, Where: f.where, Text: f.text}, nil
}

// contentFlag is the flag --content.
type contentFlag struct{ on bool }

func (f *contentFlag) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.on, "content", false, "with what the task's page says, and the comments on it")
}

// keeperFlags name a process that keeps a claim alive.
type keeperFlags struct {
	pid   int
	grace time.Duration
	asked api.Keeper // set by check
}

func (f *keeperFlags) add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.pid, "pid", 0, "a process `id`: while it lives the claim is renewed, and once it is gone, given back")
	cmd.Flags().DurationVar(&f.grace, "grace", 0, "how long the claim is kept after that, for another process to renew it")
}

// keeper validates the flags and returns the keeper.
func (f *keeperFlags) keeper(cmd *cobra.Command) (api.Keeper, error) {
	switch {
	case cmd.Flags().Changed("pid") && f.pid <= 0:
		return api.Keeper{}, usagef("--pid %d: want the id of a process", f.pid)
	case f.grace != 0 && f.pid == 0:
		return api.Keeper{}, usagef("--grace is for the end of a process: name that with --pid")
	case f.grace < 0 || f.grace > time.Hour:
		return api.Keeper{}, usagef("--grace %v: want a time from 0s to 1h", f.grace)
	}
	return api.Keeper{PID: f.pid, GraceSeconds: f.grace.Seconds()}, nil
}

func (f *keeperFlags) check(cmd *cobra.Command) (err error) {
	f.asked, err = f.keeper(cmd)
	return err
}

// mentioning adds --mention.
func mentioning(cmd *cobra.Command, who *string) {
	cmd.Flags().StringVar(who, "mention", "", "whom the comment mentions, a `person` by name, e-mail address or Notion's id")
}

// usedFlag is --usage: the tokens and dollars spent on a task.
type usedFlag struct{ api.Used }

func (f *usedFlag) add(cmd *cobra.Command) {
	cmd.Flags().Var(f, "usage", "what was used for the task since it was claimed, in all: `tokens=N,usd=X`, or one of them")
}

// Set implements pflag.Value.
func (f *usedFlag) Set(text string) (err error) {
	f.Usage, err = api.ParseUsage(text)
	return err
}

// String implements pflag.Value.
func (f *usedFlag) String() string { return "" }

// Type implements pflag.Value.
func (f *usedFlag) Type() string { return "usage" }
