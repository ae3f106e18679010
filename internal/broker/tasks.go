package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker/ready"
	"dibs/internal/claim"
	"dibs/internal/journal/report"
	"dibs/internal/outbox/creation"
	"dibs/internal/task"
)

// GetTask returns one task of the mirror. The error is ErrNoTask, or the journal's.
func (b *Broker) GetTask(ctx context.Context, _ Caller, in *api.GetTaskInput) (api.Task, error) {
	return b.task(ctx, task.ID(in.ID))
}

func (b *Broker) task(ctx context.Context, id task.ID) (api.Task, error) {
	bd := b.present()
	t, ok := bd.Task(id)
	if !ok {
		return api.Task{}, ErrNoTask
	}
	if err := b.load(ctx, bd, ""); err != nil {
		return api.Task{}, err
	}
	out := bd.view(t, "")
	spent, err := b.past.Spent(ctx, report.Spending{Task: id})
	if err != nil {
		return api.Task{}, err
	}
	out.Usage = api.NewUsage(report.Total(spent))
	if earlier, err := b.earlier(ctx, id); err == nil {
		out.Attempts = b.attempts(earlier)
	}
	return out, nil
}

// CodeFiltered is the code of a ready task that the filter excludes. No denial has it.
const CodeFiltered claim.Code = "filtered"

// ListTasks lists the tasks that f selects. Ready ones come in the order in which they are offered; all
// tasks come in the order of matters. With f.Why, the ready ones come first and then the others.
// The error is an *InvalidError if the filter cannot be used.
func (b *Broker) ListTasks(ctx context.Context, who Caller, in *api.ListTasksInput) (api.Tasks, error) {
	f := *in
	if f.Why && !f.Ready {
		return api.Tasks{}, api.Invalid("query.why", errors.New("goes with ready=true only"))
	}
	filter, err := b.filter(api.Filter{Priority: f.Priority, Where: f.Where, Text: f.Text})
	if err != nil {
		return api.Tasks{}, err
	}
	if f.Agent != "" {
		b.mirror.Use(ctx)
	}
	status, err := b.status("status", f.Status)
	if err != nil {
		return api.Tasks{}, err
	}
	f.Status = string(status)
	bd := b.board()
	if bd.at, err = who.placeOf("query.repository", f.Repository); err != nil {
		return api.Tasks{}, err
	}
	out := api.Tasks{Age: b.age(ageOf(bd.standing)), Tasks: []api.Task{}}
	if err := b.load(ctx, bd, f.Agent); err != nil {
		return out, err
	}
	out.LimitReached = f.Ready && b.atLimit(f.Agent, bd)
	if out.LimitReached && !f.Why {
		return out, nil
	}
	var selected []task.Task
	var withhold func(task.Task, *api.Task) // turns a ready task into an unready one, where it cannot be claimed after all
	switch {
	case f.Why:
		selected, _ = b.readyTasks(bd, f, filter, 0)
		selected = append(selected, bd.rest(selected, f)...)
		out.Total = len(selected)
		if withhold, err = b.withholding(ctx, bd, f.Agent, filter, out.LimitReached); err != nil {
			return out, err
		}
	case f.Ready:
		selected, out.Total = b.readyTasks(bd, f, filter, f.Limit)
	default:
		selected = bd.matching(f, filter)
		out.Total = len(selected)
		bd.sort(selected, f.Agent)
	}
	if f.Limit > 0 && len(selected) > f.Limit {
		selected = selected[:f.Limit]
	}
	for _, t := range selected {
		v := bd.view(t, f.Agent)
		if withhold != nil && v.Ready {
			withhold(t, &v)
		}
		out.Tasks = append(out.Tasks, v)
	}
	return out, nil
}

// readyTasks returns the first tasks that are ready for f.Agent and selected by f, in the order in
// which they are offered, and how many there are in all. limit is how many to return, 0 for all. It
// looks at tasks beyond the limit only if f selects by fields, words or status.
func (b *Broker) readyTasks(bd *board, f api.ListTasksInput, filter task.Filter, limit int) (first []task.Task, total int) {
	listed := f.Status == "" && len(filter.Where) == 0 && len(filter.Words) == 0 && len(bd.withheld) == 0 && bd.touched(f.Agent).Empty() // everything that offered returns
	assigned, open := b.offered(f.Agent, filter)
	for _, list := range []ready.List{assigned, open} {
		left := list.Len()
		for t := range list.All() {
			full := limit > 0 && len(first) == limit
			if full && listed {
				total += left
				break
			}
			left--
			if f.Status != "" && string(t.Status) != f.Status || !filter.Match(t) || !full && !bd.ready(t, f.Agent) {
				continue
			}
			total++
			if !full {
				first = append(first, t)
			}
		}
	}
	return first, total
}

