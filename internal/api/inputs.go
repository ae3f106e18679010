package api

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"dibs/internal/claim"
)

// The inputs of operations, see Op.

// KeyedInput is the input of an operation on no existing thing. An optional body is a pointer.
type KeyedInput[Body any] struct {
	Key  string `header:"Idempotency-Key" doc:"A repeated request with the same key gets the same answer"`
	Body Body
}

// ClaimInput is the input of an operation on a claim.
type ClaimInput[Body any] struct {
	ID   string `path:"id" is:"claim" doc:"A claim id, a task id, or mine: the only claim that agent holds"`
	Key  string `header:"Idempotency-Key" doc:"A repeated request with the same key gets the same answer"`
	Body *Body
}

// AgentFilter selects by agent.
type AgentFilter struct {
	Agent string `query:"agent" doc:"Only this agent's"`
}

// GetClaimInput asks for a claim.
type GetClaimInput struct {
	ID      string `path:"id" is:"claim" doc:"A claim id, a task id, or mine: the only claim that agent holds"`
	Agent   string `query:"agent" is:"owner" doc:"Whose claim it must be"`
	Wait    string `query:"wait" doc:"How long to wait, such as 60s, for the claim to end or for an event about it"`
	After   int64  `query:"after" default:"-1" minimum:"-1" doc:"Only events after the one with this id; -1: only new ones"`
	Patient bool   `query:"patient" doc:"Do not make the daemon ask Notion more often because of this wait"`
}

// KeepAliveInput keeps a claim alive.
type KeepAliveInput struct {
	ID    string `path:"id" is:"claim" doc:"A claim id, a task id, or mine: the only claim that agent holds"`
	Agent string `query:"agent" is:"owner" doc:"Whose claim it must be"`
	Grace string `query:"grace" default:"10s" doc:"How long the claim is kept once the connection is gone, such as 60s, for another one"`
}

// longestGrace limits how long a claim waits for its connection to come back.
const longestGrace = time.Hour

// Kept returns how long the claim is kept once the connection is gone.
func (in *KeepAliveInput) Kept() (time.Duration, error) {
	return timeToWait("query.grace", in.Grace, longestGrace)
}

// Check returns an error unless Grace is a time that the claim can be kept.
func (in *KeepAliveInput) Check() error {
	_, err := in.Kept()
	return err
}

// Check returns an error if it has a grace, but no process that the grace could follow.
func (k *Keeper) Check() error {
	if k.PID == 0 && k.GraceSeconds != 0 {
		return Invalid("body.grace_seconds", errors.New("a grace is for the end of a process: name that in pid"))
	}
	return nil
}

// Check returns an error if it asks to take the claim over, but names no process.
func (r *RenewRequest) Check() error {
	if r.Orphaned && r.PID == 0 {
		return Invalid("body.orphaned", errors.New("who is to take the claim over? name a process in pid"))
	}
	return r.Keeper.Check()
}

// WaitFor returns how long the answer may take.
func (in *GetClaimInput) WaitFor() (time.Duration, error) {
	return timeToWait("query.wait", in.Wait, MaxWait)
}

func timeToWait(location, text string, most time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > most {
		return 0, Invalid(location, fmt.Errorf("%q is not a time to wait: want one such as 60s, at most %v", text, most))
	}
	return d, nil
}

// ListTasksInput selects tasks.
type ListTasksInput struct {
	Status string `query:"status" maxLength:"200" doc:"Only tasks in this status, in dibs's words (OPEN, IN_PROGRESS, BLOCKED, COMPLETED, CANCELLED, REVIEW, FAILED) or the board's"`
	Ready  bool   `query:"ready" doc:"Only those that a claim could get now, in the order they are offered: of any agent, or of that one"`
	Agent  string `query:"agent" doc:"Only those claimed by this name; with ready, those that this agent could get"`
	Limit  int    `query:"limit" minimum:"0" doc:"At most that many; 0 is all"`
	Why    bool   `query:"why" doc:"With ready: behind those, the unfinished tasks that are not ready, each with what it waits for"`

	Priority string   `query:"priority" maxLength:"200" doc:"Only tasks of this priority, in dibs's words (critical, high, medium, low, none) or the board's"`
	Where    []string `query:"where,explode" maxItems:"20" doc:"NAME=VALUE, any number of times: only tasks whose field has this value; of a list, among others"`
	Text     string   `query:"text" maxLength:"1000" doc:"Only tasks whose title has all these words in it, in whatever case"`

	Repository string `query:"repository" maxLength:"4096" doc:"With ready: the repository that the agent works in, as in a claim"`
}

// GetTaskInput names a task.
type GetTaskInput struct {
	ID string `path:"id" is:"task" doc:"The task's id, URL or key, such as T-3"`
}

// TaskInput is the input of an operation on a task.
type TaskInput[Body any] struct {
	ID   string `path:"id" is:"task" doc:"The task's id, URL or key, such as T-3"`
	Key  string `header:"Idempotency-Key" doc:"A repeated request with the same key gets the same answer"`
	Body Body
}

// ReopenInput asks to reopen a task.
type ReopenInput struct {
	ID   string `path:"id" is:"task" doc:"A task, by its id or key"`
	Key  string `header:"Idempotency-Key" doc:"A repeated request with the same key gets the same answer"`
	Body *ReopenRequest
}

