package daemon

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/claim/brake"
	"dibs/internal/claim/doubt"
	"dibs/internal/claim/keepers"
	"dibs/internal/daemon/metrics"
	"dibs/internal/door/access"
	"dibs/internal/door/server"
	"dibs/internal/journal"
	"dibs/internal/journal/inbox"
	"dibs/internal/mirror"
	"dibs/internal/mirror/webhook"
	"dibs/internal/notion"
	"dibs/internal/outbox"
	"dibs/internal/outbox/creation"
	"dibs/internal/outbox/notify"
	"dibs/internal/outbox/wording"
	"dibs/internal/reserve"
	"dibs/internal/task"
)

// Who stands behind which interface. A part that is not here stands behind it as it is; the others
// are below, each around the part that does the work.
var (
	// What the protocol, the mirror, the queues and the watch over processes use.
	_ claim.Store       = (*notion.Tasks)(nil)
	_ claim.Ledger      = ledger{}  // the journal; counts, and wakes who delivers and publishes
	_ claim.Board       = board{}   // the mirror; closed for claims while the journal is in doubt
	_ claim.Watcher     = watcher{} // metrics, broker and loops
	_ mirror.Source     = source{}  // notion.Tasks, with the rate and the pauses of its client
	_ mirror.Storage    = (*journal.Journal)(nil)
	_ mirror.Watcher    = watcher{}
	_ mirror.Notion     = (*notion.Client)(nil)
	_ outbox.Ledger     = (*journal.Journal)(nil)
	_ outbox.Reach      = (*notion.Client)(nil)
	_ outbox.Reach      = always{} // for receivers of notices
	_ outbox.Watcher    = watcher{}
	_ wording.Writer    = comments{} // notion.CommentLog, unless comments are off
	_ keepers.Claims    = finisher{} // the claimer; tells waiters which task is free
	_ keepers.Storage   = (*journal.Journal)(nil)
	_ keepers.Processes = keepers.Here{}
	_ keepers.Processes = (*server.Machines)(nil) // with a shared journal
	_ doubt.Claims      = (*claim.Claimer)(nil)
	_ doubt.Storage     = (*journal.Journal)(nil)
	_ reserve.Claims    = (*claim.Claimer)(nil)
	_ reserve.Storage   = ledger{}
	_ webhook.Known     = informant{}
	_ webhook.Memory    = (*journal.Journal)(nil)

	// What the broker uses, and who uses the broker.
	_ broker.Mirror       = (*mirror.Mirror)(nil)
	_ broker.Journal      = ledger{}
	_ broker.Feed         = ledger{}
	_ broker.Inbox        = ledger{}
	_ broker.Names        = ledger{}
	_ broker.Past         = ledger{}
	_ broker.Reservations = (*reserve.Book)(nil)
	_ broker.Comments     = comments{}
	_ broker.Pages        = pages{} // notion.Client, ahead of what nobody waits for
	_ broker.Creations    = (*creation.Maker)(nil)
	_ broker.Cluster      = members{}  // shared, and the doubt
	_ broker.Daemon       = reporter{} // see status.go
	_ broker.Tokens       = (*access.Tokens)(nil)
	_ server.Access       = (*access.Tokens)(nil)
	_ access.Storage      = (*journal.Journal)(nil)
	_ server.Journal      = (*journal.Journal)(nil)
	_ server.Metrics      = (*metrics.Metrics)(nil)
	_ server.Member       = (*shared)(nil)
	_ server.Doorway      = (*shared)(nil)
)

