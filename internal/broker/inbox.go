package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
	"dibs/internal/journal/inbox"
	"dibs/internal/task"
)

// takerCheck is how often a waiting poll checks whether the processes that took triggers earlier
// still live.
const takerCheck = time.Second

// listenTime limits how long a poll waits for Listen.
const listenTime = 5 * time.Second

// Poll takes an agent's triggers, and waits for one if there are none. Triggers that the caller's
// process does not acknowledge come back when it is gone. The error is ErrStopping if the daemon stops
// meanwhile.
func (b *Broker) Poll(ctx context.Context, who Caller, in *api.PollInput) (api.Triggers, error) {
	body := orZero(in.Body)
	take := inbox.Take{
		Agent: in.Name, Taker: inbox.NewID(time.Now()), Limit: cmp.Or(body.Limit, api.MaxTriggers), Visibility: b.inbox.Visibility, Finished: body.Finished,
	}
	if who.Quota != nil {
		take.New = who.Quota.Charge
	}
	if who.Key != "" {
		take.Taker = fmt.Sprintf("%d %s", who.UID, who.Key)
	}
	if who.Process.ID != 0 {
		take.Process = processName(who.Process)
	}
	at, err := who.placeOf("body.repository", body.Repository)
	if err != nil {
		return api.Triggers{}, err
	}
	got, err := b.poll(ctx, take, at, seconds(body.WaitSeconds))
	if err != nil {
		return api.Triggers{}, err
	}
	return api.Triggers{Triggers: each(got, b.trigger)}, nil
}

func (b *Broker) trigger(t inbox.Trigger) api.Trigger {
	out := api.Trigger{ID: t.ID, Type: t.Type, Agent: t.Agent, At: b.time(t.At), From: t.From, Text: t.Text, Count: t.Count}
	if t.Task.ID != "" {
		out.Task = new(b.ref(t.Task))
	}
	return out
}

