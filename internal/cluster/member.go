package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"dibs/internal/journal"
	"dibs/internal/kit/clock"
	"dibs/internal/kit/silence"
)

const (
	// beat is how often a leader renews its term, how often members announce themselves, and how
	// long either may take.
	beat = 2 * time.Second
	// watch is how often members check who leads.
	watch = time.Second
	// Unseen is the time without an announcement after which a member counts as away, and its name
	// as free.
	Unseen = 5 * beat
	// gone is the time without an announcement after which a member is forgotten.
	gone = 7 * 24 * time.Hour
)

// Member is one of the daemons that share a journal. It is safe for concurrent use.
type Member struct {
	database *journal.Database
	name     string
	key      tls.Certificate
	network  Network
	log      *slog.Logger
	logs     map[string]string // see Config.Databases

	waits sync.Once // for a member with an older program, which is said once

	mu         sync.Mutex
	address    string
	agents     []Name
	leadership Leadership
	peers      map[string]Peer
	asked      time.Time     // when peers were read, by the database's clock
	read       chan struct{} // closed when they are read again
	changed    chan struct{} // closed when the leader changes, or the database is away or back
}

// Leadership is who leads, as far as a member knows.
type Leadership struct {
	// Leader leads since Since, by the database's clock. Its name is empty if no leader is known.
	Leader Peer
	Epoch  int64
	Since  time.Time
	// Away is why the database cannot be reached, nil if it can. While it is set, the other fields
	// are from before.
	Away error
}

// Config configures a Member.
type Config struct {
	Database *journal.Database
	// Name is the member's name, unique among the members.
	Name string
	// Dir is the directory for its key.
	Dir string
	// Agents are the agent names that users of this machine may use, see SetAgents.
	Agents []Name
	// Databases are the ids of the log databases, by their keys in the configuration.
	Databases map[string]string
	// Network is how members reach each other; nil for TCP.
	Network Network
	Log     *slog.Logger
}

// Network is how members reach each other.
type Network interface {
	Listen(ctx context.Context, address string) (net.Listener, error)
	Dial(ctx context.Context, address string) (net.Conn, error)
}

// silent is how long a member may be silent before a connection to it fails.
const silent = 10 * time.Second

// tcp is the machine's network.
type tcp struct{}

func (tcp) Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cluster.listen: %w: name an address of this machine, such as :7331", err)
	}
	return l, nil
}

func (tcp) Dial(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{
		// A machine that is gone says nothing, so probe it.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
		Control:         silence.Limit(silent),
	}
	return d.DialContext(ctx, "tcp", address)
}

// New returns a member. It fails if another member was recently there under the same name, or with
// other databases: then the error is a *DatabasesError.
func New(ctx context.Context, c Config) (*Member, error) {
	key, err := keyOf(c.Dir)
	if err != nil {
		return nil, err
	}
	m := &Member{
		database: c.Database, name: c.Name, key: key, network: c.Network, log: c.Log,
		agents: c.Agents, logs: c.Databases, peers: make(map[string]Peer), read: make(chan struct{}), changed: make(chan struct{}),
	}
	if m.network == nil {
		m.network = tcp{}
	}
	now, err := c.Database.Members(ctx)
	if err != nil {
		return nil, err
	}
	for _, other := range now.Members {
		card := readCard(other.Body)
		own := Peer{Card: card}.shows(key.Leaf)
		if own || now.Now.Sub(other.Seen) >= Unseen {
			continue
		}
		if err := card.differs(other.Name, c.Databases); err != nil {
			return nil, err
		}
		if other.Name == c.Name {
			return nil, fmt.Errorf("another member is called %s, and was there %v ago: give this one a name of its own with cluster.name", c.Name, now.Now.Sub(other.Seen).Round(time.Second))
		}
	}
	m.take(now)
	return m, nil
}

// SetAgents changes Config.Agents. The other members see it with the next announcement.
func (m *Member) SetAgents(agents []Name) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.agents = agents
}

