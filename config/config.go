// Package config has what a person can set: the keys of config.yaml, their defaults, where values
// come from, and which values are invalid.
//
// A value comes from the first of these that has it: the environment (DIBS_ and the path of the key
// in capitals, with _ between its parts), the configuration file, or [Default]. Every key can be
// set in each place; unknown keys are errors.
package config

import "time"

// Config is the whole configuration. After [Load] paths are absolute, ids canonical, and
// [Config.Validate] found no error.
type Config struct {
	Notion    Notion    `key:"notion"`
	Databases Databases `key:"databases"`
	Tasks     Tasks     `key:"tasks"`
	// Agents lists who may claim; empty means any name.
	Agents []Agent `key:"agents"`
	Claim  Claim   `key:"claim"`
	Limits Limits  `key:"limits"`
	Inbox  Inbox   `key:"inbox"`
	// Notify lists who is told where people are wanted.
	Notify   []Receiver `key:"notify"`
	Cluster  Cluster    `key:"cluster"`
	Sync     Sync       `key:"sync"`
	Webhook  Webhook    `key:"webhook"`
	Schedule Schedule   `key:"schedule"`
	Events   Events     `key:"events"`
	Journal  Journal    `key:"journal"`
	// Socket is the path of the daemon's socket.
	Socket string `key:"socket"`
	// SocketByDefault is set if nothing names Socket. It is not a key.
	SocketByDefault bool
	// SocketGroup is the group, by name or number, that may use the socket, too; empty means only
	// the daemon's user. The group and mode of a socket that systemd opens are set in its unit;
	// SocketGroup should name the same group.
	SocketGroup string `key:"socket_group"`
	// SocketUser is the user, by name or number, whose daemon clients accept on the socket; empty
	// means any user who may have put the socket there. The daemon ignores it.
	SocketUser string `key:"socket_user"`
	// StateDir is the directory of what the daemon must not forget.
	StateDir string  `key:"state_dir"`
	Metrics  Metrics `key:"metrics"`
	Log      Log     `key:"log"`
}

// Notion says how to reach Notion.
type Notion struct {
	Token Secret `key:"token"`
	// TokenOrigin is the configuration file if Token comes from it. It is not a key.
	TokenOrigin string
	// TokenFile is a file with nothing but the token.
	TokenFile string `key:"token_file"`
	BaseURL   string `key:"base_url"`
	// Insecure allows sending the token unencrypted to a BaseURL with http.
	Insecure bool          `key:"insecure"`
	Rate     float64       `key:"rate"` // requests per second, on average
	Burst    int           `key:"burst"`
	Timeout  time.Duration `key:"timeout"` // of one request
	// Comments adds the reasons for which agents block or fail tasks to their pages as comments.
	Comments bool `key:"comments"`
}

// Databases are the ids of the databases, in canonical form or empty, and the name or id of the
// data source of each; empty if there is only one.
type Databases struct {
	Tasks         string `key:"tasks"`
	TasksSource   string `key:"tasks_source"`
	TaskLog       string `key:"task_log"`
	TaskLogSource string `key:"task_log_source"`
	MeshLog       string `key:"mesh_log"`
	MeshLogSource string `key:"mesh_log_source"`
}

// Tasks maps the protocol's names to those of the tasks database.
type Tasks struct {
	Properties Properties `key:"properties"`
	Statuses   Statuses   `key:"statuses"`
	Priorities Priorities `key:"priorities"`
	// Fields are further properties of the tasks database to show and to filter by.
	Fields []string `key:"fields"`
	// Only lists conditions, NAME=VALUE each: agents are offered the tasks that meet all of them.
	Only []string `key:"only"`
}

// Properties are the names of the properties of the tasks database.
type Properties struct {
	Status              string `key:"status"`
	ClaimedBy           string `key:"claimed_by"`
	ClaimedAt           string `key:"claimed_at"`
	ClaimTimeoutMinutes string `key:"claim_timeout_minutes"`
	ClaimToken          string `key:"claim_token"`
	Priority            string `key:"priority"`
	DependsOn           string `key:"depends_on"`
	Note                string `key:"note"`
	Assignee            string `key:"assignee"`
	Done                string `key:"done"`
	SubItems            string `key:"sub_items"`
	DoneWhen            string `key:"done_when"`
}

