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
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // zones have to be known on machines without a zone database, too
	"unicode/utf8"
)

// Config is the whole configuration. After [Load] paths are absolute, ids canonical, and
// [Config.Validate] found no error.
type Config struct {
	Notion Notion `key:"notion"`
	// The databases: ids with or without dashes, or URLs. There is no default: dibs init writes
	// them, and these are an example. If a database has several data sources, the key ending in
	// _source gives the name or the id of the one to use; "" means that there is only one.
	Databases Databases `key:"databases"`
	Tasks     Tasks     `key:"tasks"`
	// Who may claim. Empty: any name. Otherwise a list of names. A name may have uids, the ids of
	// the users of this machine who may use it, and, where claimed_by is of type people or assignee
	// is used, notion_user, the agent's Notion user. lead: true tells an agent of every finished
	// task, see docs/inbox.md. max_per_agent replaces claim.max_per_agent; max_per_day is how many
	// tasks all whom the name covers are granted in a day, together, and max_usd_per_day how much
	// they may report to have spent before they get no more, see docs/brake.md and docs/usage.md. A
	// * at the end of a name stands for all names with that prefix, for instance minted ones, see
	// docs/names.md.
	//
	//	agents:
	//	  - Sandman
	//	  - name: agent-*
	//	    max_per_agent: 1
	//	    max_per_day: 20
	//	    max_usd_per_day: 20
	//	  - name: Oracle
	//	    uids: [1000, 1001]
	//	    lead: true
	//	    notion_user: 6794760a-1f15-45cd-9c65-0dfe42f5135a
	Agents []Agent `key:"agents"`
	Claim  Claim   `key:"claim"`
	// How the limits of a day (max_per_day of agents) are counted.
	Limits Limits `key:"limits"`
	// What agents should react to, see docs/inbox.md.
	Inbox Inbox `key:"inbox"`
	// Who is told, outside of Notion, where people are wanted, see docs/notify.md. Each receiver has
	// one of url (an address to POST to), url_file (a file with nothing but the address) and command
	// (run by sh). on: ask (an agent asks a question), block (a task stands still until a person
	// acts), review (work waits for a decision), lost (an agent lost its task); all without it.
	// form: slack, text or json; without it, slack for Slack's incoming webhooks, else text, as ntfy
	// takes it. insecure: true allows http to other machines. dibs notify test tries them.
	//
	//	notify:
	//	  - url_file: slack-webhook
	//	  - url: https://ntfy.sh/a-name-that-nobody-guesses
	//	    on: [ask, block]
	//	  - command: notify-send dibs "$DIBS_TEXT"
	Notify []Receiver `key:"notify"`
	// How the other daemons on a shared journal reach this one, see journal.postgres.
	Cluster Cluster `key:"cluster"`
	Sync    Sync    `key:"sync"`
	// Notion can post to an address of yours what has changed, within seconds; dibs webhook says
	// how.
	Webhook Webhook `key:"webhook"`
	// Agents on other machines, in containers and sandboxes reach the socket's API over HTTPS, each
	// with an access token, see docs/remote.md.
	Remote Remote `key:"remote"`
	// The schedule of regular work: @every DURATION, or five cron fields.
	Schedule Schedule `key:"schedule"`
	Events   Events   `key:"events"`
	Journal  Journal  `key:"journal"`
	// The daemon's socket. Default: $XDG_RUNTIME_DIR/dibs/dibs.sock, or dibs.sock in state_dir if
	// that variable is not set; where that is longer than a socket's path may be, 103 bytes, one in
	// /run/user or /tmp. Commands without the daemon's variables find it by its state_dir.
	Socket string `key:"socket"`
	// SocketByDefault is set if nothing names Socket. It is not a key.
	SocketByDefault bool
	// A group, by name or number, whose members may use the socket, too: its mode is then 0660
	// instead of 0600. List agents with their uids, or any member may claim under any name. If
	// systemd opens the socket, its unit sets the group; set it here as well, for the doctor.
	SocketGroup string `key:"socket_group"`
	// The user, by name or number, whose daemon agents and people expect on the socket. Commands
	// accept no other user's except root's, which listens for systemd. Empty: the caller, root, or
	// the owner of a directory that only they could have put there; this suffices unless the socket
	// is in a directory such as /tmp.
	SocketUser string `key:"socket_user"`
	// What the daemon must not forget. Default: $XDG_STATE_HOME/dibs (~/.local/state/dibs).
	StateDir string  `key:"state_dir"`
	Metrics  Metrics `key:"metrics"`
	Log      Log     `key:"log"`
}

