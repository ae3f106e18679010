package broker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker/ready"
	"dibs/internal/claim"
	"dibs/internal/claim/brake"
	"dibs/internal/claim/keepers"
	"dibs/internal/journal/inbox"
	"dibs/internal/journal/report"
	"dibs/internal/kit/clock"
	"dibs/internal/mirror"
	"dibs/internal/outbox/creation"
	"dibs/internal/reserve"
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
	// Facts returns the facts on record that f selects, in the order of storing unless f says
	// otherwise.
	Facts(ctx context.Context, f claim.FactFilter) ([]claim.Fact, error)
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

// Feed is the ordered stream of facts that agents see. Their numbers increase.
type Feed interface {
	// Feed returns the facts that f selects, in the order of their numbers.
	Feed(ctx context.Context, f claim.FactFilter) ([]claim.Fact, error)
	// FeedBounds returns the number of the last fact, and of the last one that was pruned; 0 for
	// none.
	FeedBounds(ctx context.Context) (last, pruned int64, err error)
}

// Inbox stores triggers.
type Inbox interface {
	// TakeTriggers delivers triggers, each to one poll.
	TakeTriggers(context.Context, inbox.Take) ([]inbox.Trigger, error)
	// ReturnTriggers makes the triggers that a poll took available again.
	ReturnTriggers(ctx context.Context, taker string) error
	Waiting(ctx context.Context, agent string) (inbox.Waiting, error)
	// TriggerAgents returns the agent of each trigger; unknown ids are left out.
	TriggerAgents(ctx context.Context, ids []string) (map[string]string, error)
	AckTriggers(ctx context.Context, agent string, ids []string) (unknown []string, err error)
	AddTriggers(ctx context.Context, triggers ...inbox.Trigger) (added int, err error)
	// Send stores a message that is owed to the mesh log, and its triggers.
	Send(ctx context.Context, message claim.Fact, triggers ...inbox.Trigger) error
	// Known returns the agents that poll or have a claim, possibly with duplicates.
	Known(context.Context) ([]string, error)
	Offers(context.Context) ([]inbox.Offer, error)
	// Questions returns the open questions of agents to people.
	Questions(context.Context) ([]inbox.Question, error)
	EndOffer(ctx context.Context, id task.ID, news ...inbox.Trigger) error
}

// Listen fetches what people wrote in Notion for agents, unless it did so just now. added is the
// number of new triggers; next is how long to wait before calling again.
type Listen func(ctx context.Context, agent string) (added int, next time.Duration)

// InboxConfig configures a Broker's inbox.
type InboxConfig struct {
	Inbox  Inbox
	Listen Listen
	// Visibility and Offer are durations from the configuration.
	Visibility, Offer time.Duration
}

// Reservations keeps the reservations of files and other things. Its times are Notion's. Its
// methods are safe for concurrent use.
type Reservations interface {
	Reserve(context.Context, reserve.Request) (reserve.Reservation, error)
	Unreserve(ctx context.Context, id, agent string) (reserve.Reservation, error)
	Find(ctx context.Context, id string) (reserve.Reservation, error)
	List(ctx context.Context, agent string) []reserve.Reservation
	Compared(ctx context.Context, agent, member string) []reserve.Reservation
	Check(ctx context.Context, agent, member string, targets []reserve.Target) error
	Claimed(claim.Hold)
	// Touched returns what others than an agent have of what tasks touch, and Touch and Untouch take
	// that for an attempt, see reserve.Book.
	Touched(ctx context.Context, agent, repository, member string) reserve.Touched
	Touch(context.Context, claim.Hold) *reserve.Taken
	Untouch(claim.ID)
}

// Names stores minted names.
type Names interface {
	// SessionName returns the name of a user's session and when the session last asked for it;
	// empty if it has none, or has not asked since gone.
	SessionName(ctx context.Context, uid int, session string, gone time.Time) (name string, used time.Time, err error)
	// MintName returns a session's name, or mints one.
	MintName(context.Context, task.Mint) (name string, minted bool, err error)
}

// Past keeps statistics.
type Past interface {
	// Agents returns the record of each agent, the one last seen first.
	Agents(context.Context, report.Asking) ([]report.Agent, error)
	// Day returns when the day of now began, and when it ends, see brake.Bounds.
	Day(now time.Time) (from, until time.Time)
	// Spent returns what was used, by agent.
	Spent(context.Context, report.Spending) ([]report.Spent, error)
	// Ended returns the claims that ended from one time on and before another, in that order.
	Ended(ctx context.Context, from, to time.Time) ([]claim.Hold, error)
}

