package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"syscall"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/notion/workspace"
	"dibs/internal/run/runner"
	"dibs/internal/setup"
	"dibs/internal/task"

	"github.com/spf13/cobra"
)

func (a *app) initCommand() *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make the databases in Notion, or add what they lack",
		Long: "Make the three databases on a page in Notion, or add what dibs needs to databases that you have,\n" +
			"and write the configuration file. Nothing that is there is changed or removed. The plan is shown\n" +
			"first. Running it again goes on where it stopped, or finds nothing to do. The token comes from\n" +
			"NOTION_TOKEN or notion.token_file, and is not written into the file.",
		Example: "  NOTION_TOKEN=ntn_… dibs init --parent https://www.notion.so/Team-9c1f0b6e2a4781d0b3c57e6d5f4a3b21 --dry-run\n" +
			"  dibs init --tasks https://www.notion.so/2f835e812bbb81b69700e18108a40b1f --parent 9c1f0b6e2a4781d0b3c57e6d5f4a3b21",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runInit(cmd, o) },
	}
	o.add(cmd)
	return cmd
}

type initOptions struct {
	parent string
	given  config.Databases
	maps   []string
	only   []string
	all    bool
	yes    bool
	dryRun bool
	force  bool
}

func (o *initOptions) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.parent, "parent", "", "the `page`, by id or URL, to find databases on, or make them")
	cmd.Flags().StringVar(&o.given.Tasks, "tasks", "", "the tasks `database`, by id or URL, if there is one")
	cmd.Flags().StringVar(&o.given.TasksSource, "tasks-source", "", "the `name`, or id, of the data source with the tasks, if that database has several")
	cmd.Flags().StringVar(&o.given.TaskLog, "task-log", "", "the task log's `database`")
	cmd.Flags().StringVar(&o.given.MeshLog, "mesh-log", "", "the mesh log's `database`")
	cmd.Flags().StringArrayVar(&o.maps, "map", nil, "what the database calls a property, a status or a priority, such as status=State, open=\"To do\" or high=Hoch; `KEY=NAME`, repeatable; a priority may have several names, with commas between them")
	cmd.Flags().StringArrayVar(&o.only, "only", nil, "offer agents only the tasks with this property, as `NAME=VALUE`; repeatable, all have to match")
	cmd.Flags().BoolVar(&o.all, "all", false, "offer agents all open tasks of a database that dibs does not work on yet")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "agree with the names that are guessed and the tasks that are offered, without being asked")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show the plan, and do nothing")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace a configuration file that says otherwise, and keep it as FILE.bak")
}

// setup validates the flags, and returns what they say to package setup.
func (o *initOptions) setup() (s setup.Options, err error) {
	s = setup.Options{Replace: o.force, Given: o.given, Only: o.only}
	if err := checkOnly(o.only); err != nil {
		return s, err
	}
	if o.all && len(o.only) > 0 {
		return s, usagef("--all and --only say different things: give one of them")
	}
	for _, id := range []struct {
		flag  string
		value *string
	}{{"tasks", &s.Given.Tasks}, {"task-log", &s.Given.TaskLog}, {"mesh-log", &s.Given.MeshLog}, {"parent", &o.parent}} {
		if *id.value == "" {
			continue
		}
		canonical, err := task.ParseID(*id.value)
		if err != nil {
			return s, usagef("--%s: %w", id.flag, err)
		}
		*id.value = string(canonical)
	}
	s.Parent = task.ID(o.parent)
	s.Map, err = nameMap(o.maps)
	return s, err
}

// nameMap parses the values of --map.
func nameMap(given []string) (map[string]string, error) {
	names := make(map[string]string)
	for _, s := range given {
		key, name, ok := strings.Cut(s, "=")
		key = strings.TrimSpace(key)
		if !ok || !slices.Contains(setup.MapKeys(), key) {
			return nil, usagef("--map %s: want KEY=NAME, with one of these as KEY: %s", s, strings.Join(setup.MapKeys(), ", "))
		}
		if _, twice := names[key]; twice {
			return nil, usagef("--map: %s is given twice", key)
		}
		names[key] = task.Name(strings.TrimSpace(name))
	}
	return names, nil
}

// checkOnly checks the values of --only.
func checkOnly(only []string) error {
	if _, err := (config.Tasks{Only: only}).Scope(); err != nil {
		return usagef("--only %v", err)
	}
	return nil
}

// consent is what the user of init has agreed with beforehand.
type consent struct {
	dryRun bool // to nothing: the plan is only shown
	names  bool // to the guessed names
	all    bool // to the tasks that agents would be offered
}

// What init says when nobody can be asked.
const (
	unagreed = "the names above are guesses: if they are right, give --yes, else --map KEY=NAME for what dibs is to use"
	unscoped = "agents would be offered all of these tasks: if that is meant, give --all, else --only NAME=VALUE for those that are for agents"
)