// Name returns the member's name.
func (m *Member) Name() string { return m.name }

// Run announces the member and checks who leads, until ctx ends. Then it takes the member off the
// list.
func (m *Member) Run(ctx context.Context) {
	for said, stood := (time.Time{}), (time.Time{}); ctx.Err() == nil; {
		begun := time.Now()
		err := m.say(ctx, &said)
		if time.Since(begun) > beat+watch {
			stood = time.Now() // this process did: its time limits say nothing of the database
		}
		if err != nil && time.Since(stood) < beat {
			clock.Pause(ctx, watch/10)
			continue
		}
		if ctx.Err() == nil {
			m.note(err)
		}
		clock.Pause(ctx, watch)
	}
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), beat)
	defer cancel()
	if err := m.database.Leave(leaving, m.name); err != nil {
		m.log.Debug("this member stays on the list for a while", "error", err)
	}
}

func (m *Member) say(ctx context.Context, said *time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	if time.Since(*said) >= beat {
		if err := m.introduce(ctx); err != nil {
			return err
		}
		*said = time.Now()
	}
	return m.refresh(ctx)
}

func (m *Member) introduce(ctx context.Context) error {
	m.mu.Lock()
	card := Card{Address: m.address, Certificate: m.key.Leaf.Raw, Agents: m.agents, Databases: m.logs, Schema: journal.Schema}
	m.mu.Unlock()
	body, err := json.Marshal(card)
	if err != nil {
		return err
	}
	return m.database.Introduce(ctx, m.name, body, gone)
}

// refresh reads who the members are, and who leads.
func (m *Member) refresh(ctx context.Context) error {
	now, err := m.database.Members(ctx)
	if err == nil {
		m.take(now)
	}
	return err
}

// take stores who the members are, and who leads.
func (m *Member) take(now journal.Membership) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.peers, m.asked = make(map[string]Peer), now.Now
	close(m.read)
	m.read = make(chan struct{})
	for _, p := range now.Members {
		m.peers[p.Name] = Peer{p.Name, readCard(p.Body), p.Seen}
	}
	before := m.leadership
	next := Leadership{Epoch: now.Epoch, Since: now.Since, Away: before.Away}
	if !now.Over {
		next.Leader = m.peers[now.Leader]
		next.Leader.Name = now.Leader
	}
	m.setLeadership(next)
}

// note stores whether the database can be reached.
func (m *Member) note(away error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if away != nil && m.leadership.Away == nil {
		m.log.Warn("who leads cannot be asked; it is tried again", "error", away)
	}
	next := m.leadership
	next.Away = away
	m.setLeadership(next)
}

// setLeadership changes the leadership, and wakes those who wait for a change. m.mu is held.
func (m *Member) setLeadership(next Leadership) {
	before := m.leadership
	m.leadership = next
	led := next.Epoch != before.Epoch || next.Leader.Name != before.Leader.Name || next.Leader.Address != before.Leader.Address
	if led && next.Leader.Name != "" && next.Leader.Name != m.name {
		m.log.Info("another daemon leads", "leader", next.Leader.Name, "address", next.Leader.Address, "epoch", next.Epoch)
	}
	if led || (next.Away == nil) != (before.Away == nil) {
		close(m.changed)
		m.changed = make(chan struct{})
	}
}

// Leadership returns who leads, and a channel that is closed when that changes.
func (m *Member) Leadership() (now Leadership, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leadership, m.changed
}

// Peer returns the member with that name.
func (m *Member) Peer(name string) (Peer, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.peers[name]
	return p, ok
}

// There returns the number of members that have announced themselves recently.
func (m *Member) There() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.peers {
		if m.asked.Sub(p.Seen) < Unseen {
			n++
		}
	}
	return n
}

