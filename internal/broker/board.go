package broker

import (
	"context"
	"fmt"
	"iter"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker/ready"
	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/journal/report"
	"dibs/internal/mirror"
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
	kept     map[task.ID]claim.Finish // set by load, see Broker.kept
	time     func(time.Time) api.Time
	words    *task.Words
	rot      *task.Rot // see waitsInVain
}

// ref names a task in an answer.
func (b *Broker) ref(t task.Task) api.TaskRef { return api.NewTaskRef(t, b.words) }

func (bd *board) ref(t task.Task) api.TaskRef { return api.NewTaskRef(t, bd.words) }

// load reads what else the agent's views of tasks show: the offers, and the tasks that it is not
// offered.
func (b *Broker) load(ctx context.Context, bd *board, agent string) (err error) {
	if bd.kept, err = b.kept(ctx, agent); err != nil {
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
	return &board{Mirror: b.mirror, claimer: b.claimer, now: b.now(), policy: b.claimer.Policy(), time: b.time, words: b.words}
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
// mirror shows: nobody holds t, nothing blocks it, and it is OPEN or assigned to the agent. For an
// empty agent, no assigned task is ready.
func (bd *board) ready(t task.Task, agent string) bool {
	if _, kept := bd.kept[t.ID]; kept {
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
	return v
}

// shown converts a task, without claims, offers and dependencies.
func (bd *board) shown(t task.Task) api.Task {
	return api.Task{
		TaskRef: bd.ref(t),
		Agent:   t.ClaimedBy, ClaimedAt: bd.time(t.ClaimedAt),
		DependsOn: t.DependsOn, SubItems: t.SubItems, Unblocks: t.Unblocks,
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

// TaskByKey returns the id of the task with that key, ignoring case, or ErrNoTask.
func (b *Broker) TaskByKey(ctx context.Context, key string) (task.ID, error) {
	for t := range b.mirror.Tasks() {
		if t.IsKey(key) {
			return t.ID, nil
		}
	}
	return "", fmt.Errorf("%w %s; if it was just made: dibs sync", ErrNoTask, key)
}

// ListClaims returns the claims held through this daemon, oldest first, with the earlier attempts.
func (b *Broker) ListClaims(ctx context.Context, _ Caller, in *api.AgentFilter) (api.Claims, error) {
	out := b.Claims(in.Agent)
	var all []*api.Claim
	for i := range out.Claims {
		all = append(all, &out.Claims[i])
	}
	b.AddAttempts(ctx, all...)
	return out, nil
}

// Claims returns the claims held through this daemon, oldest first. An empty agent means all.
func (b *Broker) Claims(agent string) api.Claims {
	return api.Claims{Claims: each(b.claimer.Claims(agent), b.claim)}
}