// build makes the parts on the journal and on the databases that connect has opened, from the bottom
// up: each gets the parts made before it, for it may use them at once. Of those made after it, it
// gets a function or a decorator that looks for them when it is called; nobody calls one before build
// has returned. Nothing runs yet, and nothing is asked of Notion: begin recovers the claims next, and
// whatever that stores has to be counted, delivered and told. down is as of connect.
func (d *leader) build(ctx context.Context, logs map[claim.Log]wording.Writer, down error) (err error) {
	// Who is told of what is stored, before anything is.
	if err := d.journal.SetLeads(ctx, leads(d.config)); err != nil {
		return err
	}
	if err := d.journal.SetBounds(ctx, boundsOf(d.config)); err != nil {
		return err
	}

	// The mirror comes before the claimer, which looks at the board before each claim. It is idle
	// while nothing is held: the claimer is made below.
	d.mirror, err = mirror.New(ctx, mirror.Config{
		Scoped:  len(d.config.Tasks.Only) > 0,
		Source:  source{d.tasks, d.notion, func() float64 { return d.live.Load().Notion.Rate }},
		Storage: d.journal, Keep: d.config.Sync.KeepFinished, Interval: d.config.Sync.Interval, Waiting: d.config.Sync.Waiting,
		Idle:    func() bool { return d.claimer.Holding() == 0 },
		Failure: down, Watcher: watcher{d}, Notion: d.notion, Log: d.log,
	})
	if err != nil {
		return err
	}

	// The ledger counts what it stores, so the metrics come first.
	policy := policyOf(d.config, d.tasks)
	d.metrics = metrics.New(metrics.Options{
		Version: d.version, WriteWindow: policy.WriteWindow, Settle: policy.Settle, Standing: d.standing, Log: d.log,
	})
	led := ledger{Journal: d.journal, metrics: d.metrics, stored: func() {
		for _, q := range d.queues {
			q.Wake()
		}
		d.news.Wake() // tasks that the protocol was working on can be published now
	}}

	// The claimer marks its tokens with the journal's origin. Whether it is alone on the board, the
	// doubt finds out by its policy; what keeps its claims alive asks it for them. Both come after it.
	d.users = d.notion.Users()
	origin, _, err := doubt.Origin(ctx, d.journal, d.notion.Now())
	if err != nil {
		return err
	}
	d.claimer, err = claim.New(claim.Config{
		Store: d.tasks, Ledger: led, Policy: policy,
		Origin: origin, Beside: func() bool { return d.doubt.Beside() }, Kept: func(id claim.ID) bool { return d.alive.Keeps(id) },
		Board: board{d.mirror, d}, Watcher: watcher{d}, Editor: d.users.Name, Log: d.log,
	})
	if err != nil {
		return err
	}
	if err := d.openDoubt(ctx); err != nil {
		return err
	}
	d.alive, err = keepers.New(ctx, keepers.Config{
		Storage: d.journal, Claims: finisher{d.claimer, func(ids ...task.ID) { d.broker.Changed(ids...) }}, Processes: d.processes(), Log: d.log,
	})
	if err != nil {
		return err
	}
	d.reservations, err = reserve.NewBook(ctx, reserve.Config{
		Storage: led, Claims: d.claimer, Processes: d.processes(), Clock: d.notion, Log: d.log,
	})
	if err != nil {
		return err
	}

	// The queues: one for each log, in the order of their names, then one for each receiver.
	remarks := comments{
		d.notion.CommentLog(), d.notion.People(), func() bool { return d.live.Load().Notion.Comments },
		func(e wording.Entry) {
			d.log.Info("notion.comments is off: a comment that is owed is dropped", "entry", e.ID, claim.AttrTitle, e.Title)
		},
	}
	logs[claim.Comments] = remarks
	for _, log := range slices.Sorted(maps.Keys(logs)) {
		d.queues = append(d.queues, outbox.New(outbox.Config{
			Kind: outbox.Kind(log), Ledger: d.journal, Entries: wording.Entries{Log: log, Writer: logs[log]},
			Notion: d.notion, Watcher: watcher{d}, Log: d.log,
		}))
	}
	if err := d.openReceivers(ctx); err != nil {
		return err
	}

	// What people write: the hooks hand events about comments to the listener.
	d.listener = &listener{
		notion: d.notion, mirror: d.mirror, journal: d.journal, claimer: d.claimer,
		names: func(ctx context.Context) ([]string, error) { return d.broker.Known(ctx) },
		every: d.config.Inbox.Comments, interval: d.interval, keep: func() time.Duration { return d.live.Load().Events.Keep },
		log: d.log, turn: make(chan struct{}, 1),
	}
	d.listener.mesh, _ = logs[claim.MeshLog].(messages)
	d.hooks = &hooks{
		hints: webhook.NewHints(informant{d}), mirror: d.mirror, metrics: d.metrics, clock: d.notion, interval: d.interval, log: d.log,
		comments: func(ctx context.Context, tasks map[task.ID]bool) error {
			added, err := d.listener.hear(ctx, tasks)
			if added > 0 {
				d.broker.Published()
			}
			return err
		},
	}
	if err := d.hooks.open(ctx, d.journal); err != nil {
		return err
	}

	tokens, err := d.openAccess(ctx)
	if err != nil {
		return err
	}

	// The broker is on top of all of them, and the server answers with it.
	d.broker = broker.New(broker.Config{
		Claimer: d.claimer, Mirror: d.mirror, Journal: led, Feed: led, Alive: d.alive, Reserved: d.reservations, Clock: d.notion, Notion: d.notion,
		Inbox: broker.InboxConfig{Inbox: led, Listen: d.listener.listen, Visibility: d.config.Inbox.Visibility, Offer: d.config.Inbox.Offer},
		Past:  led, Daemon: reporter{d},
		Agents: agentsOf(d.config), Names: led, Fields: d.config.Tasks.Selectable(), Words: d.tasks.Words(), Comments: remarks, Pages: pages{d.notion},
		Creations: creation.New(d.journal, d.tasks, d.mirror.Observe, d.log), Cluster: members{d}, Tokens: tokens, Log: d.log,
	})
	d.server = server.New(server.Options{
		Broker: d.broker, Journal: d.journal, Log: d.log, Version: d.version,
		Metrics: d.metrics, Machines: d.machines(), Access: tokens,
	})
	d.server.SetListed(listed(d.config))
	return nil
}

