package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os/user"
	"strconv"
	"sync"
	"time"

	"dibs/internal/api/server"
	"dibs/internal/arbiter"
	"dibs/internal/claim"
)

const (
	// repeatWait is for how long a request waits for the answer that another member is about
	// to give.
	repeatWait = 10 * time.Second
	// maxPassedOn is how long an answer may be that the others are told, in bytes.
	maxPassedOn = 64 << 10
)

// repeats are the requests with idempotency keys, as the members of a cluster share them:
// what is begun at one is not done at another, and answered there as here.
//
// A key belongs to the agent in whose name a request is made, since users have other numbers
// on other machines; where there is none, to a user by name. What is said in etcd follows
// what is in this member's journal, which it goes by itself: what could not be said is said
// later, also by the next run.
type repeats struct {
	member  *member
	run     string
	log     *slog.Logger
	resolve func(ctx context.Context, uid int, key string) (*server.Answer, error)

	mu   sync.Mutex
	open map[flight]arbiter.RequestName // that are being worked on
	owed map[arbiter.RequestName]owed
	// looked is set once what an earlier run has begun is among what is owed.
	looked bool
}

// flight is a request as this member knows it.
type flight struct {
	uid int
	key string
}

// owed is what the others are to be told of a request: its answer, or else that it can be
// made anew, or with left what becomes of it.
type owed struct {
	flight
	fingerprint string
	answer      *server.Answer
	left        bool
	// own is set if only this member can have done it, whoever was asked as well.
	own bool
}

var _ server.Elsewhere = (*repeats)(nil)

func newRepeats(m *member, log *slog.Logger, resolve func(context.Context, int, string) (*server.Answer, error)) *repeats {
	return &repeats{
		member: m, run: rand.Text(), log: log, resolve: resolve,
		open: make(map[flight]arbiter.RequestName), owed: make(map[arbiter.RequestName]owed),
	}
}

// elsewhere is what the other members know of requests; nil without a cluster.
func (d *works) elsewhere() server.Elsewhere {
	if d.member == nil {
		return nil
	}
	return d.member.repeats
}

func nameOf(q server.SharedRequest) arbiter.RequestName {
	if q.Agent != "" {
		return arbiter.RequestName{Owner: arbiter.OfAgent(q.Agent), Key: q.Key}
	}
	name := "#" + strconv.Itoa(q.UID)
	if u, err := user.LookupId(strconv.Itoa(q.UID)); err == nil {
		name = u.Username
	}
	return arbiter.RequestName{Owner: "user " + name, Key: q.Key}
}

func flightOf(q server.SharedRequest) flight { return flight{q.UID, q.Key} }

// Begin implements server.Elsewhere.
func (r *repeats) Begin(ctx context.Context, q server.SharedRequest) (*server.Answer, error) {
	n := nameOf(q)
	if !r.enter(flightOf(q), n) {
		return nil, &server.BusyError{Member: r.member.name}
	}
	answer, err := r.begin(ctx, n, q)
	if answer != nil || err != nil {
		r.leave(flightOf(q))
	}
	if failed, ok := errors.AsType[*claim.ArbiterError](err); ok {
		r.mu.Lock()
		r.owed[n] = owed{flight: flightOf(q), fingerprint: q.Fingerprint} // it may have been put
		r.mu.Unlock()
		switch q.Repeating {
		case server.Claiming, server.Own, server.Again:
			// Whoever decides about the claim knows the key; nobody else can do anything with a
			// claim of this member's; or no harm comes of it.
			r.enter(flightOf(q), n)
			return nil, nil
		}
		return nil, &claim.ArbiterError{RetryAfter: failed.RetryAfter, Err: fmt.Errorf("it cannot be known whether this request, by its idempotency key, was made at another member of the cluster: %w", failed.Err)}
	}
	return answer, err
}

// enter notes that a request is being worked on, unless the same one of another user is.
func (r *repeats) enter(f flight, n arbiter.RequestName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other, m := range r.open {
		if m == n && other != f {
			return false
		}
	}
	r.open[f] = n
	return true
}

func (r *repeats) leave(f flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, f)
}

// begin begins a request in the cluster, after waiting for the answer of another member that
// works on it.
func (r *repeats) begin(ctx context.Context, n arbiter.RequestName, q server.SharedRequest) (*server.Answer, error) {
	waiting, cancel := context.WithTimeout(ctx, repeatWait)
	defer cancel()
	for {
		var answer *server.Answer
		var since int64
		err := r.member.ledger.Ask(ctx, func(ctx context.Context) (err error) {
			answer, since, err = r.beginOnce(ctx, n, q)
			return err
		})
		busy, _ := errors.AsType[*server.BusyError](err)
		if busy == nil || busy.Gone || since == 0 || r.member.AwaitRequest(waiting, n, since) != nil {
			return answer, err
		}
	}
}