// AddInput asks for a new task.
type AddInput struct {
	Key  string `header:"Idempotency-Key" doc:"A repeated request with the same key never makes a second task, and finds out whether the first was made"`
	Body AddRequest
}

// PollInput asks for an agent's triggers.
type PollInput struct {
	Name string `path:"name" is:"actor" doc:"The agent"`
	Key  string `header:"Idempotency-Key" doc:"A repeated poll with the same key gets what it took, but what was acknowledged or taken by another one since"`
	Body *PollRequest
}

// AckInput acknowledges triggers.
type AckInput struct {
	Name string `path:"name" is:"actor" doc:"The agent"`
	Key  string `header:"Idempotency-Key" doc:"A repeated request with the same key gets the same answer"`
	Body AckRequest
}

// MintInput asks for a name.
type MintInput struct {
	Key  string `header:"Idempotency-Key" doc:"A repeated request with the same key gets the same name"`
	Body *MintRequest
}

// GetAgentInput names an agent.
type GetAgentInput struct {
	Name    string `path:"name" doc:"The agent; auto for the one whose name the session has"`
	Session string `query:"session" maxLength:"200" doc:"With auto: what the session was given its name for"`
}

// ListAgentsInput selects agents.
type ListAgentsInput struct {
	Days int `query:"days" minimum:"1" maximum:"30" default:"7" doc:"Only agents seen in that many days"`
}

// ListReservationsInput selects reservations.
type ListReservationsInput struct {
	Agent   string `query:"agent" doc:"Only those of this agent"`
	Targets bool   `query:"targets" doc:"With where each pattern stands, for a caller that compares many files with them"`
}

// UnreserveInput ends a reservation.
type UnreserveInput struct {
	ID    string `path:"id" doc:"The reservation"`
	Agent string `query:"agent" doc:"Whose it must be"`
}

// CheckInput asks whether files are reserved.
type CheckInput struct {
	Body CheckRequest
}

// EventsInput selects events.
type EventsInput struct {
	After       int64  `query:"after" default:"-1" minimum:"-1" doc:"Only events after the one with this id; 0: all that are kept; -1: only new ones"`
	LastEventID string `header:"Last-Event-ID" doc:"Stands before after, for readers that connect again"`
	Agent       string `query:"agent" doc:"Only those that concern this agent"`
	Task        string `query:"task" is:"task" doc:"Only those about this task"`
	Patient     bool   `query:"patient" doc:"Do not make the daemon ask Notion more often because of this reader"`
	Follow      bool   `query:"follow" default:"true" doc:"Go on with events as they come; false: end after those that are there"`
}

// LogInput selects entries of the local record.
type LogInput struct {
	Agent string `query:"agent" doc:"Only this agent's"`
	Task  string `query:"task" is:"task" doc:"Only about this task"`
	Claim string `query:"claim" doc:"Only about this claim"`
	Since string `query:"since" doc:"Only what happened at this time or later, such as 2026-11-25T15:00:00Z"`
	After string `query:"after" doc:"Only after the entry with this id; 00000000000000000000000000 stands before the first"`
	Seen  bool   `query:"seen" doc:"Also what was only seen on the board, such as people's edits"`
	Limit int    `query:"limit" minimum:"0" doc:"The newest that many, or with after the first; 0 is a hundred"`
}

// StoryInput names what a story is about.
type StoryInput struct {
	ID string `path:"id" is:"claim" doc:"A claim, by its id, or a task, by its id or key"`
}

// ReportInput selects the days of a report, and what it lists beside the agents.
type ReportInput struct {
	Days  int    `query:"days" minimum:"1" maximum:"366" default:"7" doc:"How many days it reaches back"`
	By    string `query:"by" maxLength:"200" doc:"A field of tasks, such as Area, by which work is added up in values; a field that tasks.fields names, or one that every task has"`
	Tasks bool   `query:"tasks" doc:"List the tasks that were worked on, with what they took and cost"`
}

// BareInput is a request without a body.
type BareInput struct {
	Key string `header:"Idempotency-Key" doc:"A repeated request with the same key gets the same answer"`
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

// TaskFilter selects tasks; its zero value selects all.
type TaskFilter struct {
	Filter
	Status string // in dibs's words or the board's; empty: any
	Ready  bool   // only those that a claim could get now, in the order in which they are offered
	Agent  string // only those claimed by this name; with Ready, those that this agent could get
	Limit  int    // at most that many; zero: all
	// Why, with Ready, adds the unfinished tasks that are not ready, each with the reason.
	Why bool
}

// Input returns the filter as the input of OpListTasks.
func (f TaskFilter) Input() ListTasksInput {
	return ListTasksInput{
		Status: f.Status, Ready: f.Ready, Why: f.Why, Agent: f.Agent, Limit: f.Limit, Priority: f.Priority, Where: f.Where, Text: f.Text,
	}
}

// FactFilter selects facts, such as entries of the local record.
type FactFilter = claim.FactFilter

// LogOf returns a filter as the input of OpLog.
func LogOf(f FactFilter) LogInput {
	in := LogInput{Agent: f.Agent, Task: string(f.Task), Claim: string(f.Claim), After: f.After, Seen: f.Seen, Limit: f.Limit}
	if !f.Since.IsZero() {
		in.Since = f.Since.Format(time.RFC3339)
	}
	return in
}
