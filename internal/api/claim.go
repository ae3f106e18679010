package api

import (
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Claim is an agent's hold on a task.
type Claim struct {
	ID        claim.ID    `json:"id"`
	Task      TaskRef     `json:"task"`
	Agent     string      `json:"agent"`
	State     claim.State `json:"state" doc:"held, or finishing while what the agent said at the end is owed to Notion, or ended; reserved, writing, abandoned, unseen, voided and clearing are attempts that nobody was granted"`
	ClaimedAt Time        `json:"claimed_at,omitzero" doc:"When the lease began: at the claim or at its last renewal"`
	ExpiresAt Time        `json:"expires_at,omitzero" doc:"Until when the agent may rely on the claim"`
	KeptUntil Time        `json:"kept_until,omitzero" doc:"Until when the daemon renews the claim without hearing from the agent, and then gives it back; absent if nothing was asked for"`

	Fence    int64  `json:"fence,omitempty" doc:"A number that is greater than that of every earlier claim of the task, for whoever guards something with it"`
	Override bool   `json:"override,omitempty" doc:"The claim took the task over from a stale one"`
	Former   string `json:"former,omitempty" doc:"Who had the stale claim"`
	// Withdrawing says that nobody was granted it, and that it may still be on its page.
	Withdrawing bool `json:"-"`
	// Unheard says that the daemon gave it back, because its caller went away before the answer.
	Unheard bool `json:"-"`

	Progress string `json:"progress,omitempty" doc:"What the agent last said of the work, in one line; data"`

	Outcome  claim.Ending `json:"outcome,omitempty" doc:"How the claim ended, or is ending"`
	EndedAt  Time         `json:"ended_at,omitzero"`
	Summary  string       `json:"summary,omitempty" doc:"What the agent said at the end"`
	Evidence []string     `json:"evidence,omitempty" doc:"What the agent said shows it"`
	Detail   string       `json:"detail,omitempty" doc:"Why the claim ended, or why Notion could not be told of its end yet, where that needs saying"`

	Usage *Usage `json:"usage,omitempty" doc:"What the agent used for it so far, as it reported; absent if it reported nothing"`

	Event *Event `json:"event,omitempty" doc:"What happened to the claim, in an answer that was waited for"`
	Owed
}

// Owed says that a change is still owed to Notion, so that its outcome is uncertain.
type Owed struct {
	Pending bool   `json:"pending,omitempty" doc:"It was accepted, and Notion has yet to be told; it is checked then, and may come to nothing"`
	Unknown string `json:"unknown,omitempty" doc:"What is not known of something that is pending, and on what it depends"`
}

// Claims lists claims.
type Claims struct {
	Claims []Claim `json:"claims" nullable:"false" doc:"Those that are held through this daemon"`
}

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
	Repository string   `json:"repository,omitempty" fit:"exact" maxLength:"4096" doc:"The repository that the work is in, for tasks that name what they touch: origin: and where it was cloned from, such as origin:github.com/acme/api, or else the absolute path of its common git directory"`
	Except     []string `json:"except,omitempty" maxItems:"1000" doc:"Ids of tasks that will not do, without task"`
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

// StopRequest gives a task back, or takes it back from its agent.
type StopRequest struct {
	Agent  string `json:"agent,omitempty" is:"owner" doc:"Whose claim it must be"`
	By     string `json:"by,omitempty" is:"signer" doc:"Who takes the task back, if not the agent: the agent is told that it lost the claim, by whom and why, and is not offered the task for an hour"`
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

// AskRequest asks people a question: in a comment, and the task is blocked until they answer.
type AskRequest struct {
	Agent string `json:"agent,omitempty" is:"owner" doc:"Whose claim it must be"`
	Text  string `json:"text" fit:"exact" minLength:"1" doc:"The question"`
	To    string `json:"to,omitempty" doc:"Whom the comment mentions: a Notion user by name, e-mail address or id"`
	Used
}

// ClaimContent is a claim with the page of its task.
type ClaimContent struct {
	Claim
	Task TaskPage `json:"task"`
}

// TaskPage is the task of a claim, with its page.
type TaskPage struct {
	TaskRef
	// Fields are the task's, {} where it has none.
	Fields task.Fields `json:"fields" doc:"The properties that tasks.fields names, as in a task"`
	Page
}

// With returns the claim with the page of its task.
func (c Claim) With(p Page) ClaimContent {
	return ClaimContent{Claim: c, Task: TaskPage{TaskRef: c.Task, Fields: orNone(c.Task.Fields), Page: p}}
}