// policyOf returns the protocol's policy under this configuration. Grace is how long a voided claim
// stays visible: longer than another daemon takes to check the claims it holds.
func policyOf(c config.Config, tasks *notion.Tasks) claim.Policy {
	return claim.Policy{
		Timeout: c.Claim.Timeout, WriteWindow: c.Claim.WriteWindow, Settle: settle(c),
		OpenOnly: c.Claim.Override == config.OverrideOpenOnly, Exclusive: c.Claim.Exclusive || c.Journal.Shared(),
		Request:     c.Notion.Timeout,
		Grace:       2*c.Sync.Interval + settle(c) + c.Notion.Timeout,
		MaxLifetime: c.Claim.MaxLifetime, MaxPerAgent: c.Claim.MaxPerAgent,
		MaxAttempts: c.Claim.MaxAttempts, Todos: c.Claim.Todos, ReviewAll: c.Claim.Review == config.ReviewAlways,
		Review: c.Tasks.Statuses.Review != "", Failed: c.Tasks.Statuses.Failed != "",
		NoNote: !tasks.HasNote(), Words: tasks.Words(),
	}
}

// settle returns the settle wait: none with a shared journal, which ensures that there is one
// claimer.
func settle(c config.Config) time.Duration {
	if c.Journal.Shared() {
		return 0
	}
	return c.Claim.Settle
}

// openDoubt starts the check whether this journal's daemon is alone on the board, and whether the
// journal was restored from a backup.
func (d *leader) openDoubt(ctx context.Context) (err error) {
	c := doubt.DoubtConfig{
		Claims: d.claimer, Policy: d.claimer.Policy(), Storage: d.journal, Clock: d.notion, Log: d.log, Shared: d.shared != nil,
	}
	if lost := d.journal.Lost(); !lost.Until.IsZero() {
		d.log.Error("what was accepted may be lost: have agents and people look at what they did then", claim.AttrReason, lost.String())
		from, until := lost.Ago() // Notion's clock may be another one than the database's
		c.LostFrom, c.LostUntil = d.notion.Now().Add(-from), d.notion.Now().Add(-until)
	}
	d.doubt, err = doubt.OpenDoubt(ctx, c)
	return err
}

