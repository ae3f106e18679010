package broker

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker/ready"
	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/mirror"
	"dibs/internal/reserve"
	"dibs/internal/task"
)

// board shows the mirror and the claims held here. Its fields are as of the moment when it was
// made; the mirror and the claimer answer as of now.
type board struct {
	Mirror
	standing mirror.Standing
	tasks    iter.Seq[task.Task] // a snapshot, in the order in which they are offered
	claimer  *claim.Claimer
	now      time.Time
	policy   claim.Policy
	offers   map[task.ID]inbox.Offer  // set by load
	withheld map[task.ID]claim.Finish // set by load, see Broker.withheld
	time     func(time.Time) api.Time
	words    *task.Words
	rot      *task.Rot // see waitsInVain

	// at is where the agent that asks works, and others what was reserved there when it was first asked
	// for, see touched. waiting are the tasks that were passed over.
	at       workplace
	reserved Reservations
	others   *reserve.Touched
	othersOf string
	waiting  *overlooked
	returned func(task.Task) (back, bool) // see Broker.returned
}

func (bd *board) ref(t task.Task) api.TaskRef { return api.NewTaskRef(t, bd.words) }

// load reads what else the agent's views of tasks show: the offers, and the tasks that it is not
// offered.
func (b *Broker) load(ctx context.Context, bd *board, agent string) (err error) {
	if bd.withheld, err = b.withheld(ctx, agent); err != nil {
		return err
	}
	offers, err := b.inbox.Inbox.Offers(ctx)
	bd.offers = make(map[task.ID]inbox.Offer, len(offers))
	for _, o := range offers {
		bd.offers[o.Task] = o
	}
	return err
}

func (b *Broker) board() *board {
	bd := b.present()
	bd.standing, bd.tasks = b.mirror.Standing(), b.mirror.Tasks()
	return bd
}

// present returns a board without standing and tasks, for questions about single tasks.
func (b *Broker) present() *board {
	return &board{Mirror: b.mirror, claimer: b.claimer, now: b.now(), policy: b.claimer.Policy(), time: b.time, words: b.words, reserved: b.reserved, waiting: &b.overlooked, returned: b.returned}
}

// presentAt is present for an agent that works there.
func (b *Broker) presentAt(at workplace) *board {
	bd := b.present()
	bd.at = at
	return bd
}

// waitsFor returns the tasks that t waits for, see task.Unfinished.
func (bd *board) waitsFor(t task.Task) []task.ID { return task.Unfinished(t, bd.Task) }

// stuck returns in one line why t can never become ready; empty if it can.
func (bd *board) stuck(t task.Task) string {
	if s := bd.waitsInVain(t); s != nil {
		return bd.rot.Say(t, s)
	}
	return ""
}

// waitsInVain returns why t can never become ready; nil if it can.
func (bd *board) waitsInVain(t task.Task) *task.Stuck {
	if bd.rot == nil {
		bd.rot = task.NewRot(func(id task.ID) (task.Task, bool) {
			if other, ok := bd.Task(id); ok {
				return other, true
			}
			return task.Task{}, bd.Absent(id)
		})
	}
	return bd.rot.Stuck(t)
}

// occupied returns the claim that keeps everybody else off a task, if there is one. A stale claim
// does not.
func (bd *board) occupied(id task.ID) (claim.Hold, bool) {
	c, taken := bd.claimer.On(id)
	return c, taken && (c.State != claim.Held || !bd.now.After(c.StaleAt))
}

// ready reports whether the agent's claim on t would pass the pre-flight if Notion shows what the
// mirror shows: nobody holds t, nothing blocks it, nobody else has what it touches, and it is OPEN or
// assigned to the agent. For an empty agent, no assigned task is ready.
func (bd *board) ready(t task.Task, agent string) bool {
	return bd.open(t, agent) && bd.touches(t, agent) == nil
}

// open is ready, whatever t touches.
func (bd *board) open(t task.Task, agent string) bool {
	if _, withheld := bd.withheld[t.ID]; withheld {
		return false
	}
	v := bd.judge(t)
	return v.Ready && (v.For == "" || v.For == agent)
}

// judge says for whom t is ready. If it is not ready, but may become so when a lease ends, the
// verdict says when to judge it again.
func (bd *board) judge(t task.Task) ready.Verdict {
	v := ready.Verdict{For: claim.AssignedAgent(t)}
	if c, taken := bd.occupied(t.ID); taken {
		if c.State == claim.Held {
			v.Again = c.StaleAt
		}
		return v
	}
	d := claim.Decide(t, v.For, bd.waitsFor(t), bd.now, bd.policy)
	if d.Code == claim.CodeHeld {
		v.Again = bd.policy.StaleAt(t.ClaimedAt, bd.policy.LeaseOf(t))
	}
	v.Ready = d.Code == "" && (t.Status == task.Open || v.For != "")
	if r, is := bd.returned(t); is && v.Ready && v.For == "" {
		v.For, v.Again = r.to, r.until
	}
	return v
}

