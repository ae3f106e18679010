package relay

import (
	"context"
	"crypto/rand"
	"hash/maphash"
	"iter"
	"log/slog"
	"sync"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/mirror"
	"dibs/internal/task"
)

// Mirror is the local copy of the board.
type Mirror interface {
	Tasks() iter.Seq[task.Task]
	Task(id task.ID) (task.Task, bool)
	Standing() mirror.Standing
	Listed() bool
	RunOnce(ctx context.Context) (mirror.Result, error)
	Take(ctx context.Context, b mirror.Batch) (mirror.Result, error)
	Rewind(to time.Time)
	Hasten()
	Fail(why error)
}

// Config is what a Relay is made of. All but Most and Log is required.
type Config struct {
	Mirror Mirror
	Wire   arbiter.Wire
	// Term is the number of the term in which this member leads; 0 if it does not lead now.
	Term func() int64
	// Settings tells daemons that read tasks alike from others.
	Settings func() string
	// Schema is the schema of the tasks database as it is known here, in short, and whether
	// it is such that no task can be claimed. Check reads it, with one request.
	Schema func() (known string, broken bool)
	Check  func(ctx context.Context) error
	// Now is Notion's time.
	Now func() time.Time
	// Most is how many bytes a publication has at most; arbiter.MaxPublication if zero.
	Most int
	Log  *slog.Logger
}

// Relay passes on what is read here while this member leads, and has the mirror take over
// what is read elsewhere while another one does. It is safe for concurrent use.
type Relay struct {
	Config
	run  string
	seed maphash.Seed
	news chan struct{} // wakes who applies
	term chan struct{} // wakes who begins a term

	publishing sync.Mutex // guards what follows, which is of one term
	ready      int64      // the number of that term; 0 before it can be published
	first      bool       // nothing was published yet
	from       time.Time  // until then everybody knows everything; zero if that is not known
	at         time.Time  // of the last publication
	told       map[task.ID]mark
	recent     map[task.ID]bool // of those, what is to be told again
	gone       map[task.ID]mark // what was told to be gone, and is to be told again
	owed       owed
	failing    bool // which was published

	mu       sync.Mutex
	position int64 // up to which all was received; 0 if that is not known
	queue    []item
	apart    bool      // what is published is not for this daemon
	deaf     time.Time // since when nothing can be received, by this machine's clock; zero if it can
	leads    int64     // ready, for Follows
}

// mark is what was published of a task last.
type mark struct {
	sum    uint64
	at     time.Time // when that was published first
	repeat int       // how often again
}

// item is something to be applied.
type item struct {
	publication
	// since is from when on it is late, by Notion's time: when it was read, or, if it does not
	// say, when it was received.
	since time.Time
	// lost says that something is missing before it; there is nothing else to it then.
	lost bool
}

// New returns a relay. Begin is to be called before the mirror makes its first sync.
func New(c Config) *Relay {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Most == 0 {
		c.Most = arbiter.MaxPublication
	}
	return &Relay{Config: c, run: rand.Text(), seed: maphash.MakeSeed(), news: make(chan struct{}, 1), term: make(chan struct{}, 1)}
}

// Begin notes from where on what is passed on is news to a mirror that makes its first sync
// after that. If it fails, the mirror asks Notion once more, later.
func (r *Relay) Begin(ctx context.Context) error {
	at, _, err := r.Wire.Newest(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.position = at
	return nil
}

// Run passes on and takes over until ctx ends.
func (r *Relay) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { r.receive(ctx) })
	all.Go(func() { r.applyAll(ctx) })
	all.Go(func() { r.begin(ctx) })
	all.Wait()
}

// Follows reports whether this daemon need not read the board itself now.
func (r *Relay) Follows() bool {
	term := r.Term()
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.apart && (term == 0 || term != r.leads)
}

// Apart reports whether this daemon reads for itself although another one leads: what that
// one passes on is by other settings, or of another version.
func (r *Relay) Apart() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.apart
}

// Lag is how many publications were received here and not applied yet, and how old the
// oldest of them is; or for how long none could be received.
func (r *Relay) Lag() (behind int, age time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.deaf.IsZero() {
		age = time.Since(r.deaf)
	}
	for _, i := range r.queue {
		if i.lost {
			continue
		}
		if behind++; behind == 1 {
			age = max(age, r.Now().Sub(i.since))
		}
	}
	return behind, max(0, age)
}

// wake makes a loop go round once more.
func wake(loop chan<- struct{}) {
	select {
	case loop <- struct{}{}:
	default:
	}
}

// await waits until it is woken or the time is over, and reports whether ctx is still going.
func await(ctx context.Context, woken <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-woken:
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