// Notion says how to reach Notion.
type Notion struct {
	// The token of the Notion connection that the databases are shared with. It is better kept out
	// of this file: set NOTION_TOKEN (or DIBS_NOTION_TOKEN), or token_file.
	Token Secret `key:"token"`
	// TokenOrigin is the configuration file if Token comes from it. It is not a key.
	TokenOrigin string
	// A file with nothing but the token, readable by its owner only. A path here and below may begin
	// with ~/; a relative path begins in this file's folder.
	TokenFile string `key:"token_file"`
	// https, or http to this machine. No user or password in it.
	BaseURL string `key:"base_url"`
	// true allows http to other machines: anybody in between can then read the token.
	Insecure bool `key:"insecure"`
	// Requests per second on average. Notion allows 180 per minute (3 per second), and 600 (10 per
	// second) in Business and Enterprise workspaces.
	Rate float64 `key:"rate"`
	// How many requests may be sent at once after a quiet time: 2 or more, and at most half a
	// minute's worth, because a burst counts against the same minute.
	Burst int `key:"burst"`
	// How long one request may take.
	Timeout time.Duration `key:"timeout"`
	// true adds the reason for which an agent blocks or fails a task to the task's page as a
	// comment, too, signed with the agent's name; --mention names somebody in it. The connection
	// needs the capabilities to read and to insert comments, and to read user information for
	// --mention.
	Comments bool `key:"comments"`
}

// Databases are the ids of the databases, in canonical form or empty, and the name or id of the
// data source of each; empty if there is only one.
type Databases struct {
	// The shared queue.
	Tasks       string `key:"tasks"`
	TasksSource string `key:"tasks_source"`
	// Agent Task Log: one entry per finished piece of work.
	TaskLog       string `key:"task_log"`
	TaskLogSource string `key:"task_log_source"`
	// Mesh Communication Log: claim attempts, messages between agents.
	MeshLog       string `key:"mesh_log"`
	MeshLogSource string `key:"mesh_log_source"`
}

// Tasks maps the protocol's names to those of the tasks database.
type Tasks struct {
	// The names of the tasks database's properties. The last nine are optional: "" means that the
	// database has no such property.
	Properties Properties `key:"properties"`
	// The database's names for the statuses. Tasks with any other status cannot be claimed. These
	// names, and those of the priorities, are understood wherever dibs asks for one, and shown.
	Statuses Statuses `key:"statuses"`
	// The database's names for the priorities, in any case: a name, or a list of names, such as low:
	// [Niedrig, Irgendwann]. A task with another priority, or with none, is offered last.
	Priorities Priorities `key:"priorities"`
	// Further properties of the tasks database, by name and of any type, to show with every task and
	// to filter by: --where "Sprint=42".
	//
	//	fields: [Sprint, Area, Done when]
	Fields []string `key:"fields"`
	// Which tasks agents may have at all: those that meet all of these conditions. NAME is a
	// property, a checkbox is true or false, and one value of a list is enough. Every other task is
	// not_offered.
	//
	//	only: ["Area=Agents", "Ready=true"]
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
	// A column of people that dibs reads and never writes. Whoever is in it has the task, and agents
	// cannot claim it. If an agent's Notion user is in it, see notion_user, that agent may.
	Assignee string `key:"assignee"`
	// A checkbox. Where it is ticked the task is COMPLETED, whatever its status says. dibs ticks it
	// with the status.
	Done string `key:"done"`
	// The relation that lists a task's sub-items, such as Notion's "Sub-item". A task is ready when
	// all of its sub-items are finished.
	SubItems string `key:"sub_items"`
	// A text that says when a task is done. An agent is given it with the task.
	DoneWhen string `key:"done_when"`
	// The files that the work on a task touches: a text with a pattern of a .gitignore in each line,
	// or a multi-select. Tasks whose patterns overlap are not worked on at the same time.
	Touches string `key:"touches"`
}

