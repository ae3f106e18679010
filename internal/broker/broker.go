package broker

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker/ready"
	"dibs/internal/claim"
	"dibs/internal/claim/brake"
	"dibs/internal/claim/keepers"
	"dibs/internal/kit/clock"
	"dibs/internal/mirror"
	"dibs/internal/task"
)

// Mirror is the local copy of the tasks database.
type Mirror interface {
	// Tasks yields all tasks, in the order in which they are offered.
	Tasks() iter.Seq[task.Task]
	// Len returns the number of tasks.
	Len() int
	// Task returns one task; ok is false if the mirror does not have it.
	Task(id task.ID) (t task.Task, ok bool)
	// Absent reports whether Notion said that there is no such task, or that it is not shared.
	Absent(id task.ID) bool
	// Standing says how current the mirror is.
	Standing() mirror.Standing
	// Sync brings the mirror up to date, with the whole board if full is set.
	Sync(ctx context.Context, full bool) (mirror.Result, error)
	// Used and Use say that an agent is there, and Await that somebody waits until done is called, see
	// mirror.Mirror.
	Used()
	Use(context.Context)
	Await() (done func())
	// Closed returns why no task may be claimed or swept at present; nil if all may. The end of a
	// lease may be unknown meanwhile.
	Closed() error
}

// Journal stores what the daemon knows.
type Journal interface {
	claim.Ledger
	// Away returns why the journal cannot be reached; nil if it can.
	Away() error
	// Record stores facts that change no claim.
	Record(ctx context.Context, facts ...claim.Fact) error
	// TaskClaims returns the claims on a task, ended ones too, newest first.
	TaskClaims(ctx context.Context, id task.ID) ([]claim.Hold, error)
	// Earlier returns the newest ends of claims on a task, the newest first.
	Earlier(ctx context.Context, id task.ID) ([]claim.Earlier, error)
	// Losses returns the newest claims that were taken from the agent, the newest first.
	Losses(ctx context.Context, agent string) ([]claim.Loss, error)
	// LossNotified records that the agent was told that its claim was taken. It does nothing for a
	// claim that was not taken.
	LossNotified(ctx context.Context, id claim.ID) error
	// Log returns the events that f selects, oldest first.
	Log(ctx context.Context, f api.LogFilter) ([]claim.Fact, error)
	// Delivery reports whether an event's entry is in the log. If not, why is the reason, or empty
	// if it is unknown.
	Delivery(ctx context.Context, event string, log claim.Log) (delivered bool, why string, err error)
	// BindRequest records which claim the user's request with that idempotency key made.
	BindRequest(ctx context.Context, uid int, key string, id claim.ID) error
	// Meta returns what SetMeta stored under a key; "" for nothing.
	Meta(ctx context.Context, key string) (string, error)
	SetMeta(ctx context.Context, key, value string) error
	// Brake returns what keeps agents from being granted anything.
	Brake(ctx context.Context) (brake.State, error)
	// ChangeBrake stores what change makes of it, with the fact that change returns, unless done is
	// false. change may be called twice.
	ChangeBrake(ctx context.Context, change func(*brake.State) (news claim.Fact, done bool)) (b brake.State, done bool, err error)
}

// Config configures a Broker.
type Config struct {
	Claimer *claim.Claimer
	Mirror  Mirror
	Journal Journal
	Feed    Feed
	// Alive watches the processes that keep claims alive.
	Alive    *keepers.Watch
	Inbox    InboxConfig
	Reserved Reservations
	// Clock is Notion's time.
	Clock clock.Source
	// Notion signals when Notion can be reached again; nil for never.
	Notion mirror.Notion
	// Agents are the names allowed; none means any name.
	Agents []Agent
	// Names stores minted names.
	Names Names
	// Fields names the tasks' own fields, see SetFields.
	Fields []string
	// Words understands statuses and priorities, and names them for people.
	Words *task.Words
	// Past keeps statistics.
	Past Past
	// Comments are the comments that agents leave when they stop work; nil for none.
	Comments Comments
	// Pages reads the pages of tasks. A page costs one request for its text, one more for each part
	// of a long text, and one for each hundred comments.
	Pages Pages
	// Creations make tasks.
	Creations Creations
	// Cluster is the daemon's cluster; nil for none.
	Cluster Cluster
	House   House
	Log     *slog.Logger
}

// House is the daemon around the broker.
type House interface {
	// Report adds to the status what the broker does not know: the daemon itself, its exchange with
	// Notion, and what it owes to Notion.
	Report(context.Context, *api.Status)

	// Claimed is told how a request for a claim ended, and how long it took.
	Claimed(agent string, err error, took time.Duration)

	// Doubt returns why no claim is granted although the mirror is open; nil if claims are.
	Doubt() error

	// Webhook returns the address for Notion's webhooks, with its secret.
	Webhook() api.Webhook

	// RenewWebhook forgets the secret, so that Notion may send another. by is who asked for it.
	RenewWebhook(ctx context.Context, by string) error
}

