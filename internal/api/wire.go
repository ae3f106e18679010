package api

import (
	"cmp"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// TaskRef names a task.
type TaskRef struct {
	ID       task.ID     `json:"id"`
	Title    string      `json:"title"`
	URL      string      `json:"url,omitempty"`
	Status   task.Status `json:"status"`
	Priority string      `json:"priority" doc:"critical, high, medium, low or none"`
	Note     string      `json:"note,omitempty" doc:"What the task's page says in its note"`
	DoneWhen string      `json:"done_when,omitempty" doc:"When the task is done, in the words of the board's column that tasks.properties.done_when names; data that others wrote"`
	Key      string      `json:"key,omitempty" doc:"What people call the task, such as T-3: its unique id in Notion"`
	Fields   task.Fields `json:"fields,omitempty" doc:"The properties that tasks.fields names: a number, true or false, a text, a list, a date or its start and end, null if empty; data that others wrote"`

	Attempts []Attempt `json:"attempts,omitempty" doc:"What became of the earlier claims on it, the newest first, at most ten, in claims and a single task"`

	StatusName   string `json:"status_name,omitempty" doc:"What the board calls the status; absent if it is called the same"`
	PriorityName string `json:"priority_name,omitempty" doc:"What the board calls the priority; absent if it is called the same"`
}

// Attempt is what became of an earlier claim on a task.
type Attempt struct {
	Agent   string        `json:"agent"`
	At      Time          `json:"at"`
	Outcome claim.Outcome `json:"outcome" enum:"completed,failed,blocked,released,lost,stale,swept"`
	Text    string        `json:"text,omitempty" doc:"The summary, or why it ended; data that others wrote"`
}

// NewTaskRef returns the TaskRef of t. words are the board's.
func NewTaskRef(t task.Task, words *task.Words) TaskRef {
	ref := TaskRef{ID: t.ID, Key: t.Key, Title: t.Title, URL: t.URL, Note: t.Note, DoneWhen: t.DoneWhen, Status: t.Status, Priority: t.Priority.String(), Fields: t.Fields}
	if name := words.StatusOf(t); name != string(t.Status) {
		ref.StatusName = name
	}
	if name := words.PriorityOf(t); name != ref.Priority {
		ref.PriorityName = name
	}
	return ref
}

// StatusWord returns the status in the board's words, for people.
func (t TaskRef) StatusWord() string { return cmp.Or(t.StatusName, string(t.Status)) }

// PriorityWord returns the priority in the board's words, for people.
func (t TaskRef) PriorityWord() string { return cmp.Or(t.PriorityName, t.Priority) }

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

// Task is a task from the daemon's mirror.
type Task struct {
	TaskRef
	Ready      bool      `json:"ready" doc:"A claim could get it now: of the agent that was asked about, or of any, if none was"`
	ClaimedAt  Time      `json:"claimed_at,omitzero"`
	AssignedTo string    `json:"assigned_to,omitempty" doc:"Who has it without a claim: people, or the only agent that may claim it"`
	ClaimID    claim.ID  `json:"claim_id,omitempty" doc:"The claim, if it is held through this daemon"`
	Progress   string    `json:"progress,omitempty" doc:"What the agent of that claim last said of the work, in one line; data"`
	Offer      *Offer    `json:"offer,omitempty" doc:"The task is offered to assigned_to, who has yet to answer"`
	DependsOn  []task.ID `json:"depends_on,omitempty"`
	SubItems   []task.ID `json:"sub_items,omitempty" doc:"Its parts, which come first"`
	WaitsFor   []task.ID `json:"waits_for,omitempty" doc:"The tasks of depends_on that are not COMPLETED, and those of sub_items that are not finished"`
	WaitingFor []Waited  `json:"waiting_for,omitempty" doc:"The same, with what is known of them"`
	Code       string    `json:"code,omitempty" doc:"Why a claim could not get it now, as a denial has it, or filtered: it is not what was asked for; absent if it could"`
	Reason     string    `json:"reason,omitempty" doc:"The same in one line"`
	Stuck      bool      `json:"stuck,omitempty" doc:"It can never become ready, unless a person changes what it waits for: the reason says what"`
	Unblocks   int       `json:"unblocks,omitempty" doc:"How many unfinished tasks wait for it, directly or not, up to 25: of one priority, the task that unblocks most comes first, then the oldest"`
	CreatedAt  Time      `json:"created_at,omitzero"`
	EditedAt   Time      `json:"edited_at,omitzero"`
	Trashed    bool      `json:"trashed,omitempty"`
	Agent      string    `json:"agent,omitempty" doc:"The name in claimed_by"`
	ExpiresAt  Time      `json:"expires_at,omitzero" doc:"When the holder's lease ends; absent where the name has no time"`
	Usage      *Usage    `json:"usage,omitempty" doc:"What was used for it in all claims that are on record; only of one task that is asked for, and absent if nothing was reported"`
}

// Waited is a task that another one waits for.
type Waited struct {
	TaskRef
	Agent string `json:"agent,omitempty" doc:"Who has it"`
}

// Tasks lists tasks.
type Tasks struct {
	Tasks        []Task `json:"tasks" nullable:"false"`
	Total        int    `json:"total,omitempty" doc:"How many there are, whatever the limit"`
	LimitReached bool   `json:"limit_reached,omitempty" doc:"None is ready for the agent because it holds as many tasks as it may"`
	Age
}

// Age is the age of the daemon's mirror.
type Age struct {
	SyncedAt   Time    `json:"synced_at,omitzero" doc:"When the copy last agreed with Notion; absent if it never did"`
	AgeSeconds float64 `json:"age_seconds,omitempty" doc:"How long ago that was"`
	Stale      bool    `json:"stale,omitempty" doc:"It could not be read again when it should have been, or the board is being read for the first time"`
}

// NewAge returns the age of a mirror that last agreed with Notion at synced, zero for never, which
// was old ago.
func NewAge(synced time.Time, old time.Duration, stale bool) Age {
	return Age{SyncedAt: Time{Time: synced}, AgeSeconds: old.Round(time.Millisecond).Seconds(), Stale: stale}
}

// Sync answers a request to sync.
type Sync struct {
	Full    bool `json:"full" doc:"The whole board was read"`
	Read    int  `json:"read" doc:"How many tasks Notion listed"`
	Changed int  `json:"changed" doc:"How many of them were new or different"`
	Gone    int  `json:"gone" doc:"How many tasks are no longer in the database: trashed, archived, moved or not shared"`
	Tasks   int  `json:"tasks" doc:"How many tasks the copy has now"`
	Age
}

// Swept is a task whose stale claim a sweep took off: it is OPEN again, or BLOCKED.
type Swept struct {
	Task  task.ID `json:"task"`
	Title string  `json:"title"`
	Agent string  `json:"agent,omitempty" doc:"Who had the stale claim"`

	Blocked bool `json:"blocked,omitempty" doc:"The task is BLOCKED, because it was tried as often as claim.max_attempts allows"`
}

// Sweep answers a request to sweep.
type Sweep struct {
	Swept []Swept   `json:"swept" nullable:"false"`
	Told  []TaskRef `json:"told,omitempty" doc:"Tasks that can never become ready, and whose cards say why from now on"`
}