func (b *Broker) poll(ctx context.Context, take inbox.Take, at workplace, wait time.Duration) ([]inbox.Trigger, error) {
	deadline := time.Now().Add(wait)
	b.mirror.Use(ctx)
	if wait > 0 {
		defer b.mirror.Await()()
	}
	for first := true; ; {
		more, eased := b.published.next(), b.eased.next()
		got, pause, err := b.take(ctx, take, at, first)
		if err != nil || len(got) > 0 {
			return got, err
		}
		first = false
		listening, cancel := context.WithTimeout(ctx, listenTime)
		added, next := b.inbox.Listen(listening, take.Agent)
		cancel()
		if added > 0 {
			b.Published() // some may be for other agents
			continue
		}
		left := time.Until(deadline)
		if left <= 0 {
			return nil, nil
		}
		if barred, err := b.paused(ctx, take.Agent); barred == nil || err != nil {
			eased = nil
		} else {
			pause = b.until(barred.Until, pause)
		}
		select {
		case <-more:
		case <-eased:
		case <-time.After(min(left, pause, next)):
		case <-b.closed:
			return nil, ErrStopping
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// take takes the available triggers. If there are none, pause is when some may come back.
func (b *Broker) take(ctx context.Context, t inbox.Take, at workplace, first bool) (got []inbox.Trigger, pause time.Duration, err error) {
	waiting, err := b.inbox.Inbox.Waiting(ctx, t.Agent)
	if err != nil {
		return nil, 0, err
	}
	t.Now, t.At = time.Now(), b.now()
	var touched int
	if t.Available, touched, err = b.available(ctx, t.Agent, at); err != nil {
		return nil, 0, err
	}
	if t.Available == 0 && touched > 0 { // they become available without a change of their own
		b.kept.Store(t.Agent, true)
	} else if _, kept := b.kept.Load(t.Agent); kept {
		t.Anew = t.Available > 0
	}
	pause = time.Hour
	for _, name := range waiting.Processes {
		var p keepers.Process
		if json.Unmarshal([]byte(name), &p) == nil && !b.alive.Lives(p) {
			t.Gone = append(t.Gone, name)
		}
		pause = takerCheck
	}
	back := !waiting.Oldest.IsZero() && t.Now.Sub(waiting.Oldest) >= t.Visibility
	if !first && !waiting.Pending && !t.Anew && !(waiting.Available && t.Available > 0) && len(t.Gone) == 0 && !back {
		if !waiting.Oldest.IsZero() {
			pause = min(pause, waiting.Oldest.Add(t.Visibility).Sub(t.Now))
		}
		return nil, pause, nil
	}
	if got, err = b.inbox.Inbox.TakeTriggers(ctx, t); err != nil {
		return nil, 0, err
	}
	if t.Anew {
		b.kept.Delete(t.Agent)
	}
	if ctx.Err() != nil && len(got) > 0 { // nobody hears the answer
		err = b.inbox.Inbox.ReturnTriggers(context.WithoutCancel(ctx), t.Taker)
		b.Published()
		return nil, 0, errors.Join(context.Cause(ctx), err)
	}
	b.notifiedByTriggers(ctx, t.Agent, got)
	return got, pause, nil
}

// processName returns a process in the form in which it is stored.
func processName(p keepers.Process) string {
	name, _ := json.Marshal(p) // cannot fail on texts and numbers
	return string(name)
}

// available returns how many tasks the agent is offered, ignoring its limits; none in a pause. Beside
// those there are others of which somebody else has what they touch.
func (b *Broker) available(ctx context.Context, agent string, at workplace) (n, touched int, err error) {
	n = b.ready.Len() + b.ready.Assigned(agent).Len()
	if n == 0 {
		return 0, 0, nil
	}
	if barred, err := b.paused(ctx, agent); barred != nil || err != nil {
		return 0, 0, err
	}
	bd := b.presentAt(at)
	withheld, err := b.withheld(ctx, agent)
	for id := range withheld {
		if t, ok := bd.Task(id); ok && bd.open(t, "") {
			n--
		}
	}
	bd.withheld = withheld
	touched = b.touched(bd, agent, task.Filter{})
	return n - touched, touched, err
}

// Ack acknowledges an agent's triggers. It may be repeated.
func (b *Broker) Ack(ctx context.Context, _ Caller, in *api.AckInput) (api.Acked, error) {
	ids := in.Body.IDs
	unknown, err := b.inbox.Inbox.AckTriggers(ctx, in.Name, ids)
	if err != nil {
		return api.Acked{}, err
	}
	return acked(ids, unknown), nil
}

func acked(ids, unknown []string) api.Acked {
	done := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(unknown, id) })
	return api.Acked{Acknowledged: orEmpty(done), Unknown: orEmpty(unknown)}
}

// AckAny is Ack for triggers of several agents. The caller must be allowed to use the name of each;
// otherwise the error is one of Authorize's, and nothing is acknowledged.
func (b *Broker) AckAny(ctx context.Context, who Caller, in *api.KeyedInput[api.AckRequest]) (api.Acked, error) {
	ids := in.Body.IDs
	agents, err := b.inbox.Inbox.TriggerAgents(ctx, ids)
	if err != nil {
		return api.Acked{}, err
	}
	of := make(map[string][]string)
	var names, unknown []string
	for _, id := range ids {
		name, known := agents[id]
		if !known {
			unknown = append(unknown, id)
			continue
		}
		if of[name] == nil {
			names = append(names, name)
		}
		of[name] = append(of[name], id)
	}
	for _, name := range names {
		if err := b.Authorize(name, who); err != nil {
			return api.Acked{}, err
		}
	}
	for _, name := range names {
		gone, err := b.inbox.Inbox.AckTriggers(ctx, name, of[name])
		if err != nil {
			return api.Acked{}, err
		}
		unknown = append(unknown, gone...)
	}
	return acked(ids, unknown), nil
}

// Send sends a message, once for each key. Its triggers are available at once; its entry in the mesh log
// follows.
func (b *Broker) Send(ctx context.Context, who Caller, in *api.KeyedInput[api.MessageRequest]) (api.Message, error) {
	m, by := in.Body, who.signs(in.Body.From)
	if strings.TrimSpace(m.Text) == "" {
		return api.Message{}, &InvalidError{Detail: "the message is empty: say something"}
	}
	if len(m.Text) > inbox.MaxText || !utf8.ValidString(m.Text) {
		return api.Message{}, &InvalidError{Detail: fmt.Sprintf("the message has %d bytes: want text of at most %d KiB", len(m.Text), inbox.MaxText>>10)}
	}
	agents, err := b.meant(ctx, m)
	if err != nil {
		return api.Message{}, err
	}
	if who.Quota != nil {
		if err := who.Quota.ChargeCopies(len(agents), m.Text); err != nil {
			return api.Message{}, err
		}
	}
	at := b.now()
	id := who.factID(at, "message", m.From, m.To, m.Text)
	from := cmp.Or(m.From, by)
	var triggers []inbox.Trigger
	for _, name := range agents {
		triggers = append(triggers, inbox.Trigger{Type: inbox.Message, Agent: name, At: at, From: from, Text: m.Text})
	}
	event := claim.Fact{ID: id, At: at, Kind: claim.KindMessage, Agent: m.From, By: by, Holder: m.To, Detail: m.Text}
	if err := b.inbox.Inbox.Send(ctx, event, triggers...); err != nil {
		return api.Message{}, err
	}
	b.Published()
	return api.Message{ID: id, At: b.time(at), From: from, To: m.To, Text: m.Text, Agents: orEmpty(agents)}, nil
}

// meant returns a message's recipients.
func (b *Broker) meant(ctx context.Context, m api.MessageRequest) ([]string, error) {
	if m.To != inbox.Everybody {
		return []string{m.To}, b.checkName(m.To)
	}
	known, err := b.Known(ctx)
	return slices.DeleteFunc(known, func(name string) bool { return name == m.From }), err
}