// canAsk reports whether a person can answer questions.
func (a *app) canAsk(cmd *cobra.Command) bool {
	return !a.json && isTerminal(cmd.InOrStdin())
}

// ask asks a person, and returns the answer. If ctx ends, which Ctrl-C does, so does the command.
func (a *app) ask(ctx context.Context, in *bufio.Reader, question string) (string, error) {
	fmt.Fprint(a.stderr, question+" ")
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() { // nothing but the end of the process ends the reading of a terminal
		text, err := in.ReadString('\n')
		read <- line{text, err}
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
		return "", ended{runner.Signalled + int(syscall.SIGINT)}
	case got := <-read:
		if errors.Is(got.err, io.EOF) {
			got.err = nil
		}
		return strings.TrimSpace(got.text), got.err
	}
}

// settle asks a person what the options of the status mean, and returns the plan that follows from
// the answers. Which of several is meant is not asked with --yes.
func (a *app) settle(cmd *cobra.Command, in *bufio.Reader, o *setup.Options, p *setup.Plan, agreed consent) (*setup.Plan, error) {
	for _, q := range p.Questions {
		if agreed.names && q.Taken != "" {
			continue
		}
		question := clean(q.String())
		if q.Taken != "" {
			question += " [" + clean(q.Taken) + "]"
		}
		answer, err := a.ask(cmd.Context(), in, question)
		if err != nil {
			return nil, err
		}
		if answer = cmp.Or(answer, q.Taken); answer == "" {
			return nil, fmt.Errorf("nothing was done: %s", q)
		}
		o.Map[q.Key] = task.Name(answer)
	}
	if len(p.Questions) == 0 {
		return p, nil
	}
	return setup.New(cmd.Context(), *o)
}

// agree asks a person whether the guessed names are right.
func (a *app) agree(ctx context.Context, in *bufio.Reader) error {
	answer, err := a.ask(ctx, in, "Are these names right, and is all of this to be done? [y/N]")
	if answer = strings.ToLower(answer); err != nil || answer == "y" || answer == "yes" {
		return err
	}
	return errors.New("nothing was done: give --map KEY=NAME for what dibs is to use")
}

// narrow asks a person which tasks are for agents, until all that would be offered are, and returns
// the plan for these.
func (a *app) narrow(cmd *cobra.Command, in *bufio.Reader, o setup.Options, p *setup.Plan) (*setup.Plan, error) {
	for {
		answer, err := a.ask(cmd.Context(), in, "Are all of these for agents? [all, or NAME=VALUE of those that are]")
		if err != nil {
			return nil, err
		}
		switch {
		case answer == "all":
			return p, nil
		case answer == "":
			return nil, errors.New("nothing was done: give --all, or --only NAME=VALUE for the tasks that are for agents")
		}
		next := o
		next.Only = []string{answer} // not the last one's as well: that may have been wrong
		if err := checkOnly(next.Only); err != nil {
			a.say("%s", clean(err.Error()))
			continue
		}
		narrower, err := setup.New(cmd.Context(), next)
		if err != nil {
			return nil, err
		}
		if len(narrower.Problems) > 0 {
			a.say("%s", clean(strings.Join(narrower.Problems, "; ")))
			continue
		}
		p = narrower
		a.say("%s", clean(p.SayOffered()))
	}
}

// made is the output of `init --json`.
type made struct {
	Steps     []setup.Step `json:"steps"`
	Problems  []string     `json:"problems"`
	Notes     []string     `json:"notes"`
	Done      bool         `json:"done"`
	Databases databases    `json:"databases"`
	Config    string       `json:"config"`
	// Guesses are the names that dibs found, by key: those that somebody must confirm, and those
	// that are spelled a little differently.
	Guesses setup.Guesses `json:"guesses"`
	// Offered is how many of the tasks that are there agents would be offered.
	Offered int `json:"offered"`
}

// databases are the databases' ids, empty if not made yet, and their data sources as the user named
// them.
type databases struct {
	Tasks         string `json:"tasks,omitempty"`
	TasksSource   string `json:"tasks_source,omitempty"`
	TaskLog       string `json:"task_log,omitempty"`
	TaskLogSource string `json:"task_log_source,omitempty"`
	MeshLog       string `json:"mesh_log,omitempty"`
	MeshLogSource string `json:"mesh_log_source,omitempty"`
}