// Person is somebody in the workspace.
type Person struct {
	ID    string // of the Notion user
	Name  string
	Email string // may be missing
}

// Comments are the comments that agents leave on tasks when they stop work.
type Comments interface {
	// On reports whether comments are made.
	On() bool
	// People returns the people who can be mentioned. anew bypasses the cache. The error of a
	// request is a *claim.StoreError.
	People(ctx context.Context, anew bool) ([]Person, error)
}

type noComments struct{}

func (noComments) On() bool { return false }

func (noComments) People(context.Context, bool) ([]Person, error) { return nil, nil }

// Pages reads tasks' pages. The texts have no control characters, see task.Plain. Errors are
// *claim.StoreErrors.
type Pages interface {
	// Text returns a page as Markdown. missing names the parts that the text does not show.
	Text(ctx context.Context, id task.ID) (text string, missing []string, err error)
	// Whole is Text, but fails if a part of the page could not be read.
	Whole(ctx context.Context, id task.ID) (string, error)
	// Comments returns the open comments on a page, oldest first.
	Comments(ctx context.Context, id task.ID) ([]Comment, error)
}

// Comment is somebody's comment on a task.
type Comment struct {
	By     string // the author's name; empty if unknown
	Signed bool   // the author chose that name, as dibs does for agents
	At     time.Time
	Text   string
}

// Creations make tasks.
type Creations interface {
	// Make creates a task, see creation.Maker. fresh is false if an earlier request made it.
	Make(ctx context.Context, r creation.Request) (made task.Task, fresh bool, err error)
	// Get reads a task's page. The error is a *claim.StoreError.
	Get(ctx context.Context, id task.ID) (claim.Reading, error)
}

// Cluster is the group of daemons that share this one's journal.
type Cluster interface {
	// Members returns the daemons of the cluster.
	Members(context.Context) (api.Cluster, error)
	// Adopt accepts the journal as it is now, on the word of a user.
	Adopt(ctx context.Context, by string) (api.Cluster, error)
	// AgentsAt returns the names allowed to users of a member, and false if they are unknown.
	AgentsAt(member string) ([]Agent, bool)
}

// Tokens are the access tokens for agents on other machines. Its methods are safe for concurrent use.
type Tokens interface {
	// NewToken makes a token, and is the only one to return its secret. Tokens returns those that
	// have not expired. Revoke makes one invalid, and ends what is open under it. The error of
	// NewToken and Revoke is an *InvalidError or the journal's.
	NewToken(context.Context, api.TokenRequest) (api.NewToken, error)
	Tokens() api.Tokens
	Revoke(ctx context.Context, id string) (api.Token, error)
}

// Daemon is the daemon around the broker.
type Daemon interface {
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
	Tokens  Tokens
	Daemon  Daemon
	Log     *slog.Logger
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
	daemon Daemon

	comments  Comments
	pages     Pages
	creations Creations
	cluster   Cluster
	tokens    Tokens
	log       *slog.Logger
	ahead     atomic.Int64 // see Local

	troubles   troubles
	rivals     rivals
	overlooked overlooked
	backs      backs
	kept       sync.Map // the agents that polled while only tasks were ready whose touches others had

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
		agents: c.Agents, names: c.Names, fields: c.Fields, words: c.Words, past: c.Past, daemon: c.Daemon, comments: c.Comments, pages: c.Pages, creations: c.Creations, cluster: c.Cluster, tokens: c.Tokens, log: c.Log,
		picked: make(map[task.ID]bool), rivals: newRivals(),
		closed: closed, close: sync.OnceFunc(func() { close(closed) }),
	}
	if b.comments == nil {
		b.comments = noComments{}
	}
	b.ready = ready.New(judged{b})
	if b.journal != nil {
		b.recall()
	}
	if b.mirror != nil {
		for t := range b.mirror.Tasks() {
			b.ready.Changed(t.ID)
		}
	}
	return b
}

// recall notes the tasks that had come back before the daemon started.
func (b *Broker) recall() {
	ctx := context.Background()
	facts, err := b.journal.Facts(ctx, claim.FactFilter{Since: b.now().Add(-b.inbox.Visibility)})
	for _, f := range facts {
		if f.Returned {
			err = errors.Join(err, b.givesBack(ctx, f.Task, f.Summary, f.At))
		} else if f.Kind.Grants() {
			b.backs.remove(f.Task)
		}
	}
	if err != nil {
		b.log.Error("it is not known which reviews were returned just now: anybody may claim those tasks", claim.AttrError, err)
	}
}