// Statuses are the database's names for the protocol's statuses.
type Statuses struct {
	Open       string `key:"open"`
	InProgress string `key:"in_progress"`
	Blocked    string `key:"blocked"`
	Completed  string `key:"completed"`
	Cancelled  string `key:"cancelled"`
	// Review and Failed are optional: empty means that the database has no such status.
	Review string `key:"review"`
	Failed string `key:"failed"`
}

// Priorities are the database's names for each priority.
type Priorities struct {
	Critical []string `key:"critical"`
	High     []string `key:"high"`
	Medium   []string `key:"medium"`
	Low      []string `key:"low"`
}

// Agent is a name that may claim, or, if it ends in *, all names with that prefix.
type Agent struct {
	Name string `key:"name"`
	// UIDs are the users of this machine who may use the name; empty means any.
	UIDs []int `key:"uids,omitempty"`
	// NotionUser is the id of the agent's Notion user. It is needed if claimed_by is a property of
	// type people, and for tasks that the column of assignees leaves to the agent.
	NotionUser string `key:"notion_user,omitempty"`
	// Lead delivers a trigger to the agent for every finished task.
	Lead bool `key:"lead,omitempty"`
	// MaxPerAgent replaces Claim.MaxPerAgent for this agent; nil keeps that, and 0 means any
	// number.
	MaxPerAgent *int `key:"max_per_agent,omitempty"`
	// MaxPerDay is how many tasks all agents that the name covers are granted in a day, together;
	// 0 is any number.
	MaxPerDay int `key:"max_per_day,omitempty"`
	// MaxUSDPerDay is how many US dollars all agents of that name together may report to have spent
	// in a day, before they get no more tasks; 0 means any amount.
	MaxUSDPerDay float64 `key:"max_usd_per_day,omitempty"`
}

// Override says which stale claims may be overridden.
type Override string

// The settings of claim.override.
const (
	OverrideAny      Override = "any"       // stale claims on OPEN and IN_PROGRESS tasks
	OverrideOpenOnly Override = "open_only" // only those on OPEN tasks; the sweep reopens the others
)

// Review says which work is put up for a person's decision.
type Review string

// The settings of claim.review.
const (
	ReviewAsked  Review = "asked"  // what the agent says is for review
	ReviewAlways Review = "always" // whatever an agent completes
)

// Claim sets the timing and the limits of claims.
type Claim struct {
	Timeout time.Duration `key:"timeout"` // of a lease, unless the task sets its own
	// WriteWindow is the time after its read within which a claim write must be answered.
	WriteWindow time.Duration `key:"write_window"`
	// Settle is the wait between a claim write and the read that verifies it.
	Settle   time.Duration `key:"settle"`
	Override Override      `key:"override"`
	// Exclusive says that this daemon is the only claimer.
	Exclusive   bool          `key:"exclusive"`
	MaxPerAgent int           `key:"max_per_agent"` // tasks an agent may hold at a time; 0 is any number
	MaxLifetime time.Duration `key:"max_lifetime"`  // of a claim, all renewals together
	// MaxAttempts is how often a task may fail, or its claim become stale, before it becomes
	// BLOCKED; 0 means any number of times.
	MaxAttempts int     `key:"max_attempts"`
	Breaker     Breaker `key:"breaker"`
	// Todos refuses to complete a task while its page has to-dos that are not ticked.
	Todos bool `key:"todos"`
	// Review says whether completed work is put up for review instead.
	Review Review `key:"review"`
}

// Inbox sets how triggers reach agents.
type Inbox struct {
	// Visibility is how long a taken trigger may stay unacknowledged before it is delivered again.
	Visibility time.Duration `key:"visibility"`
	// Comments is the shortest time between two reads of the comments on a held task.
	Comments time.Duration `key:"comments"`
	// Offer is how long an offer waits for an answer before it is withdrawn.
	Offer time.Duration `key:"offer"`
}