// shown converts a task, without claims, offers and dependencies.
func (bd *board) shown(t task.Task) api.Task {
	return api.Task{
		TaskRef: bd.ref(t),
		Agent:   t.ClaimedBy, ClaimedAt: bd.time(t.ClaimedAt),
		DependsOn: t.DependsOn, SubItems: t.SubItems, Unblocks: t.Unblocks, Outside: t.Outside,
		CreatedAt: bd.time(t.Created), EditedAt: bd.time(t.Edited), Trashed: t.Trashed,
	}
}

// view converts a task as the agent sees it; an empty agent is anybody.
func (bd *board) view(t task.Task, agent string) api.Task {
	out := bd.shown(t)
	out.Ready, out.WaitsFor = bd.ready(t, agent), bd.waitsFor(t)
	waitsFor := bd.known(out.WaitsFor)
	for _, w := range waitsFor {
		out.WaitingFor = append(out.WaitingFor, api.Waited{TaskRef: bd.ref(w), Agent: claim.Whose(w)})
	}
	if !out.Ready {
		code, reason := bd.why(t, waitsFor, agent)
		if d := bd.barred(t, agent); d != nil {
			code, reason, out.Holder, out.Pattern = d.Code, d.Detail, d.Holder, d.Pattern
		}
		if left := bd.claimer.LeftAlone(t.ID); left > 0 {
			reason += "; it is " + leftAlone(left)
		}
		unready(&out, code, reason)
		out.Stuck = code == claim.CodeBlockedByDependency && bd.waitsInVain(t) != nil
	}
	var until time.Time
	if t.Status == task.Open || t.Status == task.InProgress {
		until = bd.policy.LeaseEnd(t) // on other tasks the claim is history
	}
	if c, ok := bd.claimer.On(t.ID); ok && c.State == claim.Held {
		out.ClaimID, out.Progress, until = c.ID, c.Progress, c.ExpiresAt()
	} else if to := claim.Assignee(t); !ok && (to != t.ClaimedBy || until.IsZero()) {
		out.AssignedTo = to
		if o, offered := bd.offers[t.ID]; offered && o.To == out.AssignedTo {
			out.Offer = &api.Offer{State: api.Reviewing, From: o.From, To: o.To, ExpiresAt: bd.time(o.Until)}
		}
	}
	out.ExpiresAt = bd.time(until)
	out.Touches, out.Unread = t.Touches, illegible(t)
	if r, is := bd.returned(t); is {
		out.Returned = &api.Returned{To: r.to, Text: api.Collapse(r.text), ExpiresAt: bd.time(r.until)}
	}
	return out
}

// offered returns the ready tasks of the filter's priority: those assigned to the agent, which it
// is offered first, and those open to all. The filter's other conditions are not applied.
func (b *Broker) offered(agent string, f task.Filter) (assigned, open ready.List) {
	assigned, open = b.ready.Assigned(agent), b.ready.Tasks()
	if f.Priority != nil {
		assigned, open = assigned.Of(*f.Priority), open.Of(*f.Priority)
	}
	return assigned, open
}

// atLimit reports whether the agent holds as many tasks as it may.
func (b *Broker) atLimit(agent string, bd *board) bool {
	limit := b.limit(agent, bd.policy)
	return agent != "" && limit > 0 && len(bd.claimer.Claims(agent)) >= limit
}

// known returns the tasks from the mirror; for an unknown one, a task with only its id.
func (bd *board) known(ids []task.ID) []task.Task {
	var out []task.Task
	for _, id := range ids {
		t, ok := bd.Task(id)
		if !ok {
			t = task.Task{ID: id, Status: task.Unknown}
		}
		out = append(out, t)
	}
	return out
}

// unready marks a task as not ready, with the reason.
func unready(out *api.Task, code claim.Code, reason string) {
	out.Ready, out.Code, out.Reason = false, string(code), api.Collapse(reason)
}