// openAccess makes what knows callers from other machines.
func (d *leader) openAccess(ctx context.Context) (*access.Tokens, error) {
	c := d.config.Remote
	fingerprint := func(ctx context.Context) (string, error) { return access.Make(ctx, d.journal) }
	if c.CertFile != "" {
		fingerprint = func(context.Context) (string, error) { return "", nil }
	} else if d.remoteListen != nil {
		if _, err := fingerprint(ctx); err != nil {
			return nil, err
		}
	}
	var issuers *access.Issuers
	if len(c.OIDC) > 0 {
		issuers = access.NewIssuers(c.OIDC, d.outside, d.log)
	}
	return access.New(ctx, access.Config{Storage: d.journal, Fingerprint: fingerprint, Issuers: issuers, Log: d.log})
}

// openReceivers makes a queue for each receiver of notices.
func (d *leader) openReceivers(ctx context.Context) error {
	receivers, err := notify.Open(d.config.Notify, notify.Options{
		Transport: d.outside, Output: os.Stderr, Environment: config.Environment(d.config.Journal.Shared()), Log: d.log,
	})
	if err != nil {
		return err
	}
	wants := make(map[outbox.Kind]func(claim.Fact) bool)
	for _, r := range receivers {
		wants[r.Kind()] = r.Wants
		d.queues = append(d.queues, outbox.New(outbox.Config{
			Kind: r.Kind(), Ledger: d.journal, Entries: r, Notion: always{}, To: r.Terms(), Log: d.log,
		}))
	}
	return d.journal.SetReceivers(ctx, wants)
}

// machines returns the members' machines; nil without a shared journal.
func (d *leader) machines() *server.Machines {
	if d.shared == nil {
		return nil
	}
	return d.shared.machines
}

// processes returns the processes of the members' machines, or of this one.
func (d *leader) processes() keepers.Processes {
	if d.shared == nil {
		return keepers.Here{}
	}
	return d.shared.machines
}

// ledger is the journal as the protocol and the broker see it. It counts what is stored for the
// metrics, and calls stored when there may be log entries to deliver or facts to publish.
type ledger struct {
	*journal.Journal
	metrics *metrics.Metrics
	stored  func()
}

func (l ledger) Save(ctx context.Context, ch claim.Change) error {
	err := l.Journal.Save(ctx, ch)
	if err == nil {
		l.metrics.Saved(ch)
	}
	ended := func(h claim.Hold) bool { return h.State == claim.Ended }
	if len(ch.Facts) > 0 || slices.ContainsFunc(ch.Holds, ended) || len(ch.Marks) > 0 {
		l.stored()
	}
	return err
}

// Record is Save for facts alone.
func (l ledger) Record(ctx context.Context, facts ...claim.Fact) error {
	return l.Save(ctx, claim.Change{Facts: facts})
}

func (l ledger) StoreReservation(ctx context.Context, r reserve.Reservation, news ...claim.Fact) error {
	err := l.Journal.StoreReservation(ctx, r, news...)
	l.reservationsStored(err, news)
	return err
}

func (l ledger) EndReservations(ctx context.Context, ids []string, news ...claim.Fact) error {
	err := l.Journal.EndReservations(ctx, ids, news...)
	l.reservationsStored(err, news)
	return err
}

func (l ledger) ChangeBrake(ctx context.Context, change func(*brake.State) (claim.Fact, bool)) (brake.State, bool, error) {
	b, done, err := l.Journal.ChangeBrake(ctx, change)
	if done {
		l.stored()
	}
	return b, done, err
}

// reservationsStored counts the facts of a reservation.
func (l ledger) reservationsStored(err error, news []claim.Fact) {
	if err == nil {
		l.metrics.Recorded(news...)
	}
	l.stored()
}

// Send stores a message and queues it for the mesh log.
func (l ledger) Send(ctx context.Context, message claim.Fact, triggers ...inbox.Trigger) error {
	defer l.stored()
	return l.Journal.Send(ctx, message, triggers...)
}

// board is the mirror; it is closed for claims while the journal is in doubt.
type board struct {
	*mirror.Mirror
	leader *leader
}

// Closed returns why no task may be claimed now; nil if any may.
func (b board) Closed() error {
	if why := b.leader.doubt.Why(); why != nil {
		return why
	}
	if why := b.leader.closed(); why != nil {
		return why
	}
	return b.Mirror.Closed()
}

const (
	// onItsWay is how long a request may be on its way to Notion, which ends it after a minute.
	onItsWay = 65 * time.Second
	// readSoon is when to ask again while the board is being read.
	readSoon = 5 * time.Second
)