// Statuses are the database's names for the protocol's statuses.
type Statuses struct {
	Open       string `key:"open"`
	InProgress string `key:"in_progress"`
	Blocked    string `key:"blocked"`
	Completed  string `key:"completed"`
	Cancelled  string `key:"cancelled"`
	// Two optional statuses. review: where dibs review puts finished work until a person decides.
	// failed: where dibs fail puts a task; "" means blocked.
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
	// How long a claim lasts without being renewed, for tasks without claim_timeout_minutes: whole
	// minutes.
	Timeout time.Duration `key:"timeout"`
	// How soon after its read a claim write must be answered.
	WriteWindow time.Duration `key:"write_window"`
	// The wait between the write and the read that verifies it. It must be longer than write_window:
	// that keeps two claimers from both winning.
	Settle time.Duration `key:"settle"`
	// Which stale claims may be overridden: any, or open_only for those on OPEN tasks only; then the
	// sweep reopens IN_PROGRESS tasks.
	Override Override `key:"override"`
	// true says that only this daemon ever claims from this database. Only then may settle be
	// shorter than write_window; with settle: 0s a claim is verified by the answer to its write
	// alone, which saves the wait and a request. With journal.postgres this always applies, and
	// settle and exclusive have no effect.
	Exclusive bool `key:"exclusive"`
	// How many tasks an agent may hold at a time. 0: any number.
	MaxPerAgent int `key:"max_per_agent"`
	// The longest life of a claim, including renewals.
	MaxLifetime time.Duration `key:"max_lifetime"`
	// A task that has failed, or whose claim has become stale, this many times becomes BLOCKED, with
	// the history in its note. 0: any number of times.
	MaxAttempts int `key:"max_attempts"`
	// That many claims in a row that fail, are blocked or go stale within that time, whoever's they
	// are, pause all grants for a while; then one task is let through, and its end decides. 0:
	// never. See docs/brake.md.
	Breaker Breaker `key:"breaker"`
	// true: a task cannot be completed while its page has to-dos that are not ticked, nor while
	// Notion cannot be asked. That costs a request for each completion.
	Todos bool `key:"todos"`
	// always puts whatever an agent completes up for review instead: a person decides. It needs a
	// status for that, tasks.statuses.review. asked: only what the agent itself puts up.
	Review Review `key:"review"`
}

// Inbox sets how triggers reach agents.
type Inbox struct {
	// A trigger that was taken and not acknowledged for this long is delivered again.
	Visibility time.Duration `key:"visibility"`
	// How often comments on a held task are read at most, while its agent polls.
	Comments time.Duration `key:"comments"`
	// An offer without an answer for this long is withdrawn.
	Offer time.Duration `key:"offer"`
}

// Sync configures the mirror.
type Sync struct {
	// How often the local copy of the tasks is updated. After an hour without an agent it is once a
	// minute.
	Interval time.Duration `key:"interval"`
	// How often while somebody waits for what people do in Notion: next --wait, poll, a stream of
	// events, a board in front of somebody. At most every ninth request goes there, and only as long
	// as claims and logs leave enough of them.
	Waiting time.Duration `key:"waiting"`
	// How long finished tasks stay in it after their last edit. A finished task stays longer while
	// an unfinished one depends on it.
	KeepFinished time.Duration `key:"keep_finished"`
}

// Webhook says where Notion's webhooks are heard.
type Webhook struct {
	// Where the daemon listens for that, such as 127.0.0.1:7332 behind a tunnel or a proxy. Empty:
	// nowhere.
	Listen string `key:"listen"`
	// The only path that is answered.
	Path string `key:"path"`
}

// Remote says where agents on other machines are listened for, and who they are.
type Remote struct {
	// Where the daemon listens, such as :7333. Empty: nowhere.
	Listen string `key:"listen"`
	// A certificate with its chain, and its key, in PEM. They are read again when they change. Without
	// them the daemon makes a certificate that its tokens know.
	CertFile string `key:"cert_file"`
	KeyFile  string `key:"key_file"`
	// Whose JWTs count as access tokens: those of an issuer, for an audience. A * in subject and agent
	// stands for any letters; subject is whom the JWT is about, agent the names that it may act under.
	//
	//	remote:
	//	  oidc:
	//	    - issuer: https://token.actions.githubusercontent.com
	//	      audience: dibs
	//	      subject: repo:example/shop:*
	//	      agent: ci-*
	OIDC []Issuer `key:"oidc"`
}

