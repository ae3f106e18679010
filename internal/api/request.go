package api

import (
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"dibs/internal/task"
)

// OnlyClaim stands in an address for the only claim that the agent holds.
const OnlyClaim = "mine"

// MaxWait is how long a request for a claim may wait.
const MaxWait = time.Hour

// ClaimRequest asks for a claim.
type ClaimRequest struct {
	Agent          string  `json:"agent" is:"actor" minLength:"1" doc:"Who claims"`
	Task           string  `json:"task,omitempty" is:"task" doc:"The task's id or URL; without it, the first ready task"`
	TimeoutMinutes int     `json:"timeout_minutes,omitempty" minimum:"1" maximum:"525600" doc:"For how long the claim is kept without hearing from the agent; without it, as long as the lease"`
	WaitSeconds    float64 `json:"wait_seconds,omitempty" minimum:"0" maximum:"3600" doc:"How long to wait for the task, or for a ready one"`
	Filter
	Except []string `json:"except,omitempty" maxItems:"1000" doc:"Ids of tasks that will not do, without task"`
	Keeper
}

// Keeper is a process of this machine that keeps a claim alive while it lives, up to
// claim.max_lifetime.
type Keeper struct {
	PID          int     `json:"pid,omitempty" is:"process" minimum:"1" doc:"A process of the caller's on this machine: while it lives, the claim is renewed, and once it is gone, given back"`
	GraceSeconds float64 `json:"grace_seconds,omitempty" minimum:"0" maximum:"3600" doc:"How long the claim is kept after that, for another process to take over"`
}

// RenewRequest asks for a fresh lease.
type RenewRequest struct {
	Agent    string `json:"agent,omitempty" is:"owner" doc:"Whose claim it must be"`
	Progress string `json:"progress,omitempty" fit:"exact" doc:"How far the work is, in one line: the first 300 characters are shown with the claim. Notion is not told"`
	Orphaned bool   `json:"orphaned,omitempty" doc:"With pid: only if whatever kept the claim alive is gone; else nothing is done"`
	Keeper
	Used
}

// SyncRequest asks to bring the daemon's mirror up to date.
type SyncRequest struct {
	Full bool `json:"full,omitempty" doc:"Read the whole board, not only what was edited"`
}

// CompleteRequest says that the work is done.
type CompleteRequest struct {
	Agent   string `json:"agent,omitempty" is:"owner" doc:"Whose claim it must be"`
	Summary string `json:"summary,omitempty" fit:"exact" doc:"What was done"`
	Used

	Evidence []string `json:"evidence,omitempty" fit:"exact" maxItems:"20" doc:"What shows it, a line each: a commit, a pull request, a command and how it ended"`
}

// ReviewRequest says that the work is done, for a person to decide.
type ReviewRequest struct {
	Agent   string `json:"agent,omitempty" is:"owner" doc:"Whose claim it must be"`
	Note    string `json:"note,omitempty" fit:"exact" doc:"What was done, and what is to be decided"`
	Mention string `json:"mention,omitempty" doc:"Whom the comment with the note mentions: a Notion user by name, e-mail address or id; only with notion.comments"`
	Used
}

// ReopenRequest gives a task that no agent has another status.
type ReopenRequest struct {
	Agent  string `json:"agent,omitempty" is:"actor" doc:"Which agent asks: it can only open the task; without one, the note is signed with the caller's user"`
	Note   string `json:"note,omitempty" fit:"exact" doc:"Why"`
	Was    string `json:"was,omitempty" maxLength:"200" doc:"The status that was seen, in dibs's words or the board's: a task in any other is left alone. Without it, only one that is BLOCKED, FAILED or in REVIEW is opened"`
	Holder string `json:"holder,omitempty" maxLength:"2000" doc:"The name that was seen on the task: under any other, it is left alone. Without it, the name of the last claim, which a finished task keeps, counts as seen"`
	Status string `json:"status,omitempty" maxLength:"200" doc:"The status that it gets: OPEN, which is the default, or, with was and without agent, BLOCKED, COMPLETED or CANCELLED; in dibs's words or the board's"`
}

