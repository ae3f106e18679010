package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"dibs/internal/task"

	"github.com/robfig/cron/v3"
)

// Validate returns an error for every invalid setting, one line each. A missing token is not an
// error, see [Notion.ReadToken].
func (c Config) Validate() error {
	errs := slices.Concat(c.Notion.validate(), c.Databases.validate(), c.Tasks.validate(), validateAgents(c.Agents), c.Claim.validate(c.Journal.Shared()),
		c.Cluster.validate(), c.validateTimeout(), c.validateBrake(), validateReceivers(c.Notify), positive("sync.waiting", c.Sync.Waiting),
		c.Webhook.validate(), c.Remote.validate(), c.Schedule.validate(), c.Journal.validate(), c.Metrics.validate(), c.Log.validate())
	if c.Claim.Review == ReviewAlways && c.Tasks.Statuses.Review == "" {
		errs = append(errs, errors.New("claim.review: always needs a status for work that waits for a person's decision: name one in tasks.statuses.review"))
	}
	for _, d := range []struct {
		key       string
		is, least time.Duration
	}{
		{"claim.breaker.within", c.Claim.Breaker.Within, time.Second}, {"claim.breaker.pause", c.Claim.Breaker.Pause, time.Second},
		{"inbox.visibility", c.Inbox.Visibility, time.Second}, {"inbox.comments", c.Inbox.Comments, time.Second}, {"inbox.offer", c.Inbox.Offer, time.Second},
		{"sync.interval", c.Sync.Interval, time.Second}, {"events.keep", c.Events.Keep, time.Hour}, {"journal.keep", c.Journal.Keep, 24 * time.Hour},
	} {
		if d.is < d.least {
			least := strings.TrimSuffix(strings.TrimSuffix(d.least.String(), "0s"), "0m") // 24h, not 24h0m0s
			errs = append(errs, fmt.Errorf("%s: %v is too short: want at least %s", d.key, d.is, least))
		}
	}
	if c.Sync.KeepFinished < 0 {
		errs = append(errs, fmt.Errorf("sync.keep_finished: %v: want 0 or more", c.Sync.KeepFinished))
	}
	if n := len(c.Socket); n > maxSocketPath {
		errs = append(errs, fmt.Errorf("socket: the path has %d bytes, sockets allow %d: set a shorter one: %s", n, maxSocketPath, c.Socket))
	}
	return errors.Join(errs...)
}

func (n Notion) validate() []error {
	var errs []error
	errs = append(errs, n.validateURL()...)
	if !(n.Rate >= 0.1 && n.Rate <= 1000) { // written so that NaN fails
		errs = append(errs, fmt.Errorf("notion.rate: %v requests a second: want 0.1 to 1000", n.Rate))
	} else if most := int(n.Rate * 30); n.Burst < 2 || n.Burst > most {
		errs = append(errs, fmt.Errorf("notion.burst: want 2 (a claim reads and writes at once) to %d (half a minute's requests), got %d", most, n.Burst))
	}
	return append(errs, positive("notion.timeout", n.Timeout)...)
}

// validateURL checks the base URL. Its errors do not repeat possible secrets.
func (n Notion) validateURL() []error {
	u, err := url.Parse(n.BaseURL)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return []error{fmt.Errorf("notion.base_url: %q is not an http or https URL", hideSecrets(n.BaseURL))}
	case u.User != nil:
		return []error{fmt.Errorf("notion.base_url: %q has a user or a password in a URL, which would be logged: take it out", hideSecrets(n.BaseURL))}
	case u.Scheme == "http" && !n.Insecure && !isLoopback(u.Hostname()):
		return []error{fmt.Errorf("notion.base_url: %q would send the token over the network unencrypted: use https, or, if that is meant, set notion.insecure: true", hideSecrets(n.BaseURL))}
	}
	return nil
}