// why returns why a task is not ready. waitsFor are the tasks that it waits for, as far as known.
func (bd *board) why(t task.Task, waitsFor []task.Task, agent string) (claim.Code, string) {
	if c, taken := bd.occupied(t.ID); taken {
		if c.State == claim.Finishing {
			return claim.CodeHeld, c.Agent + " is done with it, and Notion has yet to be told"
		}
		return claim.CodeHeld, c.Agent + " has it"
	}
	d := claim.Decide(t, agent, bd.waitsFor(t), bd.now, bd.policy)
	switch d.Code {
	case claim.CodeBlockedByDependency:
		return d.Code, cmp.Or(bd.stuck(t), "it "+bd.waits(waitsFor))
	case "": // it may be claimed by name, but is not offered
		if f, withheld := bd.withheld[t.ID]; withheld {
			return claim.CodeNotOffered, fmt.Sprintf("%s; %s is not offered it for an hour", f.Taking(), agent)
		}
		return claim.CodeNotOpen, fmt.Sprintf("the lease of %s is over: the next sweep opens it", d.Holder)
	}
	return d.Code, d.Reason
}

// leftAlone says that a card is left alone for that long.
func leftAlone(d time.Duration) string {
	return fmt.Sprintf("left alone for another %v, because something changes its card back whenever dibs tidies it: look in Notion for an automation, and for who edited it last", d.Round(time.Second))
}

// named adds to the denial of a task that waits for others which ones these are.
func (bd *board) named(d *claim.Denied) *claim.Denied {
	blockers := bd.waitsFor(d.Task)
	if d.Code != claim.CodeBlockedByDependency || len(blockers) == 0 {
		return d
	}
	named := *d
	named.Detail = fmt.Sprintf("“%s” %s; ask for the next ready task instead", d.Task.Title, bd.waits(bd.known(blockers)))
	if stuck := bd.stuck(d.Task); stuck != "" {
		named.Detail = fmt.Sprintf("“%s” cannot be claimed: %s; ask for the next ready task instead", d.Task.Title, stuck)
	}
	return &named
}

// maxWaits is how many of the tasks waited for a message names.
const maxWaits = 2