// closed returns why nothing is granted yet after a loss: a write of a lost claim may still arrive,
// and one that has arrived has to be seen.
func (d *leader) closed() error {
	lost := d.journal.Lost()
	_, ago := lost.Ago()
	left := onItsWay - ago
	switch {
	case lost.Until.IsZero():
		return nil
	case left > 0:
	case !d.mirror.Listed():
		left = readSoon
	default:
		return nil
	}
	return &claim.JournalError{RetryAfter: left, Err: fmt.Errorf("%s; nothing is granted until lost writes have arrived and the board was read", lost)}
}

// watcher passes what the claimer, the mirror and the queues do to the broker, which is above them,
// and wakes the loops concerned.
type watcher struct{ *leader }

// Observe is called with each page that the protocol has read or written.
func (w watcher) Observe(r claim.Reading) {
	w.mirror.Observe(r)
	w.doubt.See(context.Background(), r.Task)
}

func (w watcher) Wrote(took time.Duration, answer claim.Reading, err error) {
	w.metrics.Wrote(took, err)
	if err != nil { // nobody knows whether and when it took effect
		return
	}
	w.overwrites.Note(took)
	w.isBot(context.Background(), answer.Task.EditedBy)
}

func (w watcher) Stored(c claim.Hold) {
	w.broker.Claimed(c)
	w.leases.Wake()
	if c.State == claim.Held && c.Requested > 0 {
		w.due.Wake()
	}
	if c.State == claim.Ended && c.Finish != nil && c.Finish.To != "" {
		w.offers.Wake()
	}
}

func (w watcher) Changed(ids ...task.ID) { w.broker.Changed(ids...) }

func (w watcher) Delivered() { w.broker.Delivered() }

func (w watcher) Synced(ctx context.Context, r mirror.Result) error {
	w.hooks.countSynced(r)
	return w.afterSync(ctx, r)
}

func (w watcher) Unsynced(ctx context.Context, again bool) { w.afterFailedSync(ctx, again) }

// finisher is the claimer for claims that end with their process or connection. When one ends, the
// broker's waiters hear of its task.
type finisher struct {
	*claim.Claimer
	changed func(...task.ID)
}

func (f finisher) Finish(ctx context.Context, id claim.ID, end claim.Finish) (claim.Hold, error) {
	c, err := f.Claimer.Finish(ctx, id, end)
	if err == nil {
		f.changed(c.Task.ID)
	}
	return c, err
}

// members implements broker.Cluster on the leader of a shared journal.
type members struct{ *leader }

// Members returns the members, empty without a shared journal, and why nothing is granted, if so.
func (m members) Members(ctx context.Context) (c api.Cluster, err error) {
	if m.shared != nil {
		c, err = m.shared.Members(ctx)
	}
	if why := m.doubt.Why(); why != nil {
		c.LastError = why.Error()
	}
	return c, err
}

// Adopt ends the doubt for good: the journal counts as it is.
func (m members) Adopt(ctx context.Context, by string) (api.Cluster, error) {
	why := m.doubt.Why()
	adopted, err := m.doubt.Adopt(ctx)
	if err != nil {
		return api.Cluster{}, err
	}
	if adopted {
		m.log.Warn("the journal was adopted as it is", claim.AttrBy, by, claim.AttrReason, why)
		m.broker.Changed() // waiters may claim again
	}
	c, err := m.Members(ctx)
	c.Adopted = &adopted
	return c, err
}

// AgentsAt returns the names that users of a member's machine may use.
func (m members) AgentsAt(member string) ([]broker.Agent, bool) { return m.shared.agentsAt(member) }

// informant implements webhook.Known.
type informant struct{ *leader }

func (k informant) Now() time.Time { return k.notion.Now() }

func (k informant) Bot() string { return k.notion.KnownBot() }

func (k informant) Wrote(page task.ID, since time.Time) bool { return k.notion.Wrote(page, since) }

func (k informant) Board(database, source task.ID) bool { return k.tasks.Holds(database, source) }

func (k informant) Knows(page task.ID) bool {
	_, is := k.mirror.Task(page)
	return is
}