// scheme matches the beginning of a URL, even with a slash missing.
var scheme = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*:/+`)

// hideSecrets returns a text that is, or was meant to be, a URL without its possible secrets:
// everything between the scheme and the last @, because a password may contain any character, and
// everything after the path.
func hideSecrets(text string) string {
	begin := scheme.FindString(text)
	rest := text[len(begin):]
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = redacted + rest[i:]
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i+1] + redacted
	}
	return begin + rest
}

// All returns the keys, the ids and the data sources of the three databases.
func (d Databases) All() []struct{ Key, ID, Source string } {
	return []struct{ Key, ID, Source string }{
		{"databases.tasks", d.Tasks, d.TasksSource}, {"databases.task_log", d.TaskLog, d.TaskLogSource}, {"databases.mesh_log", d.MeshLog, d.MeshLogSource},
	}
}

// Named returns an error that lists the unnamed databases and says what to do. The daemon needs all
// three; commands that only talk to it need none.
func (d Databases) Named() error {
	var missing []string
	for _, db := range d.All() {
		if db.ID == "" {
			missing = append(missing, db.Key)
		}
	}
	switch len(missing) {
	case 0:
		return nil
	case 3:
		return errors.New("no databases are named: run dibs init --parent PAGE, with a page in Notion that is shared with the connection, or name your own under databases")
	}
	return fmt.Errorf("%s: not named: run dibs init --tasks URL --parent PAGE, which makes what is missing, or name it in the configuration", strings.Join(missing, " and "))
}

func (d Databases) validate() []error {
	var errs []error
	earlier := make(map[string]string)
	for _, db := range d.All() {
		if db.ID == "" { // see Named
			continue
		}
		if _, err := task.ParseID(db.ID); err != nil {
			errs = append(errs, fmt.Errorf("%s: %q is not the id of a database: want 32 hexadecimal digits, with or without dashes, or the database's URL", db.Key, hideSecrets(db.ID)))
		} else if other, ok := earlier[db.ID]; ok {
			errs = append(errs, fmt.Errorf("%s: the same database as %s", db.Key, other))
		} else {
			earlier[db.ID] = db.Key
		}
	}
	return errs
}

func (t Tasks) validate() []error {
	errs := t.distinct("tasks.properties", "claim_timeout_minutes", "priority", "depends_on", "note", "assignee", "done", "sub_items", "done_when", "touches")
	errs = append(errs, t.distinct("tasks.statuses", "review", "failed")...)
	errs = append(errs, t.distinct("tasks.priorities")...)
	if _, err := t.Scope(); err != nil {
		errs = append(errs, fmt.Errorf("tasks.only: %w", err))
	}
	return append(errs, t.validateFields()...)
}

// Scope parses Only.
func (t Tasks) Scope() ([]task.Condition, error) {
	var scope []task.Condition
	for _, s := range t.Only {
		name, value, ok := strings.Cut(task.Name(s), "=")
		c := task.Condition{Field: strings.TrimSpace(name), Value: strings.TrimSpace(value)}
		if !ok || c.Field == "" {
			return nil, fmt.Errorf("%q: want NAME=VALUE, with the name of a property of the tasks database", s)
		}
		scope = append(scope, c)
	}
	return scope, nil
}

// Selectable returns the names of the properties that tasks can be selected by: Fields, and those of
// Only.
func (t Tasks) Selectable() []string {
	names := slices.Clone(t.Fields)
	scope, _ := t.Scope() // it is validated
	for _, c := range scope {
		if !slices.Contains(names, c.Field) {
			names = append(names, c.Field)
		}
	}
	return names
}

// validateFields checks that no field is listed twice or is a property that dibs works with.
func (t Tasks) validateFields() []error {
	managed := make(map[string]string)
	for key, name := range ByKey[string](&t.Properties) {
		managed[*name] = key
	}
	delete(managed, "")
	var errs []error
	for i, field := range t.Fields {
		switch key, ok := managed[field]; {
		case strings.TrimSpace(field) == "":
			errs = append(errs, errors.New("tasks.fields: a name is empty"))
		case ok:
			errs = append(errs, fmt.Errorf("tasks.fields: %q is tasks.properties.%s, which every task shows already: leave it out", field, key))
		case slices.Contains(t.Fields[:i], field):
			errs = append(errs, fmt.Errorf("tasks.fields: %q is listed twice", field))
		}
	}
	return errs
}

// distinct returns errors for names in a section that are empty, unless they are optional, and for
// those that are used twice.
func (t Tasks) distinct(section string, optional ...string) []error {
	var errs []error
	earlier := make(map[string]string)
	for _, f := range fieldsOf(&Config{Tasks: t}) {
		key, within := strings.CutPrefix(f.key, section+".")
		if !within {
			continue
		}
		names, isList := f.target.(*[]string)
		if !isList {
			names = &[]string{*f.target.(*string)}
		}
		for _, name := range *names {
			switch other, ok := earlier[name]; {
			case name == "" && slices.Contains(optional, key):
			case name == "":
				errs = append(errs, fmt.Errorf("%s: a name is empty", f.key))
			case ok:
				errs = append(errs, fmt.Errorf("%s: %q is already the name of %s.%s", f.key, name, section, other))
			default:
				earlier[name] = key
			}
		}
	}
	return errs
}

func validateAgents(agents []Agent) []error {
	var errs []error
	earlier := make(map[string]bool)
	users := make(map[task.ID]string)
	for _, a := range agents {
		if err := task.ValidateAgent(a.Name); err != nil {
			errs = append(errs, fmt.Errorf("agents: %w", err))
			continue
		}
		if earlier[a.Name] {
			errs = append(errs, fmt.Errorf("agents: %q is listed twice", a.Name))
		}
		earlier[a.Name] = true
		switch begin := strings.TrimSuffix(a.Name, "*"); {
		case strings.Contains(begin, "*"):
			errs = append(errs, fmt.Errorf("agents: %q is no pattern: a * stands at the end only, for all names that begin like it", a.Name))
		case task.IsAgentPattern(a.Name) && (a.Lead || a.NotionUser != ""):
			errs = append(errs, fmt.Errorf("agents: %q stands for many names, and lead and notion_user are for one: list that name by itself", a.Name))
		}
		if a.NotionUser == "" {
			continue
		}
		user, err := task.ParseID(a.NotionUser)
		if other, taken := users[user]; err == nil && taken {
			errs = append(errs, fmt.Errorf("agents: %q and %q have the same notion_user, so what is assigned to it would be nobody's: give it to one of them", other, a.Name))
		}
		if users[user] = a.Name; err != nil {
			errs = append(errs, fmt.Errorf("agents: notion_user of %q: %q is not the id of a Notion user: want 32 hexadecimal digits, with or without dashes", a.Name, a.NotionUser))
		}
	}
	return errs
}

// ClockAllowance is the protocol's allowance for clocks: a claim may be overridden only that long
// after its lease has ended, plus write_window and settle.
const ClockAllowance = 10 * time.Second

// validateTimeout checks that a request ends before another agent may take its task.
func (c Config) validateTimeout() []error {
	settle := c.Claim.Settle
	if c.Journal.Shared() {
		settle = 0 // there is no settle wait
	}
	longest := c.Claim.WriteWindow + settle + ClockAllowance
	if c.Notion.Timeout <= longest || c.Claim.Exclusive && !c.Journal.Shared() { // a single daemon waits for its own requests
		return nil
	}
	return []error{fmt.Errorf("notion.timeout: %v: want at most claim.write_window, claim.settle and %v together, which is %v: a release that is longer on its way could land on the claim of the next holder",
		c.Notion.Timeout, ClockAllowance, longest)}
}

func (c Claim) validate(shared bool) []error {
	var errs []error
	if c.Timeout < time.Minute || c.Timeout%time.Minute != 0 {
		errs = append(errs, fmt.Errorf("claim.timeout: %v: want whole minutes, at least 1m: Notion keeps dates to the minute", c.Timeout))
	}
	if c.MaxLifetime < c.Timeout {
		errs = append(errs, fmt.Errorf("claim.max_lifetime: %v is shorter than claim.timeout, %v", c.MaxLifetime, c.Timeout))
	}
	errs = append(errs, positive("claim.write_window", c.WriteWindow)...)
	if c.Settle < 0 {
		errs = append(errs, fmt.Errorf("claim.settle: want 0 (with claim.exclusive only) or more, got %v", c.Settle))
	} else if c.Settle <= c.WriteWindow && !c.Exclusive && !shared {
		errs = append(errs, fmt.Errorf("claim.settle: %v must be longer than claim.write_window, %v: else a rival who read before this daemon wrote may write after it verified, and both think they won; "+
			"if this daemon is the only claimer, set claim.exclusive: true", c.Settle, c.WriteWindow))
	}
	if c.Override != OverrideAny && c.Override != OverrideOpenOnly {
		errs = append(errs, fmt.Errorf("claim.override: want %s or %s, got %q", OverrideAny, OverrideOpenOnly, string(c.Override)))
	}
	if c.Review != ReviewAsked && c.Review != ReviewAlways {
		errs = append(errs, fmt.Errorf("claim.review: want %s or %s, got %q", ReviewAsked, ReviewAlways, string(c.Review)))
	}
	if c.MaxAttempts < 0 {
		errs = append(errs, fmt.Errorf("claim.max_attempts: want 0 (any number) or more, got %d", c.MaxAttempts))
	}
	if c.MaxPerAgent < 0 {
		errs = append(errs, fmt.Errorf("claim.max_per_agent: want 0 (any number) or more, got %d", c.MaxPerAgent))
	}
	return errs
}

func (s Schedule) validate() []error {
	var errs []error
	for _, spec := range []struct{ key, value string }{
		{"schedule.sweep", s.Sweep},
		{"schedule.full_sync", s.FullSync},
	} {
		if _, err := cron.ParseStandard(spec.value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %q is not a schedule: want five cron fields or @every DURATION: %w", spec.key, spec.value, err))
		}
	}
	return errs
}

func (m Metrics) validate() []error {
	if m.Listen == "" {
		return nil
	}
	host, errs := splitListen("metrics.listen", m.Listen, "127.0.0.1:9464")
	if errs != nil {
		return errs
	}
	if !isLoopback(host) {
		return []error{fmt.Errorf("metrics.listen: %q can be reached from other machines, or may be: want a loopback address such as 127.0.0.1:9464", m.Listen)}
	}
	return nil
}

// splitListen returns the host of an address to listen on, or an error that shows an example.
func splitListen(key, address, example string) (host string, errs []error) {
	host, port, err := net.SplitHostPort(address)
	if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil {
		return "", []error{fmt.Errorf("%s: %q is not an address and a port: want one such as %s", key, address, example)}
	}
	return host, nil
}

// hookPath matches the paths that can be answered exactly.
var hookPath = regexp.MustCompile(`^/[A-Za-z0-9._~/-]*$`)

func (w Webhook) validate() []error {
	var errs []error
	if w.Listen != "" {
		_, errs = splitListen("webhook.listen", w.Listen, "127.0.0.1:7332")
	}
	if !hookPath.MatchString(w.Path) || path.Clean(w.Path) != strings.TrimSuffix(w.Path, "/") && w.Path != "/" {
		errs = append(errs, fmt.Errorf("webhook.path: %q is not a path: want one such as /notion, of letters, digits and . _ ~ -", w.Path))
	}
	return errs
}

func (r Remote) validate() []error {
	var errs []error
	if r.Listen != "" {
		_, errs = splitListen("remote.listen", r.Listen, ":7333")
	}
	if (r.CertFile == "") != (r.KeyFile == "") {
		errs = append(errs, errors.New("remote.cert_file and remote.key_file: one without the other: set both, or neither for a certificate of the daemon's own"))
	}
	for i, o := range r.OIDC {
		wrong := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("remote.oidc: entry %d: %w", i+1, fmt.Errorf(format, args...)))
		}
		if u, err := url.Parse(o.Issuer); err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && isLoopback(u.Hostname())) {
			wrong("issuer: %q is not an https URL: want the iss of its JWTs, such as https://token.actions.githubusercontent.com", o.Issuer)
		}
		if o.Audience == "" {
			wrong("audience: it is missing: want a name that only JWTs for this daemon carry, such as dibs")
		}
		if strings.Trim(o.Subject, "*") == "" {
			wrong("subject: %q would let everybody in whom the issuer knows: name whom it is about, such as repo:example/shop:*", o.Subject)
		}
		if err := task.ValidatePattern(o.Agent); err != nil {
			wrong("agent: %w", err)
		}
	}
	return errs
}

func positive(key string, d time.Duration) []error {
	if d > 0 {
		return nil
	}
	return []error{fmt.Errorf("%s: %v: want a time longer than 0", key, d)}
}

// countedFor is the least journal.keep with a limit of the day: grants are counted, and money is summed
// up, in the journal.
const countedFor = 48 * time.Hour

func (c Config) validateBrake() []error {
	var errs []error
	if _, err := c.Limits.Location(); err != nil {
		errs = append(errs, err)
	}
	for _, a := range c.Agents {
		if a.MaxPerDay > 0 && c.Journal.Keep < countedFor {
			errs = append(errs, fmt.Errorf("journal.keep: %v is too short to count what %q is granted in a day (max_per_day): want at least %v", c.Journal.Keep, a.Name, countedFor))
		}
		if a.MaxUSDPerDay > 0 && c.Journal.Keep < countedFor {
			errs = append(errs, fmt.Errorf("journal.keep: %v is too short to sum up what %q spends in a day (max_usd_per_day): want at least %v", c.Journal.Keep, a.Name, countedFor))
		}
	}
	if n := c.Claim.Breaker.Failures; n < 0 {
		errs = append(errs, fmt.Errorf("claim.breaker.failures: want 0 (never) or more, got %d", n))
	}
	return errs
}

// mostName is the longest name of a member, in bytes.
const mostName = 64

func (c Cluster) validate() []error {
	var errs []error
	if len(c.Name) > mostName || strings.ContainsFunc(c.Name, func(r rune) bool { return r < ' ' }) {
		errs = append(errs, fmt.Errorf("cluster.name: want at most %d characters in one line, got %q", mostName, c.Name))
	}
	for _, a := range []struct {
		key, address string
		reached      bool // other members connect to it
	}{{"listen", c.Listen, false}, {"advertise", c.Advertise, true}} {
		if a.address == "" {
			continue
		}
		host, port, err := net.SplitHostPort(a.address)
		n, perr := strconv.ParseUint(port, 10, 16)
		if err != nil || perr != nil || a.reached && (host == "" || n == 0) {
			errs = append(errs, fmt.Errorf("cluster.%s: %q: want an address such as 10.0.0.1:7331", a.key, a.address))
		}
	}
	return errs
}

// schemaName matches the beginnings of schema names: what PostgreSQL takes without quotes, with
// room for an id.
var schemaName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z_][a-z0-9_]{0,29}$`)
})