// waits says which tasks a task waits for.
func (bd *board) waits(tasks []task.Task) string {
	var names []string
	for i, t := range tasks {
		if i == maxWaits && len(tasks) > maxWaits {
			names = append(names, fmt.Sprintf("%d more", len(tasks)-i))
			break
		}
		names = append(names, bd.waited(t))
	}
	if last := len(names) - 1; last > 0 {
		return "waits for " + strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return "waits for " + strings.Join(names, "")
}

// waited names a task that is waited for, with its status.
func (bd *board) waited(t task.Task) string {
	if t.Title == "" && t.Status == task.Unknown {
		return fmt.Sprintf("task %s, which is not on this board", t.ID)
	}
	standing := bd.words.StatusOf(t)
	switch {
	case t.Trashed:
		standing = "in the trash"
	case claim.Whose(t) != "" && !t.Status.Finished():
		standing += ", " + claim.Whose(t)
	}
	return fmt.Sprintf("“%s” (%s)", name(t), standing)
}

// matters ranks a task in a list: first tasks in progress, then ready ones, those that wait, those
// that a person has to look at, and finished ones.
func (bd *board) matters(t task.Task, agent string) int {
	switch {
	case t.Status == task.InProgress:
		return 0
	case bd.ready(t, agent):
		return 1
	case t.Status == task.Open:
		return 2
	case !t.Status.Finished():
		return 3
	}
	return 4
}

// sort sorts tasks by matters, and otherwise keeps the order in which they are offered; among
// finished tasks the last edited comes first.
func (bd *board) sort(tasks []task.Task, agent string) {
	rank := make(map[task.ID]int, len(tasks))
	for _, t := range tasks {
		rank[t.ID] = bd.matters(t, agent)
	}
	slices.SortStableFunc(tasks, func(a, b task.Task) int {
		order := cmp.Compare(rank[a.ID], rank[b.ID])
		if order == 0 && a.Status.Finished() {
			order = b.Edited.Compare(a.Edited)
		}
		return order
	})
}

// judged is the board as the ready view sees it.
type judged struct{ b *Broker }

func (j judged) Task(id task.ID) (task.Task, bool)   { return j.b.mirror.Task(id) }
func (j judged) Judge(t task.Task) ready.Verdict     { return j.b.present().judge(t) }
func (j judged) Became(t task.Task, v ready.Verdict) { j.b.waiters.wake(t, v.For) }
func (j judged) Now() time.Time                      { return j.b.now() }

// touched returns what others than the agent have of what tasks touch.
func (bd *board) touched(agent string) reserve.Touched {
	if bd.others == nil || bd.othersOf != agent {
		if bd.reserved == nil {
			return reserve.Touched{}
		}
		bd.others, bd.othersOf = new(bd.reserved.Touched(context.Background(), agent, bd.at.repository, bd.at.member)), agent
	}
	return *bd.others
}

// touching returns what keeps the agent from a task because of what both touch; nil if nothing does.
func (bd *board) touching(t task.Task, agent string) *reserve.Taken {
	if len(t.Touches) == 0 {
		return nil
	}
	return bd.touched(agent).By(t.Touches)
}

// ahead returns the task in whose favour t is passed over, and since when that one is, see
// touchPatience; ok is false if there is none.
func (bd *board) ahead(t task.Task, agent string) (first task.Task, since time.Time, ok bool) {
	if len(t.Touches) == 0 || bd.waiting == nil {
		return first, since, false
	}
	longer := bd.waiting.at(t.ID, bd.now)
	id, since := bd.waiting.longest(bd.now.Add(-touchPatience), func(id task.ID) bool {
		other, known := bd.Task(id)
		return known && bd.judge(other).Ready
	}, func(id task.ID) bool {
		other, _ := bd.Task(id)
		if id == t.ID || other.Priority > t.Priority || bd.touched(agent).Overlap(other.Touches, t.Touches) == "" {
			return false
		}
		taken := bd.touching(other, agent)
		return taken != nil && ofClaim(taken)
	})
	if id == "" || !since.Before(longer) && (since.After(longer) || id > t.ID) {
		return first, since, false
	}
	first, _ = bd.Task(id)
	return first, since, true
}

// ofClaim reports whether it is a claim that is in the way, and not a reservation of its own.
func ofClaim(t *reserve.Taken) bool { return t.By.ID == string(t.By.Claim) }

// barred returns why the agent cannot have a task that is ready otherwise; nil if it can, or if the
// task is not.
func (bd *board) barred(t task.Task, agent string) *claim.Denied {
	if _, withheld := bd.withheld[t.ID]; withheld || !bd.judge(t).Ready {
		return nil
	}
	if d := bd.cameBack(t, agent); d != nil {
		return d
	}
	if !bd.open(t, agent) { // it is assigned
		return nil
	}
	return bd.touches(t, agent)
}

// touches returns why a task that is ready otherwise is not offered to the agent, because of what it
// touches; nil if it is.
func (bd *board) touches(t task.Task, agent string) *claim.Denied {
	if taken := bd.touching(t, agent); taken != nil {
		return bd.refusal(t, taken)
	}
	if first, since, ok := bd.ahead(t, agent); ok {
		pattern := bd.touched(agent).Overlap(first.Touches, t.Touches)
		return &claim.Denied{Code: claim.CodeReserved, Task: t, Pattern: pattern, Detail: fmt.Sprintf(
			"it is passed over in favour of “%s”, which touches %s, too, and has waited for %v for what it touches",
			name(first), pattern, bd.now.Sub(since).Round(time.Minute))}
	}
	return nil
}

// cameBack returns why the agent may not have a task that is open otherwise: it came back to another
// one; nil if it did not.
func (bd *board) cameBack(t task.Task, agent string) *claim.Denied {
	r, is := bd.returned(t)
	if !is || r.to == agent || claim.AssignedAgent(t) != "" {
		return nil
	}
	return &claim.Denied{
		Code: claim.CodeReserved, Task: t, Holder: r.to, ExpiresAt: r.until,
		Detail: fmt.Sprintf("it was returned to %s after a review, who may claim it before others for another %v", r.to, r.until.Sub(bd.now).Round(time.Second)),
	}
}

// asked words a denial for whoever asked for that task.
func asked(d *claim.Denied) *claim.Denied {
	if d != nil {
		d.Detail = fmt.Sprintf("%q cannot be claimed: %s; ask for the next ready task instead", d.Task.Title, d.Detail)
	}
	return d
}

// refusal words what is in the way of a task.
func (bd *board) refusal(t task.Task, taken *reserve.Taken) *claim.Denied {
	what := "reserved " + taken.Pattern
	if ofClaim(taken) {
		what = "a task that touches " + taken.Pattern
		if c, err := bd.claimer.Find(context.Background(), taken.By.Claim); err == nil {
			what = fmt.Sprintf("“%s”, which touches %s", name(c.Task), taken.Pattern)
		}
	}
	return &claim.Denied{
		Code: claim.CodeReserved, Task: t, Holder: taken.By.Agent, Pattern: taken.Pattern, ExpiresAt: taken.Until,
		Detail: fmt.Sprintf("it touches %s, and %s has %s", taken.Asked, taken.By.Agent, what),
	}
}

func name(t task.Task) string { return cmp.Or(t.Title, t.Key, string(t.ID)) }

// illegible says which of a task's patterns cannot be read.
func illegible(t task.Task) (says []string) {
	for _, err := range reserve.Unread(t.Touches) {
		says = append(says, api.Collapse(err.Error()))
	}
	return says
}
