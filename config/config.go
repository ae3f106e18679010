// Package config has what a person can set: the keys of config.yaml, their defaults, where values
// come from, and which values are invalid.
//
// A value comes from the first of these that has it: the environment (DIBS_ and the path of the key
// in capitals, with _ between its parts), the configuration file, or [Default]. Every key can be
// set in each place; unknown keys are errors.
package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
	_ "time/tzdata" // zones have to be known on machines without a zone database, too
	"unicode/utf8"
)

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

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Notice is a kind of notice: what a receiver can be told of.
type Notice string

// The kinds of notices.
const (
	NoticeAsk    Notice = "ask"    // an agent asks people a question
	NoticeBlock  Notice = "block"  // a task stands still until a person acts
	NoticeReview Notice = "review" // work waits for a person's decision
	NoticeLost   Notice = "lost"   // an agent lost its task
	NoticeStuck  Notice = "stuck"  // a task can never become ready
	NoticePaused Notice = "paused" // nothing is granted
)

// Notices lists the kinds of notices.
var Notices = []Notice{NoticeAsk, NoticeBlock, NoticeReview, NoticeLost, NoticeStuck, NoticePaused}

// Form is what a message to an address looks like.
type Form string

// The forms.
const (
	FormSlack Form = "slack" // JSON with text, as an incoming webhook of Slack takes it
	FormText  Form = "text"  // plain text, with headers that ntfy knows
	FormJSON  Form = "json"  // JSON with text and the notices
)

// Receiver is an address or a command that gets notices.
type Receiver struct {
	// URL is the address to POST to; URLFile is a file with nothing but that. Command is run by
	// sh instead. One of the three is set.
	URL     Secret `key:"url,omitempty"`
	URLFile string `key:"url_file,omitempty"`
	Command string `key:"command,omitempty"`
	// Form is that of a message to an address; empty means the one that fits the address.
	Form Form `key:"form,omitempty"`
	// On lists the kinds of notices; empty means all.
	On []Notice `key:"on,omitempty"`
	// Insecure allows an address with http on another machine.
	Insecure bool `key:"insecure,omitempty"`
}

// Address returns the receiver's address, from its file if it is there, and nil for a command. Its
// errors do not repeat the address, all of which may be secret.
func (r Receiver) Address(log *slog.Logger) (*url.URL, error) {
	text := r.URL
	if r.URLFile != "" {
		var err error
		if text, err = readSecret("notify: url_file", r.URLFile, "the address of a receiver", log); err != nil {
			return nil, err
		}
	} else if text == "" {
		return nil, nil
	}
	u, err := url.Parse(string(text))
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("notify: an address is not an http or https URL")
	case u.Scheme == "http" && !r.Insecure && !isLoopback(u.Hostname()):
		return nil, fmt.Errorf("notify: http://%s would get its notices, and the secrets in its address, over the network unencrypted: use https, or, if that is meant, set insecure: true beside it", u.Host)
	}
	return u, nil
}

// Breaker pauses all grants if many tasks in a row fail, are blocked or go stale.
type Breaker struct {
	Failures int           `key:"failures"` // that many; 0 is never
	Within   time.Duration `key:"within"`   // in that time
	Pause    time.Duration `key:"pause"`    // for that long
}

// Limits says how the limits of a day are counted.
type Limits struct {
	// Zone is the IANA name of the time zone whose midnight ends a day; empty is the machine's.
	Zone string `key:"zone"`
}

// Location returns the zone of the limits.
func (l Limits) Location() (*time.Location, error) {
	if l.Zone == "" {
		return time.Local, nil
	}
	zone, err := time.LoadLocation(l.Zone)
	if err != nil || l.Zone == "Local" {
		return nil, fmt.Errorf("limits.zone: %q is not a time zone: want a name such as Europe/Berlin or UTC", l.Zone)
	}
	return zone, nil
}