// Broker is safe for concurrent use.
type Broker struct {
	claimer *claim.Claimer
	mirror  Mirror
	ready   *ready.View
	journal Journal
	feed    Feed
	alive   *keepers.Watch
	inbox   InboxConfig

	reserved Reservations

	names Names
	clock clock.Source

	notion mirror.Notion
	past   Past
	house  House

	comments  Comments
	pages     Pages
	creations Creations
	cluster   Cluster
	log       *slog.Logger
	ahead     atomic.Int64 // see Local

	troubles troubles
	rivals   rivals

	changed   signal
	waiters   waiters
	sums      sums
	eased     signal // fires when agents may be granted something that were not before
	published signal // fires with every new event of the feed
	// delivered fires when the delivery of a log entry has succeeded or failed.
	delivered signal
	closed    chan struct{}
	close     func()

	mu     sync.Mutex
	picked map[task.ID]bool // chosen by a `next` in progress
	agents []Agent
	fields []string
	words  *task.Words
}

// New returns a broker. Its owner must report every change of a task, see Changed, and of a claim,
// see Claimed.
func New(c Config) *Broker {
	closed := make(chan struct{})
	b := &Broker{
		claimer: c.Claimer, mirror: c.Mirror, journal: c.Journal, feed: c.Feed, alive: c.Alive, inbox: c.Inbox, reserved: c.Reserved, clock: c.Clock, notion: c.Notion,
		agents: c.Agents, names: c.Names, fields: c.Fields, words: c.Words, past: c.Past, house: c.House, comments: c.Comments, pages: c.Pages, creations: c.Creations, cluster: c.Cluster, log: c.Log,
		picked: make(map[task.ID]bool), rivals: newRivals(),
		closed: closed, close: sync.OnceFunc(func() { close(closed) }),
	}
	if b.comments == nil {
		b.comments = noComments{}
	}
	b.ready = ready.New(judged{b})
	if b.mirror != nil {
		for t := range b.mirror.Tasks() {
			b.ready.Changed(t.ID)
		}
	}
	return b
}

// judged is the board as the ready view sees it.
type judged struct{ b *Broker }

func (j judged) Task(id task.ID) (task.Task, bool)   { return j.b.mirror.Task(id) }
func (j judged) Judge(t task.Task) ready.Verdict     { return j.b.present().judge(t) }
func (j judged) Became(t task.Task, v ready.Verdict) { j.b.waiters.wake(t, v.For) }
func (j judged) Now() time.Time                      { return j.b.now() }

// now is Notion's time.
func (b *Broker) now() time.Time { return b.clock.Now() }

// doubt is House.Doubt, or nil without a House.
func (b *Broker) doubt() error {
	if b.house == nil {
		return nil
	}
	return b.house.Doubt()
}

// back returns a channel that is closed when Notion can next be reached again; nil without a source
// for that.
func (b *Broker) back() <-chan struct{} {
	if b.notion == nil {
		return nil
	}
	return b.notion.Back()
}

// Close ends all waiting: every waiting call returns ErrStopping.
func (b *Broker) Close() { b.close() }

// Changed takes in changes of tasks in the mirror, and wakes the requests that wait for one.
func (b *Broker) Changed(ids ...task.ID) {
	b.ready.Changed(ids...)
	b.sums.changed()
	b.troubles.over(ids...)
	b.changed.fire()
}

// Claimed takes in a change of a claim, see claim.Config.Stored.
func (b *Broker) Claimed(c claim.Hold) {
	b.ready.Claimed(c.Task.ID)
	b.reserved.Claimed(c)
	if c.State == claim.Ended {
		b.eased.fire() // it may be the one for which the breaker waits
	}
	b.sums.changed()
}

// Sync brings the mirror up to date, with the whole board if the request says so. The error is a
// *claim.StoreError, or the journal's.
func (b *Broker) Sync(ctx context.Context, _ Caller, in *api.KeyedInput[*api.SyncRequest]) (api.Sync, error) {
	if err := b.journal.Away(); err != nil { // its result could not be saved
		return api.Sync{}, err
	}
	r, err := b.mirror.Sync(ctx, orZero(in.Body).Full)
	done := api.Sync{Full: r.Full, Read: r.Read, Changed: len(r.Changed), Gone: len(r.Gone), Age: b.age(ageOf(b.mirror.Standing()))}
	done.Tasks = b.mirror.Len()
	return done, err
}

func ageOf(s mirror.Standing) api.Age { return api.NewAge(s.SyncedAt, s.Old, s.Stale) }

// Webhook returns the address for Notion's webhooks, with its secret. The error is a *ForbiddenError.
func (b *Broker) Webhook(_ context.Context, who Caller, _ *struct{}) (api.Webhook, error) {
	if err := who.owner("may see the secret of the webhook"); err != nil {
		return api.Webhook{}, err
	}
	return b.house.Webhook(), nil
}

// RenewWebhook forgets the secret of the webhooks, so that Notion may send another. The error is a
// *ForbiddenError, or the journal's.
func (b *Broker) RenewWebhook(ctx context.Context, who Caller, _ *api.BareInput) (api.Webhook, error) {
	if err := who.owner("may replace the secret of the webhook"); err != nil {
		return api.Webhook{}, err
	}
	if err := b.house.RenewWebhook(ctx, who.User); err != nil {
		return api.Webhook{}, err
	}
	return b.house.Webhook(), nil
}