// matching returns all tasks that f selects, ready or not.
func (bd *board) matching(f api.ListTasksInput, filter task.Filter) (out []task.Task) {
	for t := range bd.tasks {
		if t.Trashed || f.Status != "" && string(t.Status) != f.Status || f.Agent != "" && claim.Whose(t) != f.Agent || !filter.Match(t) {
			continue
		}
		out = append(out, t)
	}
	return out
}

// rest returns the unfinished tasks that were not selected, in the order of matters.
func (bd *board) rest(selected []task.Task, f api.ListTasksInput) []task.Task {
	listed := make(map[task.ID]bool, len(selected))
	for _, t := range selected {
		listed[t.ID] = true
	}
	var out []task.Task
	for t := range bd.tasks {
		if !t.Trashed && !t.Status.Finished() && !listed[t.ID] && (f.Status == "" || string(t.Status) == f.Status) {
			out = append(out, t)
		}
	}
	bd.sort(out, f.Agent)
	return out
}

// withholding returns a function that marks a ready task as unready, with the reason, if the agent
// could not claim it now after all.
func (b *Broker) withholding(ctx context.Context, bd *board, agent string, f task.Filter, limit bool) (func(task.Task, *api.Task), error) {
	closed, doubt := b.mirror.Closed(), b.doubt()
	barred, err := b.paused(ctx, agent)
	return func(t task.Task, out *api.Task) {
		switch miss := f.Miss(t, b.words); {
		case doubt != nil:
			unready(out, claim.CodeJournalUnavailable, "no task can be claimed: "+doubt.Error())
		case closed != nil:
			unready(out, claim.CodeNotionRefused, "no task can be claimed: "+closed.Error())
		case barred != nil:
			unready(out, barred.Code, barred.Detail)
		case limit:
			unready(out, claim.CodeLimitReached, fmt.Sprintf("%s holds as many tasks as it may (max_per_agent, %d)", agent, b.limit(agent, bd.policy)))
		case miss != "":
			unready(out, CodeFiltered, "it is not what was asked for: "+miss)
		case b.troubles.passed(t.ID):
			unready(out, claim.CodeNotionUnavailable, b.troubles.why(t.ID))
		}
	}, err
}

// TaskByKey returns the id of the task with that key, ignoring case, or ErrNoTask.
func (b *Broker) TaskByKey(ctx context.Context, key string) (task.ID, error) {
	for t := range b.mirror.Tasks() {
		if t.IsKey(key) {
			return t.ID, nil
		}
	}
	return "", fmt.Errorf("%w %s; if it was just made: dibs sync", ErrNoTask, key)
}

// AddTask creates a task, once for each key. The task can be claimed as soon as AddTask returns,
// unless something blocks it. If the request makes no sense, the error is an *InvalidError, a
// *task.DraftError or ErrNoTask; otherwise it is a *claim.StoreError. If that is a
// *creation.UnknownError, repeat the request under its key to find out whether the task was made.
func (b *Broker) AddTask(ctx context.Context, who Caller, in *api.AddInput) (api.Added, error) {
	made, err := b.add(ctx, who, in.Body)
	if err != nil {
		return api.Added{}, err
	}
	shown, err := b.task(ctx, made.ID)
	if errors.Is(err, ErrNoTask) { // finished or trashed since
		shown, err = b.present().shown(made), nil
	}
	return api.Added{Task: shown}, err
}