// Cluster says how the other daemons on a shared journal reach this one, see journal.postgres.
type Cluster struct {
	// Name is this member's name; empty for the machine's.
	Name string `key:"name"`
	// Listen is the address for the other members, such as :7331; empty for a free port at the
	// address by which this machine reaches PostgreSQL. If they need another address, it is
	// Advertise.
	Listen    string `key:"listen"`
	Advertise string `key:"advertise"`
}

// Shared reports whether the journal is in PostgreSQL, where several machines may share it.
func (j Journal) Shared() bool { return j.Postgres != "" || j.PostgresFile != "" }

// ReadPostgres returns the address of the database, from the file if it is there.
func (j Journal) ReadPostgres(log *slog.Logger) (Secret, error) {
	if j.Postgres != "" {
		return j.Postgres, nil
	}
	return readSecret("journal.postgres_file", j.PostgresFile, "the address of the database", log)
}

// Log configures the daemon's log.
type Log struct {
	Level  string `key:"level"`
	Format string `key:"format"`
}

var (
	logLevels  = []string{"debug", "info", "warn", "error"}
	logFormats = []string{"text", "json"}
)

// Severity returns the lowest level that is logged. l must be valid.
func (l Log) Severity() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		panic("config: log level used before it was validated: " + err.Error())
	}
	return level
}

// Handler returns a handler that writes records of at least that level to w, in l's format.
func (l Log) Handler(w io.Writer, level slog.Leveler) slog.Handler {
	options := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.NewJSONHandler(w, options)
	}
	return slog.NewTextHandler(w, options)
}

// Secret is a text that no output shows. Convert it to a string to use it.
type Secret string

const redacted = "[redacted]"

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format keeps the secret out of every verb of package fmt.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// LogValue keeps the secret out of logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText keeps the secret out of JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// theToken names the token in messages.
const theToken = "the Notion token"

// ReadToken returns the token, from the token file if it is there. It fails if there is none. Load
// does not, because only the daemon needs one.
func (n Notion) ReadToken(log *slog.Logger) (Secret, error) {
	if n.Token != "" {
		if n.TokenOrigin != "" {
			warnIfReadable(n.TokenOrigin, theToken, log)
		}
		return n.Token, nil
	}
	if n.TokenFile == "" {
		return "", errors.New("no Notion token: set NOTION_TOKEN, notion.token or notion.token_file")
	}
	if name := filepath.Base(n.TokenFile); strings.HasPrefix(name, "ntn_") || strings.HasPrefix(name, "secret_") {
		if _, err := os.Stat(n.TokenFile); err != nil {
			return "", errors.New("notion.token_file looks like the token itself: it must be the path of a file with the token")
		}
	}
	token, err := readSecret("notion.token_file", n.TokenFile, theToken, log)
	if strings.ContainsAny(string(token), " \t") {
		return "", fmt.Errorf("notion.token_file: %s holds more than one word: it must hold nothing but the token", n.TokenFile)
	}
	return token, err
}

// readSecret reads a secret from the file named by key. what names the secret in messages.
func readSecret(key, file, what string, log *slog.Logger) (Secret, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", key, err)
	}
	// Editors of Windows begin files with a byte order mark.
	secret := strings.TrimSpace(strings.TrimPrefix(string(data), "\ufeff"))
	switch {
	case !utf8.ValidString(secret) || strings.Contains(secret, "\x00"):
		return "", fmt.Errorf("%s: %s is no text in UTF-8: save it as that", key, file)
	case secret == "":
		return "", fmt.Errorf("%s: %s is empty", key, file)
	case strings.ContainsAny(secret, "\r\n"):
		return "", fmt.Errorf("%s: %s holds more than one line: it must hold nothing but %s", key, file, what)
	}
	warnIfReadable(file, what, log)
	return Secret(secret), nil
}

// warnIfReadable warns of a file with a secret that others may read.
func warnIfReadable(file, what string, log *slog.Logger) {
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
		log.Warn("other users of this machine may be able to read a secret: run chmod 600",
			"secret", what, "file", file, "mode", fmt.Sprintf("%#o", info.Mode().Perm()))
	}
}