// givesBack notes that a task that was up for review came back to its last agent, with what was said.
func (b *Broker) givesBack(ctx context.Context, id task.ID, said string, at time.Time) error {
	claims, err := b.journal.TaskClaims(ctx, id)
	i := slices.IndexFunc(claims, func(h claim.Hold) bool { return !h.Started.IsZero() && !h.Brief })
	if err == nil && i >= 0 {
		b.backs.put(id, back{claims[i].ID, claims[i].Agent, said, at.Add(b.inbox.Visibility)})
	}
	return err
}

// Changed takes in changes of tasks in the mirror, and wakes the requests that wait for one.
func (b *Broker) Changed(ids ...task.ID) {
	b.ready.Changed(ids...)
	b.sums.changed()
	b.troubles.over(ids...)
	b.changed.fire()
}

// Claimed takes in a change of a claim, see claim.Config.Stored.
func (b *Broker) Claimed(c claim.Hold) {
	if c.State == claim.Held && !c.Brief {
		b.backs.remove(c.Task.ID)
	}
	b.ready.Claimed(c.Task.ID)
	b.reserved.Claimed(c)
	if c.State == claim.Ended {
		b.eased.fire() // it may be the one for which the breaker waits
		if len(c.Touches) > 0 {
			b.waiters.wakeAll()
		}
	}
	b.sums.changed()
}

// Published wakes the calls that wait for events: the feed has a new one.
func (b *Broker) Published() {
	b.published.fire()
}

// Delivered wakes calls of Comment: a log entry was delivered, or could not be.
func (b *Broker) Delivered() { b.delivered.fire() }

// Met records that an agent made a claim that long ago through an unrelated daemon.
func (b *Broker) Met(agent string, ago time.Duration) { b.rivals.meet(agent, time.Now().Add(-ago)) }

// Close ends all waiting: every waiting call returns ErrStopping.
func (b *Broker) Close() { b.close() }

// now is Notion's time.
func (b *Broker) now() time.Time { return b.clock.Now() }

// Local converts Notion's time to this machine's, so that agents see times of their own clock.
//
// The difference between the clocks is an estimate that varies a little all the time. Added as it
// is, it would give two answers two times for one moment. So Local adds whole seconds, and keeps
// the same number until the estimate is more than a second away from it. If both clocks are right,
// that number is zero, and agents see the times that Notion shows. A second of error does no harm:
// much more than that lies between the end of a lease and the moment at which somebody else may
// take the task.
func (b *Broker) Local(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	ahead := time.Duration(b.ahead.Load())
	if now := time.Since(b.now()); (now - ahead).Abs() > coarse {
		ahead = now.Round(coarse)
		b.ahead.Store(int64(ahead))
	}
	return t.Add(ahead)
}

// coarse is the precision of Notion's time: its answers give whole seconds.
const coarse = time.Second

// The daemon's own records bear Notion's time; its answers bear this machine's. The conversion is
// made here, and in the constructors beside the questions.

// time converts Notion's time to this machine's; zero stays zero.
func (b *Broker) time(t time.Time) api.Time { return api.Time{Time: b.Local(t)} }

// doubt is Daemon.Doubt, or nil without a Daemon.
func (b *Broker) doubt() error {
	if b.daemon == nil {
		return nil
	}
	return b.daemon.Doubt()
}

// back returns a channel that is closed when Notion can next be reached again; nil without a source
// for that.
func (b *Broker) back() <-chan struct{} {
	if b.notion == nil {
		return nil
	}
	return b.notion.Back()
}

// unreachable reports whether err says that the journal cannot be reached.
func unreachable(err error) bool {
	_, is := errors.AsType[*claim.JournalError](err)
	return is
}

// checkName returns an *InvalidError for a name that no agent of this daemon can have.
func (b *Broker) checkName(name string) error {
	if err := task.ValidateAgent(name); err != nil {
		return &InvalidError{Detail: err.Error()}
	}
	agents := b.configured()
	if _, listed := entry(agents, name); len(agents) > 0 && !listed {
		return &InvalidError{Detail: fmt.Sprintf("%q is not among the agents of this daemon; use one of those configured, or add it to `agents`", name)}
	}
	return nil
}

// configured returns the current Config.Agents.
func (b *Broker) configured() []Agent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.agents
}

// SetAgents replaces Config.Agents. It ends no claim.
func (b *Broker) SetAgents(agents []Agent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.agents = agents
}

// agentsOf returns the agents in a member's configuration; an empty member is this one.
func (b *Broker) agentsOf(member string) (agents []Agent, known bool) {
	if member == "" {
		return b.configured(), true
	}
	if b.cluster == nil {
		return nil, false
	}
	return b.cluster.AgentsAt(member)
}