// Issuer says whose JWTs count as access tokens, and for which agents.
type Issuer struct {
	// Issuer is the iss of the JWT, an https URL below which its discovery document is.
	Issuer string `key:"issuer"`
	// Audience must be in the JWT's aud.
	Audience string `key:"audience"`
	// Subject is a pattern of the JWT's sub.
	Subject string `key:"subject"`
	// Agent is a pattern of the names that the JWT may act under.
	Agent string `key:"agent"`
}

// Schedule holds cron specifications.
type Schedule struct {
	// Reopens tasks whose claim is stale.
	Sweep string `key:"sweep"`
	// Reads the whole tasks database again.
	FullSync string `key:"full_sync"`
}

// Events configures the record of events for agents.
type Events struct {
	// How long agents can read past events of tasks and claims.
	Keep time.Duration `key:"keep"`
}

// Journal configures the journal: where it is, and how long it is kept.
type Journal struct {
	// How far back dibs log goes, and how long a repeated request with the same idempotency key gets
	// the same answer. Claims that are held and entries that a log is owed are kept as long as
	// necessary.
	Keep time.Duration `key:"keep"`
	// Where the journal is: "" is a file in state_dir. Otherwise the address of a PostgreSQL
	// database (14 or newer), as libpq takes it:
	// postgres://dibs@db.example.com/dibs?sslmode=verify-full. The PG… variables and the password
	// file supply missing parts. Several machines that name the same database share a board: one
	// leads, and another takes over when it dies.
	Postgres Secret `key:"postgres"`
	// A file with nothing but that address, readable by its owner only.
	PostgresFile string `key:"postgres_file"`
	// The beginning of the name of the journal's schema there. The id of the tasks database follows,
	// so that boards can share a database.
	Schema string `key:"schema"`
}

// Metrics says where the metrics are served besides GET /metrics on the socket.
type Metrics struct {
	// The address of GET /metrics for Prometheus, besides the socket: a loopback address and a port,
	// such as 127.0.0.1:9464. Empty: on the socket only.
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
		Remote:   Remote{OIDC: []Issuer{}},
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
	Failures int           `key:"failures"`
	Within   time.Duration `key:"within"`
	Pause    time.Duration `key:"pause"`
}

// Limits says how the limits of a day are counted.
type Limits struct {
	// The IANA time zone whose midnight ends a day, such as Europe/Berlin. Empty: the machine's.
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
	// This member's name, different from the others'. Empty: the machine's name.
	Name string `key:"name"`
	// The address for the other members, such as 10.0.0.1:7331 or :7331. Empty: a free port at the
	// address by which this machine reaches PostgreSQL. If they must use another address, such as
	// that of a tunnel, set advertise.
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
	// debug, info, warn or error
	Level string `key:"level"`
	// text or json
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
	return ReadTokenFile("notion.token_file", n.TokenFile, theToken, log)
}

// tokenPrefixes begin Notion's tokens, dibs's, and JWTs.
var tokenPrefixes = []string{"ntn_", "secret_", "dibs_", "eyJ"}

// ReadTokenFile returns the token in a file that key names. what names the token in messages. A file
// that others may read is warned of.
func ReadTokenFile(key, file, what string, log *slog.Logger) (Secret, error) {
	if slices.ContainsFunc(tokenPrefixes, func(begin string) bool { return strings.HasPrefix(filepath.Base(file), begin) }) {
		if _, err := os.Stat(file); err != nil {
			return "", fmt.Errorf("%s looks like the token itself: it must be the path of a file with the token", key)
		}
	}
	token, err := readSecret(key, file, what, log)
	if strings.ContainsAny(string(token), " \t") {
		return "", fmt.Errorf("%s: %s holds more than one word: it must hold nothing but the token", key, file)
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
