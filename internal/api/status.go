package api

import (
	"fmt"

	"dibs/internal/task"
)

// Status is the state of the daemon.
type Status struct {
	Version    string       `json:"version"`
	PID        int          `json:"pid"`
	StartedAt  Time         `json:"started_at"`
	Socket     string       `json:"socket"`
	StateDir   string       `json:"state_dir"`
	Notion     NotionStatus `json:"notion"`
	Mirror     MirrorStatus `json:"mirror"`
	ClaimsHeld int          `json:"claims_held"`
	// Reservations are those of files and other things.
	Reservations []Reservation `json:"reservations,omitempty" doc:"What agents have reserved beside tasks, oldest first"`
	Outbox       OutboxStatus  `json:"outbox"`
	Policy       PolicyStatus  `json:"policy"`
	Pauses       []Pause       `json:"pauses,omitempty" doc:"Why nothing is granted, to an agent or to anybody"`
	// Cluster is nil without a cluster.
	Cluster *ClusterStatus `json:"cluster,omitempty"`
	// ReadToWrite is nil before the first claim.
	ReadToWrite *ReadToWrite `json:"read_to_write,omitempty" doc:"How long a claim's write came after its read: an edit of the task in between is overwritten"`
	// Webhook is nil if there is none.
	Webhook  *WebhookStatus `json:"webhook,omitempty"`
	Warnings []string       `json:"warnings" nullable:"false" doc:"What the daemon cannot do, and why"`
	Words    *Words         `json:"words,omitempty"`
}

// Words are the board's, for whoever has to choose one. Filters take dibs's as well.
type Words struct {
	Statuses   map[task.Status]string `json:"statuses" nullable:"false" doc:"What the board calls each status that it has"`
	Priorities []string               `json:"priorities" nullable:"false" doc:"What it calls priorities: all options in its order, or the configured names if it has no options"`
}

// ReadToWrite is the time from sending the read of a claim to the answer of its write, over
// the last claim writes.
type ReadToWrite struct {
	Writes         int     `json:"writes" doc:"How many writes these are, at most 100"`
	MedianSeconds  float64 `json:"median_seconds"`
	SlowestSeconds float64 `json:"slowest_seconds"`
}

// NotionStatus describes the exchange with Notion.
type NotionStatus struct {
	BaseURL     string `json:"base_url"`
	Requests    int64  `json:"requests" doc:"Sent since the daemon started"`
	PausedUntil Time   `json:"paused_until,omitzero" doc:"Set while Notion asked to be left alone"`
	LastError   string `json:"last_error,omitempty" doc:"The last failure to reach Notion; absent once it works again"`
	ClockSkewMS int64  `json:"clock_skew_ms" doc:"Notion's time minus this machine's"`
}

// MirrorStatus describes the daemon's mirror.
type MirrorStatus struct {
	Tasks int `json:"tasks"`
	Ready int `json:"ready"`
	// Stuck is nil if every open task can become ready.
	Stuck *Stuck `json:"stuck,omitempty" doc:"The open tasks that can never become ready, unless a person changes what they wait for"`
	Age
	Syncing *SyncProgress `json:"syncing,omitempty" doc:"How far the whole board has been read, while it is"`
}

// Stuck counts the open tasks that can never become ready.
type Stuck struct {
	Count  int      `json:"count"`
	Open   int      `json:"open" doc:"How many tasks are OPEN, ready or not"`
	Titles []string `json:"titles" nullable:"false" doc:"Of the first of them"`
}