// ReopenFailedRequest opens what an agent failed, and what nobody touched since.
type ReopenFailedRequest struct {
	Agent    string   `json:"agent,omitempty" is:"actor" doc:"Which agent asks; without one, the notes are signed with the caller's user"`
	FailedBy []string `json:"failed_by" minItems:"1" maxItems:"100" nullable:"false" doc:"The agents that failed them, or patterns for names, such as agent-*; one may be given as a text"`
	Since    Time     `json:"since,omitzero" doc:"Only what was failed since then"`
	DryRun   bool     `json:"dry_run,omitempty" doc:"Only say which tasks these are"`
	Note     string   `json:"note,omitempty" fit:"exact" doc:"Why"`
}

// ReopenedTasks answers a ReopenFailedRequest.
type ReopenedTasks struct {
	Reopened []TaskRef `json:"reopened" nullable:"false" doc:"The tasks that were opened, or would be"`
	Left     []TaskRef `json:"left,omitempty" nullable:"false" doc:"Those that were left alone, as somebody edited or commented on them since"`
}

// SweepRequest asks to reopen the tasks with a stale claim.
type SweepRequest struct {
	Note string `json:"note,omitempty" fit:"exact" doc:"Why, or who asks, for the record"`
}

// Reopened answers a ReopenRequest.
type Reopened struct {
	Task TaskRef     `json:"task"`
	Was  task.Status `json:"was" doc:"The status that it had; the new one if there was nothing to be done"`

	WasName string `json:"was_name,omitempty" doc:"What the board calls that; absent if it is called the same"`
}

// StopRequest gives a task back, or takes it back from its agent.
type StopRequest struct {
	Agent  string `json:"agent,omitempty" is:"owner" doc:"Whose claim it must be"`
	By     string `json:"by,omitempty" doc:"Who takes the task back, if not the agent: the agent is told that it lost the claim, by whom and why, and is not offered the task for an hour"`
	Reason string `json:"reason,omitempty" fit:"exact" doc:"Why"`
	// Unheard is as in a claim.Finish.
	Unheard bool `json:"unheard,omitempty" doc:"The agent never heard that it was granted: a task that was assigned or offered to it stays so"`
	Used
}

// BlockRequest says that the work cannot go on.
type BlockRequest struct {
	Agent   string `json:"agent,omitempty" is:"owner" doc:"Whose claim it must be"`
	Reason  string `json:"reason,omitempty" fit:"exact" doc:"Why"`
	Mention string `json:"mention,omitempty" doc:"Whom the comment with the reason mentions: a Notion user by name, e-mail address or id; only with notion.comments"`
	Used
}

// FailRequest says that the work was tried and failed.
type FailRequest struct {
	Agent  string `json:"agent,omitempty" is:"owner" doc:"Whose claim it must be"`
	Reason string `json:"reason,omitempty" fit:"exact" doc:"Why"`
	Reopen bool   `json:"reopen,omitempty" doc:"Put the task back to OPEN instead of FAILED or BLOCKED, unless it was tried as often as claim.max_attempts allows"`
	// Mention is as in a BlockRequest.
	Mention string `json:"mention,omitempty" doc:"Whom the comment with the reason mentions: a Notion user by name, e-mail address or id; only with notion.comments"`
	Used
}

// The headers of idempotent requests.
const (
	KeyHeader      = "Idempotency-Key"
	ReplayedHeader = "Idempotency-Replayed" // "true" on a repeated answer
)

// ProcessHeader carries the number of the calling process, as it knows it itself. If the daemon
// sees another number, the process and those that it names are on another machine, or in another
// container.
const ProcessHeader = "Dibs-Process"

const maxKey = 200

// madeKey begins the keys that commands make for a single run.
const madeKey = "once "

// NewKey makes an idempotency key for a command that was given none. It is used in one run only.
func NewKey() string { return madeKey + rand.Text() }

// Outlives reports whether a request may be repeated under that key after its process is gone. It
// may not with a key of NewKey.
func Outlives(key string) bool { return key != "" && !strings.HasPrefix(key, madeKey) }

// ValidateKey returns an error if key cannot be an idempotency key.
func ValidateKey(key string) error {
	notPrintable := func(r rune) bool { return r < ' ' || r > '~' }
	if key == "" || len(key) > maxKey || strings.ContainsFunc(key, notPrintable) {
		return errors.New("an idempotency key is 1 to 200 printable ASCII characters")
	}
	return nil
}