// Sync configures the mirror.
type Sync struct {
	Interval time.Duration `key:"interval"` // between two syncs
	// Waiting replaces Interval, if shorter, while somebody waits for what people do in Notion.
	Waiting time.Duration `key:"waiting"`
	// KeepFinished is how long finished tasks stay in the mirror after their last edit.
	KeepFinished time.Duration `key:"keep_finished"`
}

// Webhook says where Notion's webhooks are heard.
type Webhook struct {
	// Listen is an address and a port; empty means nowhere.
	Listen string `key:"listen"`
	// Path is the only path there that is answered.
	Path string `key:"path"`
}

// Schedule holds cron specifications.
type Schedule struct {
	Sweep    string `key:"sweep"`
	FullSync string `key:"full_sync"`
}

// Events configures the record of events for agents.
type Events struct {
	Keep time.Duration `key:"keep"` // how long an event can be read
}

// Journal configures the journal: where it is, and how long it is kept.
type Journal struct {
	// Keep is how long ended claims, facts whose log entries were delivered, and the answers to
	// requests with an idempotency key are kept.
	Keep time.Duration `key:"keep"`
	// Postgres is the address of a PostgreSQL database for the journal, as libpq takes it;
	// PostgresFile is a file with nothing but that. Without either, the journal is a file in the
	// state directory.
	Postgres     Secret `key:"postgres"`
	PostgresFile string `key:"postgres_file"`
	// Schema begins the name of the journal's schema in that database.
	Schema string `key:"schema"`
}

// Metrics says where the metrics are served besides GET /metrics on the socket.
type Metrics struct {
	// Listen is a loopback address and a port; empty means nowhere.
	Listen string `key:"listen"`
}

// Default returns the configuration with nothing set. It has no databases, see [Databases.Named].
// Its paths are empty: [Load] takes them from the environment.
func Default() Config {
	return Config{
		Notion: Notion{
			BaseURL: "https://api.notion.com",
			Rate:    3,
			Burst:   10,
			Timeout: 10 * time.Second,
		},
		Tasks: Tasks{
			Properties: Properties{
				Status:              "status",
				ClaimedBy:           "claimed_by",
				ClaimedAt:           "claimed_at",
				ClaimTimeoutMinutes: "claim_timeout_minutes",
				ClaimToken:          "claim_token",
				Priority:            "priority",
				DependsOn:           "depends_on",
				Note:                "note",
			},
			Statuses: Statuses{
				Open:       "OPEN",
				InProgress: "IN_PROGRESS",
				Blocked:    "BLOCKED",
				Completed:  "COMPLETED",
				Cancelled:  "CANCELLED",
			},
			Priorities: Priorities{
				Critical: []string{"critical"},
				High:     []string{"high"},
				Medium:   []string{"medium"},
				Low:      []string{"low"},
			},
			Fields: []string{},
			Only:   []string{},
		},
		Agents: []Agent{},
		Notify: []Receiver{},
		Claim: Claim{
			Timeout:     30 * time.Minute,
			WriteWindow: 1500 * time.Millisecond,
			Settle:      1600 * time.Millisecond,
			Override:    OverrideAny,
			Review:      ReviewAsked,
			MaxLifetime: 24 * time.Hour,
			Breaker:     Breaker{Failures: 5, Within: 10 * time.Minute, Pause: 15 * time.Minute},
		},
		Inbox:    Inbox{Visibility: 30 * time.Minute, Comments: time.Minute, Offer: 10 * time.Minute},
		Sync:     Sync{Interval: 15 * time.Second, Waiting: 3 * time.Second, KeepFinished: 24 * time.Hour},
		Webhook:  Webhook{Path: "/notion"},
		Schedule: Schedule{Sweep: "@every 1m", FullSync: "@every 1h"},
		Events:   Events{Keep: 7 * 24 * time.Hour},
		Journal:  Journal{Keep: 30 * 24 * time.Hour, Schema: "dibs"},
		Log:      Log{Level: "info", Format: "text"},
	}
}