func (j Journal) validate() []error {
	if !schemaName().MatchString(j.Schema) {
		return []error{fmt.Errorf("journal.schema: %q: want small letters, digits and _, at most 30, such as dibs", j.Schema)}
	}
	return nil
}

func (l Log) validate() []error {
	var errs []error
	if !slices.Contains(logLevels, l.Level) {
		errs = append(errs, fmt.Errorf("log.level: %q is not a level: want one of %v", l.Level, logLevels))
	}
	if !slices.Contains(logFormats, l.Format) {
		errs = append(errs, fmt.Errorf("log.format: %q is not a format: want one of %v", l.Format, logFormats))
	}
	return errs
}

func validateReceivers(all []Receiver) []error {
	var errs []error
	for i, r := range all {
		set := 0
		for _, given := range []string{string(r.URL), r.URLFile, r.Command} {
			if strings.TrimSpace(given) != "" {
				set++
			}
		}
		same := func(o Receiver) bool { return o.URL == r.URL && o.URLFile == r.URLFile && o.Command == r.Command }
		switch {
		case set != 1:
			errs = append(errs, fmt.Errorf("notify: receiver %d: want one of url, url_file and command", i+1))
		case slices.ContainsFunc(all[:i], same):
			errs = append(errs, fmt.Errorf("notify: receiver %d is listed twice: put all that it is told of into one list", i+1))
		case r.URL != "":
			if _, err := r.Address(nil); err != nil {
				errs = append(errs, err)
			}
		}
		if !slices.Contains([]Form{"", FormSlack, FormText, FormJSON}, r.Form) {
			errs = append(errs, fmt.Errorf("notify: form: want %s, %s or %s, got %q", FormSlack, FormText, FormJSON, string(r.Form)))
		}
		for _, e := range r.On {
			if !slices.Contains(Notices, e) {
				errs = append(errs, fmt.Errorf("notify: on: want some of %v, got %q", Notices, string(e)))
			}
		}
	}
	return errs
}
