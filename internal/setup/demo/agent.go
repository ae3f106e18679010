package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/kit/clock"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"
)

// workTime is how long the work on a task takes.
const (
	workTime    = 150 * time.Millisecond
	watchedTime = 700 * time.Millisecond // for somebody who watches
)

// idleTime is how long an agent waits for a ready task before it checks whether to stop.
// longestIdle bounds the wait: a task may be held by nobody of the demo.
const (
	idleTime    = 4 * time.Second
	longestIdle = 30 * time.Second
)

// personEdits is the number of grants after which the person edits the board.
const personEdits = 6

// work runs one agent: it claims the next task, does it and completes it, until nothing has been
// ready for a while.
func (d *demo) work(ctx context.Context, agent string) error {
	busy := time.Now() // the time of its last grant
	for {
		cl, err := d.client.Claim(ctx, api.ClaimRequest{Agent: agent, WaitSeconds: idleTime.Seconds()}, "")
		refused, isRefused := errors.AsType[*api.Problem](err)
		switch {
		case isRefused && refused.Code == api.Code(claim.CodeNothingReady):
			if d.underWay() && time.Since(busy) < longestIdle {
				continue
			}
			d.print.line(agent, "goes home: nothing is ready")
			return nil
		case isRefused && refused.Code.Passes():
			clock.Pause(ctx, workTime)
			d.print.line(agent, "tries again: %s", refused.Detail)
			continue
		case err != nil:
			return fmt.Errorf("%s: next: %w", agent, err)
		}
		first := d.granted(cl)
		d.print.line(agent, "claimed    %s", describe(cl.Task))
		if err := d.interludes(ctx, agent, cl, first); err != nil {
			return err
		}
		clock.Pause(ctx, d.workTime())
		if err := d.finish(ctx, agent, cl); err != nil {
			return err
		}
		busy = time.Now()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// workTime returns how long the work on a task takes: long enough to be seen, if somebody watches.
func (d *demo) workTime() time.Duration {
	if d.Terminal != nil {
		return watchedTime
	}
	return workTime
}

// underWay reports whether a task is IN_PROGRESS, for an agent or for a claim that is being
// withdrawn: when that ends, something may become ready.
func (d *demo) underWay() bool {
	return slices.ContainsFunc(d.notion.Pages(d.notion.Databases().Tasks), func(p emulator.Page) bool {
		return p.Select("status") == string(task.InProgress)
	})
}

// finish completes a task.
func (d *demo) finish(ctx context.Context, agent string, cl api.Claim) error {
	_, err := d.client.Complete(ctx, string(cl.ID), api.CompleteRequest{Agent: agent, Summary: "Done in the demo."}, "")
	refused, isRefused := errors.AsType[*api.Problem](err)
	switch {
	case isRefused && refused.Code == api.CodeClaimLost:
		d.mu.Lock()
		d.summary.Lost++
		d.mu.Unlock()
		d.print.line(agent, "lost       %s (%s)", describe(cl.Task), refused.Detail)
		return nil
	case err != nil:
		return fmt.Errorf("%s: complete %s: %w", agent, cl.Task.Title, err)
	}
	d.print.line(agent, "completed  %s", describe(cl.Task))
	return nil
}

// granted counts a grant, and reports whether it is the first. No task of the demo may be granted twice, even one after the other: a
// granted task is completed, or cancelled by the person.
func (d *demo) granted(cl api.Claim) (first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	earlier := d.grantees[cl.Task.ID]
	if len(earlier) > 0 {
		d.print.line(cl.Agent, "WAS GRANTED WHAT %s HAD: %s", strings.Join(earlier, " AND "), describe(cl.Task))
	}
	if len(earlier) == 1 {
		d.summary.GrantedTwice++
	}
	d.grantees[cl.Task.ID] = append(earlier, cl.Agent)
	d.grants++
	return d.grants == 1
}

// interludes runs what happens once: the other agent asks for a task that this one holds, and a
// person edits the board.
func (d *demo) interludes(ctx context.Context, agent string, cl api.Claim, first bool) error {
	d.mu.Lock()
	edit := d.grants >= personEdits && !d.edited && !d.isAwaited(cl.Task.ID)
	d.edited = d.edited || edit
	d.mu.Unlock()
	if first {
		return d.askForHeld(ctx, agent, cl)
	}
	if edit {
		return d.person(cl)
	}
	return nil
}

// isAwaited reports whether other tasks depend on one. If the person cancelled it, these would stay
// undone, and the result would depend on timing.
func (d *demo) isAwaited(id task.ID) bool {
	return slices.ContainsFunc(d.notion.Pages(d.notion.Databases().Tasks), func(p emulator.Page) bool {
		return slices.Contains(p.Relation("depends_on"), string(id))
	})
}

// askForHeld lets the other agent ask for a held task, and be refused.
func (d *demo) askForHeld(ctx context.Context, holder string, cl api.Claim) error {
	rival := crew[0]
	if rival == holder {
		rival = crew[1]
	}
	got, err := d.client.Claim(ctx, api.ClaimRequest{Agent: rival, Task: string(cl.Task.ID)}, "")
	if err == nil {
		d.granted(got)
		return nil
	}
	refused, ok := errors.AsType[*api.Problem](err)
	if !ok {
		return fmt.Errorf("%s: claim %s: %w", rival, cl.Task.Title, err)
	}
	d.mu.Lock()
	d.summary.Refused++
	d.mu.Unlock()
	d.print.line(rival, "refused    %s (%s)", describe(cl.Task), refused.Detail)
	return nil
}

// visitor is the person who edits the board.
const visitor = "Maria"

// person cancels the task that an agent works on, and makes another one urgent. People win: the
// agent learns of it when it reports its work.
func (d *demo) person(cl api.Claim) error {
	if err := d.notion.EditPage(string(cl.Task.ID), map[string]any{"status": option("status", "CANCELLED")}); err != nil {
		return err
	}
	d.print.line(visitor, "cancelled  %s in Notion, while %s works on it", describe(cl.Task), cl.Agent)
	for _, p := range d.notion.Pages(d.notion.Databases().Tasks) {
		if p.Select("status") == "OPEN" && p.Text("claimed_by") == "" && p.Select("priority") == "low" && len(p.Relation("depends_on")) == 0 {
			d.print.line(visitor, "made       “%s” critical", p.Title())
			return d.notion.EditPage(p.ID, map[string]any{"priority": option("select", "critical")})
		}
	}
	return nil
}

func describe(t api.TaskRef) string { return fmt.Sprintf("“%s” (%s)", t.Title, t.Priority) }

// option and text return property values in the form of Notion's API.
func option(kind, name string) any { return map[string]any{kind: map[string]any{"name": name}} }

func text(kind, content string) any {
	return map[string]any{kind: []any{map[string]any{"text": map[string]any{"content": content}}}}
}