// source implements mirror.Source with the tasks database.
type source struct {
	*notion.Tasks
	client *notion.Client
	rate   func() float64 // requests a second that may be sent
}

func (s source) List(ctx context.Context, since time.Time, read func(int)) ([]task.Task, error) {
	tasks, _, err := s.Query(ctx, notion.Query{UnfinishedOnly: true, Scoped: true, FinishedSince: since, Progress: read})
	return tasks, err
}

func (s source) EditedSince(ctx context.Context, t time.Time) ([]task.Task, error) {
	tasks, _, err := s.Query(ctx, notion.Query{EditedSince: t, Claimed: true})
	return tasks, err
}

// quickShare is the part of the rate that quick syncs may take: 20 of 180 requests a minute.
const quickShare = 9

// Room implements mirror.Source. Quick syncs leave half of the burst to claims.
func (s source) Room() (free bool, apart time.Duration) {
	stats := s.client.Stats()
	waiting := 0
	for _, n := range stats.Waiting {
		waiting += n
	}
	return waiting == 0 && 2*stats.Permits >= stats.Burst, time.Duration(quickShare / s.rate() * float64(time.Second))
}

func (s source) Paused() error { return s.client.Paused() }

func (source) Patient(ctx context.Context, longest time.Duration) context.Context {
	return notion.Patient(ctx, longest)
}

func (source) Impatient(ctx context.Context) context.Context { return notion.Impatient(ctx) }

// Background implements mirror.Source.
func (source) Background(ctx context.Context) context.Context { return notion.Background(ctx) }

// pages reads tasks' pages from Notion. An agent is waiting for the answer, so the requests go
// first.
type pages struct{ notion *notion.Client }

// Text implements broker.Pages.
func (p pages) Text(ctx context.Context, id task.ID) (string, []string, error) {
	md, err := p.notion.Markdown(notion.Awaited(ctx), id)
	return md.Text, md.Missing, err
}

// Whole implements broker.Pages.
func (p pages) Whole(ctx context.Context, id task.ID) (string, error) {
	md, err := p.notion.Markdown(notion.Awaited(ctx), id)
	if err == nil && md.Unloaded > 0 {
		err = claim.Errorf(claim.Unavailable, claim.LandedNo, "%d parts of the page could not be read", md.Unloaded)
	}
	return md.Text, err
}

// Comments implements broker.Pages.
func (p pages) Comments(ctx context.Context, id task.ID) ([]broker.Comment, error) {
	found, err := p.notion.Comments(notion.Awaited(ctx), id)
	comments := make([]broker.Comment, len(found))
	for i, c := range found {
		comments[i] = broker.Comment{By: c.By, Signed: c.Named, At: c.At, Text: c.Text}
	}
	return comments, err
}

// comments writes agents' comments on tasks while the configuration allows it.
type comments struct {
	*notion.CommentLog
	people *notion.People
	on     func() bool
	off    func(wording.Entry) // called with an entry that is dropped because comments are off
}

// On implements broker.Comments.
func (c comments) On() bool { return c.on() }

// People implements broker.Comments.
func (c comments) People(ctx context.Context, anew bool) ([]broker.Person, error) {
	list, err := c.people.List(ctx, anew)
	people := make([]broker.Person, len(list))
	for i, p := range list {
		people[i] = broker.Person(p)
	}
	return people, err
}

// Create implements wording.Writer. While comments are off it drops what was queued when they were
// on, so that nobody receives it long afterwards.
func (c comments) Create(ctx context.Context, e wording.Entry) error {
	if !c.on() && !e.Comment.Asked {
		c.off(e)
		return nil
	}
	return c.CommentLog.Create(ctx, e)
}

// Find implements wording.Writer.
func (c comments) Find(ctx context.Context, e wording.Entry) (bool, error) {
	if !c.on() && !e.Comment.Asked {
		c.off(e)
		return true, nil
	}
	return c.CommentLog.Find(ctx, e)
}

// always is the outbox.Reach of what does not depend on Notion.
type always struct{}

func (always) Down() error { return nil }

func (always) Back() <-chan struct{} { return nil }

func (always) Await() {}