// Log returns entries of the local record, oldest first.
func (b *Broker) Log(ctx context.Context, _ Caller, in *api.LogInput) (api.Log, error) {
	f := api.LogFilter{Agent: in.Agent, Task: task.ID(in.Task), After: in.After, Seen: in.Seen, Limit: cmp.Or(in.Limit, 100)}
	var err error
	if in.Since != "" {
		if f.Since, err = time.Parse(time.RFC3339, in.Since); err != nil {
			return api.Log{}, api.Invalid("query.since", fmt.Errorf("%q is no time: want one such as 2026-11-25T15:00:00Z", in.Since))
		}
	}
	if in.Claim != "" {
		var ok bool
		if f.Claim, ok = claim.ParseID(in.Claim); !ok {
			return api.Log{}, api.Invalid("query.claim", fmt.Errorf("%q is not the id of a claim", in.Claim))
		}
	}
	if in.After != "" {
		if _, ok := claim.ParseID(in.After); !ok { // they have the same form
			return api.Log{}, api.Invalid("query.after", fmt.Errorf("%q is not the id of an entry", in.After))
		}
	}
	events, err := b.journal.Log(ctx, f)
	if err != nil {
		return api.Log{}, err
	}
	return api.Log{Entries: each(events, b.logEntry)}, nil
}

func (b *Broker) logEntry(e claim.Fact) api.LogEntry {
	return api.LogEntry{
		ID: e.ID, At: b.time(e.At), Kind: e.Kind,
		Task: e.Task, Key: e.Key, Title: e.Title, URL: e.URL,
		Agent: e.Agent, By: e.By, Claim: e.Claim,
		Code: e.Code, Holder: e.Holder, Against: e.Against, Remote: e.Remote, Detail: e.Detail,
		Started: b.time(e.Started), Finished: b.time(e.Finished), Summary: e.Summary,
		Count: e.Count, Names: e.Names, Expires: b.time(e.Expires), Usage: api.NewUsage(e.Used),
		Former: e.Former, Changed: e.Changed, Seen: e.Seen,
	}
}

// Status returns the state of the daemon. While the journal cannot be reached, it is without the
// pauses, and the outbox's error says so. Its member is the one at which the caller came in.
func (b *Broker) Status(ctx context.Context, who Caller, _ *struct{}) (api.Status, error) {
	standing := b.mirror.Standing()
	p := b.claimer.Policy()
	s := api.Status{
		Mirror:   api.MirrorStatus{Age: b.age(ageOf(standing))},
		Policy:   policyStatus(p),
		Warnings: []string{},
		Words:    &api.Words{Statuses: b.words.ByStatus(), Priorities: b.words.Priorities()},
	}
	if p := standing.Progress; p != nil {
		s.Mirror.Syncing = api.NewSyncProgress(p.Read, p.Of)
	}
	if err := b.mirror.Closed(); err != nil {
		s.Warnings = append(s.Warnings, "no task can be claimed: "+err.Error())
	}
	s.Warnings = append(s.Warnings, b.troubles.warnings()...)
	for _, t := range b.claimer.AllLeftAlone() {
		s.Warnings = append(s.Warnings, fmt.Sprintf("task %q (%s) is %s", t.Title, t.ID, leftAlone(b.claimer.LeftAlone(t.ID))))
	}
	s.Mirror.Tasks, s.Mirror.Ready = b.mirror.Len(), b.ready.Len()
	if stuck := b.sum(task.Filter{}).stuck; stuck.Count > 0 {
		s.Mirror.Stuck = &stuck
		s.Warnings = append(s.Warnings, fmt.Sprintf("%v; dibs ready --why says what to do about each", stuck))
	}
	s.ClaimsHeld = b.claimer.Holding()
	s.Reservations = each(b.reserved.List(ctx, ""), b.reservation)
	paused, err := b.journal.Brake(ctx)
	if err != nil && !unreachable(err) {
		return s, err
	}
	s.Pauses = b.pauses(paused)
	b.house.Report(ctx, &s)
	s.Outbox.Oldest = b.time(s.Outbox.Oldest.Time)
	if s.Cluster != nil {
		s.Cluster.Name = who.Member
	}
	return s, nil
}

func policyStatus(p claim.Policy) api.PolicyStatus {
	override := "any"
	if p.OpenOnly {
		override = "open_only"
	}
	return api.PolicyStatus{
		TimeoutSeconds: p.Timeout.Seconds(), WriteWindowSeconds: p.WriteWindow.Seconds(),
		SettleSeconds: p.Settle.Seconds(), Override: override, Exclusive: p.Exclusive,
		MaxPerAgent: new(p.MaxPerAgent), MaxLifetimeSeconds: new(p.MaxLifetime.Seconds()),
		MaxAttempts: new(p.MaxAttempts),
	}
}

// signal wakes everybody who waits for the next change.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// next returns a channel that is closed by the next fire.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