// beginOnce begins a request in the cluster, if it is this member's to work on. since is as of
// which revision that is not so, if the error is a *server.BusyError.
func (r *repeats) beginOnce(ctx context.Context, n arbiter.RequestName, q server.SharedRequest) (answer *server.Answer, since int64, err error) {
	mine := arbiter.Request{
		Member: r.member.Member(), Name: r.member.name, Run: r.run, UID: q.UID,
		Fingerprint: q.Fingerprint, Stays: q.Repeating == server.Never,
	}
	var at int64
	var gone string
	for {
		put, now, err := r.member.PutRequest(ctx, n, mine, at, gone)
		switch {
		case err != nil || put:
			return nil, 0, err
		case now == nil: // it was forgotten meanwhile
			at, gone, mine.Note = 0, "", ""
			continue
		case now.Fingerprint != "" && now.Fingerprint != q.Fingerprint:
			return nil, 0, server.ErrKeyReused
		case now.Status != 0 && now.Body == "":
			return nil, 0, &claim.Denied{Code: claim.CodeHeld, Holder: q.Agent, Repeated: true, Detail: fmt.Sprintf("this request, by its idempotency key, was answered at member %s of the cluster, at a length that is not passed on: ask there", now.Name)}
		case now.Status != 0:
			return &server.Answer{Status: now.Status, Body: []byte(now.Body)}, 0, nil
		case !r.mayTake(*now, q):
			return nil, now.Revision, &server.BusyError{Member: now.Name, Gone: now.Gone}
		}
		at, gone, mine.Note = now.Revision, "", now.Note
		if now.Gone && now.Member != "" {
			gone = now.Member
		}
	}
}

// mayTake reports whether this member may go on with a request that another one, or an
// earlier run of this one, has begun.
func (r *repeats) mayTake(now arbiter.Remembered, q server.SharedRequest) bool {
	switch {
	case now.Member == "":
		return true
	case now.Member == r.member.Member():
		return now.UID == q.UID // the journal knows of nothing that came of it
	case !now.Gone:
		return false
	}
	switch q.Repeating {
	case server.Claiming:
		return now.Claim == ""
	case server.Making, server.Again:
		return true
	}
	return false
}

// Answer implements server.Elsewhere.
func (r *repeats) Answer(ctx context.Context, q server.SharedRequest, a server.Answer) {
	r.settle(ctx, q, owed{answer: &a})
}

// Drop implements server.Elsewhere.
func (r *repeats) Drop(ctx context.Context, q server.SharedRequest) { r.settle(ctx, q, owed{}) }

// Leave implements server.Elsewhere.
func (r *repeats) Leave(_ context.Context, q server.SharedRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, flightOf(q))
	r.owed[nameOf(q)] = owed{flight: flightOf(q), fingerprint: q.Fingerprint, left: true}
}

// note is what the cluster remembers that was done for a request; working is false if this
// member does not work on it in the cluster.
func (r *repeats) note(uid int, key string) (note string, working bool) {
	r.mu.Lock()
	n, open := r.open[flight{uid, key}]
	r.mu.Unlock()
	if !open {
		return "", false
	}
	now, working := r.member.Working(n)
	return now.Note, working
}

// keep has the cluster remember something of a request that this member works on. The error
// is a *claim.ArbiterError if it cannot, or does no longer.
func (r *repeats) keep(ctx context.Context, uid int, key, note string) error {
	r.mu.Lock()
	n, open := r.open[flight{uid, key}]
	r.mu.Unlock()
	if !open {
		return nil
	}
	return r.member.ledger.Ask(ctx, func(ctx context.Context) error {
		now, working := r.member.Working(n)
		put := false
		if working {
			next := now.Request
			next.Note = note
			var err error
			if put, _, err = r.member.PutRequest(ctx, n, next, now.Revision, ""); err != nil {
				return err
			}
		}
		if !put {
			return &claim.ArbiterError{RetryAfter: retrySoon, Err: errors.New("another member of the cluster goes on with this request, since this one seemed to be gone: ask again with the same key")}
		}
		return nil
	})
}

// retrySoon is when to ask again for what another member goes on with.
const retrySoon = 5 * time.Second

// forget has the cluster forget what was noted of a creation that came to nothing.
func (r *repeats) forget(ctx context.Context, creation string) {
	r.mu.Lock()
	var of []flight
	for f := range r.open {
		of = append(of, f)
	}
	r.mu.Unlock()
	for _, f := range of {
		if note, working := r.note(f.uid, f.key); working && isNoted(note, creation) {
			if err := r.keep(ctx, f.uid, f.key, ""); err != nil {
				r.log.Debug("the cluster goes on to remember a task that was not made", "error", err)
			}
		}
	}
}