// String says how many tasks are stuck, and names the first.
func (s Stuck) String() string {
	text := fmt.Sprintf("%d of %d open tasks can never become ready: ", s.Count, s.Open)
	for i, title := range s.Titles {
		if i > 0 {
			text += ", "
		}
		text += "“" + title + "”"
	}
	if more := s.Count - len(s.Titles); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// SyncProgress is the progress of a full sync.
type SyncProgress struct {
	Read    int  `json:"read" doc:"How many tasks have been read"`
	Percent *int `json:"percent,omitempty" doc:"How much that is, if there are as many as last time; absent the first time"`
}

// NewSyncProgress returns the progress of a sync that has read so many tasks; of is the number of
// last time, zero if unknown.
func NewSyncProgress(read, of int) *SyncProgress {
	p := &SyncProgress{Read: read}
	if of > 0 {
		p.Percent = new(min(100*read/of, 100))
	}
	return p
}

// OutboxStatus counts what is owed to Notion.
type OutboxStatus struct {
	Depth     int    `json:"depth" doc:"Log entries and finished claims that Notion has yet to be told of"`
	Finishes  int    `json:"finishes" doc:"How many of them are finished claims"`
	Oldest    Time   `json:"oldest,omitzero"`
	LastError string `json:"last_error,omitempty"`
}

// Unknown reports whether the journal, which knows, could not be read.
func (o OutboxStatus) Unknown() bool { return o.Depth == 0 && o.LastError != "" }

// Owed returns that as text.
func (o OutboxStatus) Owed() string {
	if o.Finishes == 0 {
		return fmt.Sprintf("%d owed to Notion", o.Depth)
	}
	return fmt.Sprintf("%d owed to Notion, %d of them finished claims", o.Depth, o.Finishes)
}

// PolicyStatus repeats the settings for claims.
type PolicyStatus struct {
	TimeoutSeconds     float64 `json:"timeout_seconds"`
	WriteWindowSeconds float64 `json:"write_window_seconds"`
	SettleSeconds      float64 `json:"settle_seconds"`
	Override           string  `json:"override"`
	Exclusive          bool    `json:"exclusive"`
	// MaxPerAgent and MaxLifetimeSeconds are nil from a daemon of an earlier version.
	MaxPerAgent        *int     `json:"max_per_agent,omitempty" doc:"How many tasks an agent may have at a time; 0 is any number"`
	MaxLifetimeSeconds *float64 `json:"max_lifetime_seconds,omitempty" doc:"The longest life of a claim, renewals included; 0 is any"`
	// MaxAttempts is nil from a daemon of an earlier version.
	MaxAttempts *int   `json:"max_attempts,omitempty" doc:"How often a task may fail or its claim run out before it becomes BLOCKED; 0 is any number of times"`
	Stranger    string `json:"stranger,omitempty" doc:"The daemon with a journal of its own that was seen within a day"`
}

// OneJournal is the advice for PolicyStatus.Stranger.
const OneJournal = "stop it, or give it this daemon's journal (journal.postgres)"

// ClusterStatus describes the cluster of the answering daemon.
type ClusterStatus struct {
	Name   string `json:"name" doc:"What the daemon is called at which this was asked"`
	Leader string `json:"leader,omitempty" doc:"The member that leads, which does the work; absent while none does"`
	Epoch  int64  `json:"epoch" doc:"How many have led so far"`
	Since  Time   `json:"since,omitzero" doc:"Since when the leader does"`

	LastError string `json:"last_error,omitempty" doc:"Why nothing is granted now; absent if there is no doubt about the journal"`
}

// Cluster lists the daemons that share a journal.
type Cluster struct {
	Members []Member `json:"members" nullable:"false" doc:"Those that are there, or were in the last days; none without journal.postgres"`
	ClusterStatus

	Adopted *bool `json:"adopted,omitempty" doc:"In the answer to a request to adopt the database: it was in doubt, and is adopted now; false if nothing had to be adopted"`
}

// Member is one of the daemons of a cluster.
type Member struct {
	Name    string `json:"name"`
	Leader  bool   `json:"leader" doc:"It does the work; the others are doors to it"`
	Address string `json:"address,omitempty" doc:"Where it listens for the other members"`
	SeenAt  Time   `json:"seen_at,omitzero" doc:"When it said so last; it says so every two seconds"`
	Self    bool   `json:"self,omitempty" doc:"It is the daemon at which this was asked"`
}

// Webhook is the address at which the daemon hears Notion's webhooks, and the secret for it.
type Webhook struct {
	Token     string `json:"token" doc:"The verification token that Notion sent, to be entered there; empty until it did"`
	Address   string `json:"address" doc:"The URL that the daemon listens on, which a proxy or tunnel has to reach; empty without webhook.listen"`
	RefusedAt Time   `json:"refused_at,omitzero" doc:"When another token than this was refused last"`
	Received  int    `json:"received" doc:"Events with a right signature since the daemon started"`
	LastAt    *Time  `json:"last_at" nullable:"true" doc:"When the last one came"`

	Refused *RefusedHook `json:"refused,omitempty" doc:"The last request to the address of the member that answers that was refused, since it started"`
}

// RefusedHook is a request to the address of the webhook that was refused, by whomever.
type RefusedHook struct {
	At      Time   `json:"at"`
	Request string `json:"request" doc:"Its method and path"`
	Reason  string `json:"reason"`
}

// WebhookStatus says how webhooks do, without the secret.
type WebhookStatus struct {
	Address  string       `json:"address,omitempty" doc:"The URL that the daemon listens on"`
	Verified bool         `json:"verified" doc:"Notion has sent its verification token"`
	Received int          `json:"received" doc:"Events since the daemon started"`
	LastAt   Time         `json:"last_at,omitzero" doc:"When the last one came"`
	Refused  *RefusedHook `json:"refused,omitempty" doc:"The last request to the address that was refused"`

	Edits          int     `json:"edits" doc:"Edits that were first heard of by an event"`
	Missed         int     `json:"missed" doc:"Edits that syncs found since the last event"`
	Polled         int     `json:"polled" doc:"Edits that a sync found first"`
	MedianSeconds  float64 `json:"median_seconds,omitzero" doc:"From an edit in Notion until it was known here, for those of the last events"`
	SlowestSeconds float64 `json:"slowest_seconds,omitzero"`
}

// ProcessesPath is where members ask each other about processes. It is not for callers.
const ProcessesPath = "/v1/processes"

// ProcessesRequest asks about processes of another member's machine.
type ProcessesRequest struct {
	PIDs []int `json:"pids"`
}

// Processes are the processes that live.
type Processes struct {
	Processes []Process `json:"processes"`
}

// Process is a living process. Unknown says why it cannot be watched.
type Process struct {
	PID     int    `json:"pid"`
	Began   string `json:"began,omitempty"`
	UID     int    `json:"uid"`
	Unknown string `json:"unknown,omitempty"`
}