func (b *Broker) add(ctx context.Context, who Caller, r api.AddRequest) (task.Task, error) {
	draft := task.Draft{Title: task.OneLine(strings.TrimSpace(r.Title), -1), Body: r.Body, Priority: r.Priority, For: r.For}
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		values, err := textsOf(r.Fields[name])
		if err != nil {
			return task.Task{}, api.Invalid("body.fields."+name, err)
		}
		draft.Fields = append(draft.Fields, task.Field{Name: name, Values: values})
	}
	if strings.TrimSpace(r.Title) == "" {
		return task.Task{}, &InvalidError{"a task needs a title"}
	}
	if draft.For != "" {
		if err := b.checkName(draft.For); err != nil {
			return task.Task{}, err
		}
	}
	for _, name := range r.DependsOn {
		id, err := b.Named(ctx, name)
		if err != nil {
			return task.Task{}, fmt.Errorf("the new task is to depend on %q: %w", name, err)
		}
		draft.DependsOn = append(draft.DependsOn, id)
	}
	made, fresh, err := b.creations.Make(ctx, creation.Request{Draft: draft, Lookup: b, UID: who.UID, Key: who.Key})
	if err != nil {
		return task.Task{}, err
	}
	if fresh {
		at := b.now()
		e := claim.Fact{ID: claim.NewFactID(at), At: at, Kind: claim.KindAdded, Task: made.ID, Key: made.Key, Title: made.Title, URL: made.URL, Agent: r.Agent, By: who.signs(r.Agent), Holder: draft.For}
		if err := b.journal.Record(context.WithoutCancel(ctx), e); err != nil {
			b.log.Error("could not journal that a task was made; only its entry in dibs log is missing", claim.AttrTask, made.ID, claim.AttrError, err)
		}
	}
	return made, nil
}

// textsOf returns the values of a field as texts.
func textsOf(value any) ([]string, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case bool:
		return []string{strconv.FormatBool(v)}, nil
	case float64:
		return []string{strconv.FormatFloat(v, 'f', -1, 64)}, nil
	case []any:
		var all []string
		for _, one := range v {
			texts, err := textsOf(one)
			if _, nested := one.([]any); err != nil || nested {
				return nil, errors.New("a list of texts is wanted")
			}
			all = append(all, texts...)
		}
		return all, nil
	}
	return nil, fmt.Errorf("a text, a number, true or false, or a list of texts is wanted")
}

// Named returns the task with that key, id or URL. It asks Notion for a task that the mirror does
// not have. The error is ErrNoTask, an *InvalidError or a *claim.StoreError.
func (b *Broker) Named(ctx context.Context, name string) (task.ID, error) {
	id, err := task.ParseTaskID(name)
	if err != nil {
		if key, ok := task.ParseKey(name); ok {
			return b.TaskByKey(ctx, key)
		}
		return "", &InvalidError{fmt.Sprintf("%q names no task: want its key such as T-3, its id, or its URL in Notion", name)}
	}
	if t, known := b.mirror.Task(id); known && !t.Trashed {
		return id, nil
	}
	read, err := b.creations.Get(ctx, id)
	failed, isFailed := errors.AsType[*claim.StoreError](err)
	switch {
	case isFailed && failed.Kind == claim.NotFound, err == nil && read.Task.Trashed:
		return "", fmt.Errorf("%w %s", ErrNoTask, id)
	case err != nil:
		return "", err
	}
	return id, nil
}

// Reopen gives a task another status. See claim.Claimer.Reopen. The error is an *InvalidError if Was
// or Status will not do. An agent may only open a task: it ends what it holds, and other tasks are
// for people to decide.
func (b *Broker) Reopen(ctx context.Context, who Caller, in *api.ReopenInput) (api.Reopened, error) {
	r := orZero(in.Body)
	before, err := b.status("was", r.Was)
	if err != nil {
		return api.Reopened{}, err
	}
	to, err := b.status("status", r.Status)
	switch {
	case err != nil:
		return api.Reopened{}, err
	case to != "" && !slices.Contains(claim.ToStatuses(), to):
		return api.Reopened{}, &InvalidError{fmt.Sprintf("status: a task gets %s by what agents do: want one of %v", to, claim.ToStatuses())}
	case to != "" && b.words.ByStatus()[to] == "":
		return api.Reopened{}, &InvalidError{fmt.Sprintf("status: the board has no option for %s: add one in Notion, and name it in tasks.statuses", to)}
	case to != "" && to != task.Open && r.Agent != "":
		return api.Reopened{}, &InvalidError{fmt.Sprintf("status: %s may only open a task: its holder, or a person in no agent's name, sets it to %s", r.Agent, to)}
	case to != "" && to != task.Open && before == "":
		return api.Reopened{}, &InvalidError{fmt.Sprintf("was: say in which status you saw the task, so that %s replaces nothing else", to)}
	}
	t, known := b.mirror.Task(task.ID(in.ID))
	if !known {
		t = task.Task{ID: task.ID(in.ID)}
	}
	if to == "" || to == task.Open { // before it is open, so that nobody else gets it meanwhile
		if err := b.givesBack(ctx, t.ID, r.Note, b.now()); err != nil {
			return api.Reopened{}, err
		}
	}
	t, was, err := b.claimer.Reopen(ctx, claim.Reopening{Task: t, Agent: r.Agent, By: who.signs(r.Agent), Note: r.Note, Was: before, Holder: r.Holder, To: to})
	if err != nil || was != task.Review {
		b.backs.remove(task.ID(in.ID))
		b.ready.Changed(task.ID(in.ID))
	}
	b.Changed()
	if err != nil {
		return api.Reopened{}, err
	}
	out := api.Reopened{Task: b.ref(t), Was: was}
	if name := b.words.StatusName(was); name != string(was) {
		out.WasName = name
	}
	return out, nil
}