// Lead waits until the member leads, and returns its term. Run has to run meanwhile: it notices when
// nobody leads. The error is ctx's. A member that was deposed lets the others try first, because
// something kept it from renewing its term.
func (m *Member) Lead(ctx context.Context, deposed bool) (*Term, error) {
	if deposed {
		if err := clock.Pause(ctx, beat); err != nil {
			return nil, err
		}
	}
	for failed := false; ; {
		if err := m.vacant(ctx); err != nil {
			return nil, err
		}
		led, err := m.try(ctx)
		if err == nil && led.Epoch > 0 {
			return &Term{member: m, term: led, over: make(chan struct{})}, nil
		}
		if err != nil && ctx.Err() == nil && !failed {
			m.log.Warn("the lead could not be taken; it is tried again", "error", err)
		}
		failed = err != nil
		if err := clock.Pause(ctx, watch); err != nil {
			return nil, err
		}
	}
}

// vacant waits until nobody leads, as far as the member knows. The error is ctx's.
func (m *Member) vacant(ctx context.Context) error {
	for {
		now, changed := m.Leadership()
		if now.Leader.Name == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// older returns a member with an older program that was there within the last term: the journal stays
// as that program can use it.
func (m *Member) older() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.peers {
		if p.Name != m.name && p.Schema < journal.Schema && m.asked.Sub(p.Seen) < journal.LeadTerm {
			return p.Name
		}
	}
	return ""
}

// try takes the lead if nobody leads, and a journal that is to be carried over is used by no older
// member. It returns the new term, or a zero one.
func (m *Member) try(ctx context.Context) (journal.Term, error) {
	if m.database.Schema() < journal.Schema {
		if older := m.older(); older != "" {
			m.waits.Do(func() {
				m.log.Warn("this daemon does not lead yet: a member with an older dibs is there; upgrade or stop it", "member", older)
			})
			return journal.Term{}, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	return m.database.Lead(ctx, m.name)
}

// All returns all members and the leader, from the database.
func (m *Member) All(ctx context.Context) (journal.Membership, error) {
	ctx, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	return m.database.Members(ctx)
}

// Term is the time during which a member leads.
type Term struct {
	member *Member
	term   journal.Term
	once   sync.Once
	over   chan struct{}
}

// Epoch returns the number of the term, counted over all members.
func (t *Term) Epoch() int64 { return t.term.Epoch }

// Open opens the journal for the term. If the journal refuses the member's writes, the term ends.
func (t *Term) Open(ctx context.Context) (*journal.Journal, error) {
	j, err := t.member.database.Open(ctx, t.term)
	if err != nil {
		return nil, err
	}
	go func() {
		select {
		case <-j.Over():
			t.member.log.Error("this daemon leads no more: the journal takes nothing from it", "epoch", t.term.Epoch)
			t.end()
		case <-t.over:
		}
	}()
	return j, nil
}

// Over returns a channel that is closed once the member no longer leads.
func (t *Term) Over() <-chan struct{} { return t.over }

func (t *Term) end() { t.once.Do(func() { close(t.over) }) }

// Keep renews the term until ctx ends or the term is over. It keeps trying while the database is
// away: nobody can take the lead then, and nothing can be saved. Whether the term is over turns out
// when the database is back.
func (t *Term) Keep(ctx context.Context) {
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.over:
			return
		case <-time.After(beat):
		}
		err := t.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, journal.ErrDeposed):
			t.member.log.Error("this daemon leads no more: its term is over", "epoch", t.term.Epoch)
			t.end()
			return
		case err != nil && !failed:
			t.member.log.Warn("the term could not be renewed; it is tried again", "epoch", t.term.Epoch, "error", err)
		}
		failed = err != nil
	}
}

func (t *Term) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	return t.member.database.Renew(ctx, t.term)
}

// Resign ends the term, so that another member can lead at once.
func (t *Term) Resign(ctx context.Context) error {
	t.end()
	ctx, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	return t.member.database.Resign(ctx, t.term)
}