func (a *app) runInit(cmd *cobra.Command, flags initOptions) error {
	o, err := flags.setup()
	if err != nil {
		return err
	}
	if err := a.configured(&o); err != nil {
		return err
	}
	agreed := consent{dryRun: flags.dryRun, names: flags.yes, all: flags.yes || flags.all}
	plan, err := setup.New(cmd.Context(), o)
	if err != nil {
		return a.adviseParent(o, err)
	}
	in := bufio.NewReader(cmd.InOrStdin())
	if a.canAsk(cmd) && !agreed.dryRun && len(plan.Problems) == 0 {
		if plan, err = a.settle(cmd, in, &o, plan, agreed); err != nil {
			return err
		}
	}
	plan.Problems = append(plan.Problems, plan.Unanswered()...)
	guessed := len(plan.Guesses) > 0 && !agreed.names && !agreed.dryRun
	offers := plan.OffersAll() && !agreed.all && !agreed.dryRun
	if !a.canAsk(cmd) {
		if guessed {
			plan.Problems = append(plan.Problems, unagreed)
		}
		if offers {
			plan.Problems = append(plan.Problems, unscoped)
		}
	}
	if err := a.showPlan(plan); err != nil {
		return err
	}
	stop := agreed.dryRun || len(plan.Problems) > 0
	if !stop && guessed {
		if err := a.agree(cmd.Context(), in); err != nil {
			return err
		}
	}
	if !stop && offers {
		if plan, err = a.narrow(cmd, in, o, plan); err != nil {
			return err
		}
	}
	if !stop {
		if err := a.apply(cmd.Context(), plan); err != nil {
			return err
		}
	}
	if err := a.print(madeBy(plan, !stop), func(w io.Writer) { a.showMade(w, plan, stop) }); err != nil {
		return err
	}
	if len(plan.Problems) > 0 {
		return ended{api.ExitFailure}
	}
	return nil
}

// configured adds the configuration, as far as there is one, and the connection to Notion.
func (a *app) configured(o *setup.Options) (err error) {
	if o.Config, err = config.Load(config.Options{File: a.config, New: true}); err != nil {
		return err
	}
	if o.Saved, err = config.Load(config.Options{File: a.config, New: true, FileOnly: true}); err != nil {
		return err
	}
	if o.File, err = config.Path(a.config); err != nil {
		return err
	}
	o.Client, err = workspace.Connect(o.Config.Notion, nil, slog.New(slog.DiscardHandler))
	return err
}

// apply carries out the plan, and says what was done.
func (a *app) apply(ctx context.Context, p *setup.Plan) error {
	noted := len(p.Notes)
	if err := p.Apply(ctx, func(s setup.Step) { a.say("done  %s", clean(s.String())) }); err != nil {
		return err
	}
	for _, note := range p.Notes[noted:] {
		a.say("note  %s", clean(note))
	}
	return nil
}

// madeBy returns the result of a plan.
func madeBy(p *setup.Plan, done bool) made {
	return made{
		Steps: append([]setup.Step{}, p.Steps...), Problems: append([]string{}, p.Problems...), Notes: append([]string{}, p.Notes...),
		Done: done, Databases: databases(p.Config.Databases), Config: p.File, Guesses: slices.Concat(p.Guesses, p.Adopted),
		Offered: len(p.Offered),
	}
}

// showPlan prints the plan, unless the output is JSON.
func (a *app) showPlan(p *setup.Plan) error {
	if a.json {
		return nil
	}
	return a.print(nil, func(w io.Writer) {
		if len(p.Steps) == 0 && len(p.Problems) == 0 {
			row(w, "nothing to do")
		}
		if p.Surveyed {
			row(w, "offer", "tasks", clean(p.SayOffered()))
		}
		shown := func(own bool) {
			for _, s := range p.Steps {
				if (s.Action == setup.AddOptions) == own { // in the team's own columns
					row(w, string(s.Action), s.Database, clean(s.What))
				}
			}
		}
		shown(true)
		for _, g := range p.Guesses {
			row(w, "guess", "tasks", clean(g.String()))
		}
		for _, q := range p.Questions {
			if q.Taken != "" {
				row(w, "ask", "tasks", clean(q.String()))
			}
		}
		shown(false)
		for _, problem := range p.Problems {
			row(w, "problem", "", clean(problem))
		}
		for _, note := range p.Notes {
			row(w, "note", "", clean(note))
		}
	})
}

// showMade prints the result and the next steps.
func (a *app) showMade(w io.Writer, p *setup.Plan, stopped bool) {
	if stopped || len(p.Steps) == 0 {
		return
	}
	row(w)
	d := p.Config.Databases
	row(w, "tasks", d.Tasks)
	row(w, "task_log", d.TaskLog)
	row(w, "mesh_log", d.MeshLog)
	row(w)
	row(w, "The token is not in the file. Of what else the environment sets, only the databases and")
	row(w, "the names of properties, statuses and priorities are.")
	row(w, "Try: dibs doctor, then dibs serve")
}

// adviseParent adds how to make new databases to an error about missing ones, unless --parent was
// given.
func (a *app) adviseParent(o setup.Options, err error) error {
	failed, isFailed := errors.AsType[*claim.StoreError](err)
	if o.Parent == "" && isFailed && failed.Kind == claim.NotFound {
		return fmt.Errorf("%w; to make new databases, share a page with the connection and give --parent PAGE", err)
	}
	return err
}