// ReopenFailed opens the tasks whose last claim failed, by one of those agents, and that nobody
// edited or commented on since. It also returns those that somebody did. With DryRun it only returns
// them. It stops at an error; asked again, it goes on with the others.
func (b *Broker) ReopenFailed(ctx context.Context, who Caller, in *api.KeyedInput[api.ReopenFailedRequest]) (api.ReopenedTasks, error) {
	r := in.Body
	out := api.ReopenedTasks{Reopened: []api.TaskRef{}}
	if _, err := b.mirror.Sync(ctx, false); err != nil {
		return out, err
	}
	defer b.Changed()
	for _, t := range slices.Collect(b.mirror.Tasks()) {
		if t.Status != task.Failed && t.Status != task.Blocked || t.Trashed {
			continue
		}
		claims, err := b.journal.TaskClaims(ctx, t.ID)
		if err != nil {
			return out, err
		}
		i := slices.IndexFunc(claims, func(h claim.Hold) bool { return !h.Started.IsZero() })
		if i < 0 || !failedBy(r, claims[i]) || b.Local(claims[i].Ended).Before(r.Since.Time) {
			continue
		}
		last := claims[i]
		touched := last.Task.Status != t.Status || !claim.Unedited(last.Task, t)
		if !touched {
			var comments []Comment
			comments, err = b.commentsSince(ctx, last)
			touched = len(comments) > 0
		}
		if err == nil && !touched && !r.DryRun {
			var now task.Task
			if now, _, err = b.claimer.Reopen(ctx, claim.Reopening{Task: t, Agent: r.Agent, By: who.signs(r.Agent), Note: r.Note, Was: t.Status, Left: &last.Task}); err == nil {
				t = now
			}
		}
		d, denied := errors.AsType[*claim.Denied](err)
		switch {
		case touched, denied && slices.Contains(justTouched, d.Code):
			out.Left = append(out.Left, b.ref(t))
		case err != nil:
			return out, err
		default:
			out.Reopened = append(out.Reopened, b.ref(t))
		}
	}
	return out, nil
}

// justTouched are the codes with which a claim.Claimer refuses to open what somebody touched just now.
var justTouched = []claim.Code{claim.CodeHeld, claim.CodeNotOpen, claim.CodeReserved, claim.CodeNotFound}

// failedBy reports whether a claim failed, of one of the agents that are meant.
func failedBy(r api.ReopenFailedRequest, h claim.Hold) bool {
	meant := func(pattern string) bool { return task.MatchAgent(pattern, h.Agent) }
	return h.Ending == claim.EndFailed && slices.ContainsFunc(r.FailedBy, meant)
}

// commentsSince returns the comments on the page of an ended claim that are newer than the claim's end,
// and that neither its agent nor dibs signed. The dates of comments are cut to the minute. Comments
// that dibs may not read count for nothing.
func (b *Broker) commentsSince(ctx context.Context, h claim.Hold) ([]Comment, error) {
	comments, err := b.pages.Comments(ctx, h.Task.ID)
	if failed, ok := errors.AsType[*claim.StoreError](err); ok && failed.Kind == claim.Refused {
		return nil, nil
	}
	return slices.DeleteFunc(comments, func(c Comment) bool {
		own := c.Signed && (c.By == h.Agent || c.By == claim.Sweeper)
		return own || c.At.Before(h.Finish.At.Truncate(time.Minute))
	}), err
}
