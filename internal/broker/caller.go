package broker

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
	"dibs/internal/reserve"
	"dibs/internal/task"

	"github.com/oklog/ulid/v2"
)

// Agent is a name that may be used, and the users who may use it.
type Agent struct {
	// Name is a name, or, if it ends in *, a pattern for all names with that beginning.
	Name string
	// UIDs are the users who may go by the name; none means any.
	UIDs []int
	// Limit is how many tasks the agent may hold at a time, 0 for any number; nil means the
	// policy's limit.
	Limit *int
}

// entry finds the entry for a name: the name itself, or else the longest pattern that covers it. It
// returns false if there is none.
func entry(agents []Agent, name string) (Agent, bool) {
	var covering []Agent
	for _, a := range agents {
		switch {
		case a.Name == name:
			return a, true
		case task.IsAgentPattern(a.Name) && task.MatchAgent(a.Name, name):
			covering = append(covering, a)
		}
	}
	if len(covering) == 0 {
		return Agent{}, false
	}
	return slices.MaxFunc(covering, func(a, b Agent) int { return cmp.Compare(len(a.Name), len(b.Name)) }), true
}

// Caller is who makes a request, as its door knows it.
type Caller struct {
	UID    int    // of the user at the member's machine; -1 if unknown
	Member string // at which the request came in; empty for this one
	// User is what the user signs with, see task.UserSignature, and Own is set for the daemon's user
	// and root.
	User string
	Own  bool
	// Access is what the access token of a caller from another machine allows; nil for a user of this
	// one. UID is then the token's, see access.Pass.
	Access *api.Access
	// Key is the request's idempotency key, of that user; empty for none. A request that comes again
	// under its key does nothing twice.
	Key string
	// Process is the process of the caller's that the request names; zero for none.
	Process keepers.Process
	// Quota bounds what the user may have stored; nil for no bound.
	Quota Quota
}

// Quota bounds what a user may have stored. An error refuses the request.
type Quota interface {
	// Charge counts one request.
	Charge() error
	// ChargeCopies counts the copies of a text for that many agents, beyond one request.
	ChargeCopies(agents int, text string) error
}

// signs returns the user for the record of what is done in no agent's name; empty if there is an
// agent.
func (c Caller) signs(agent string) string {
	if agent != "" {
		return ""
	}
	return c.User
}

// owner returns a *ForbiddenError unless the caller is the daemon's user or root. what is what only
// they may do.
func (c Caller) owner(what string) error {
	if c.Own {
		return nil
	}
	return &ForbiddenError{Detail: "only the daemon's user, and root, " + what}
}

// keeper reads the process that is to keep a claim alive.
func (c Caller) keeper(k api.Keeper) (keepers.Keeper, error) {
	return keepers.Keeper{Process: c.Process, Grace: seconds(k.GraceSeconds)}, k.Check()
}

// factID is the id of the fact that the request makes at some time. With a key it is the same one
// however often the request comes that says what, also after a crash.
func (c Caller) factID(at time.Time, what ...string) string {
	if c.Key == "" {
		return claim.NewFactID(at)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s", c.UID, c.Key, strings.Join(what, "\x00")))
	var id ulid.ULID // of no time
	copy(id[6:], sum[:])
	return id.String()
}

// request asks for a claim.
type request struct {
	Caller
	agent string
	// task is the task wanted; empty means the first ready one.
	task task.ID
	// except excludes ready tasks; a named task is not excluded.
	except []task.ID
	// timeout is how long to keep the claim without hearing from the agent; zero means as long as
	// the lease.
	timeout time.Duration
	// wait is how long to wait for a task before a denial.
	wait time.Duration
	// keeper keeps the claim alive, if it has a process.
	keeper keepers.Keeper
	// at is where the agent works.
	at workplace
	// note is for the record, if the claim is granted.
	note string
}

// ref names a claim: by its id, by its task's id, or, if claim is empty, as the only claim that
// agent holds.
type ref struct {
	claim string
	// agent, if not empty, must be the claim's agent.
	agent string
}

// refTo reads the name of a claim in a request, see api.Parts.
func refTo(id, agent string) ref {
	if id == api.OnlyClaim {
		id = ""
	}
	return ref{id, agent}
}

// orZero returns the optional body of a request.
func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// seconds reads a number of seconds in a request.
func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// ErrNoTask: the mirror has no task of that id.
var ErrNoTask = errors.New("the daemon knows no such task")

// ErrNoName is the error for a session that has no name.
var ErrNoName = errors.New("this session has no name yet: it gets one when it first asks with --agent auto")

// ErrStopping: the daemon is stopping, so waiting ends.
var ErrStopping = errors.New("the daemon is stopping")

// AmbiguousError says that an agent was to have one claim, but has none or several.
type AmbiguousError struct {
	Agent  string
	Claims []claim.Hold
}

func (e *AmbiguousError) Error() string {
	if len(e.Claims) == 0 {
		return fmt.Sprintf("%s holds no claim", e.Agent)
	}
	return fmt.Sprintf("%s holds %d tasks, say which one: %s", e.Agent, len(e.Claims), claim.TasksOf(e.Claims))
}

// InvalidError says what is wrong with a request, and why.
type InvalidError struct{ Detail string }

func (e *InvalidError) Error() string { return e.Detail }

// ForbiddenError says that a caller may not use an agent's name, or, if Agent is empty, that only
// the daemon's user and root may do this.
type ForbiddenError struct {
	Agent  string
	Detail string
}

func (e *ForbiddenError) Error() string { return e.Detail }

// workplace is where an agent works: in a repository, see claim.Hold, on the machine of a member.
type workplace struct{ repository, member string }

// placeOf checks the repository of a request. On another machine, a path says nothing here.
func (c Caller) placeOf(part, repository string) (workplace, error) {
	if err := reserve.CheckRepository(repository); err != nil {
		return workplace{}, api.Invalid(part, err)
	}
	if c.Access != nil && !reserve.HasOrigin(repository) {
		repository = ""
	}
	return workplace{repository, c.Member}, nil
}
