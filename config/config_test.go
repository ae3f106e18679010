package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/config"

	"github.com/adrg/xdg"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/viper"
)

// clean gives the test an empty environment and returns its home directory.
func clean(t *testing.T) string {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "DIBS_") || name == "NOTION_TOKEN" {
			t.Setenv(name, "")
		}
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
	t.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
	t.Setenv("XDG_RUNTIME_DIR", "")
	xdg.Reload()
	t.Cleanup(xdg.Reload)
	return home
}

// write writes a configuration file and returns its path.
func write(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dibs.yaml")
	do(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

// do fails the test at once if there was an error.
func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// same checks what came of a call.
func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func load(t *testing.T, content string) (config.Config, error) {
	t.Helper()
	return config.Load(config.Options{File: write(t, content)})
}

func TestExampleIsTheDefault(t *testing.T) {
	clean(t)
	const example = "../config.example.yaml"
	got, err := config.Load(config.Options{File: example})
	do(t, err)
	want, err := config.Load(config.Options{})
	do(t, err)
	if err := got.Databases.Named(); err != nil {
		t.Errorf("the example: %v", err)
	}
	want.Databases = got.Databases // they have no default
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("config.example.yaml is not the default (-default +example):\n%s", diff)
	}

	v := viper.New()
	v.SetConfigFile(example)
	do(t, v.ReadInConfig())
	for _, key := range config.Keys() {
		if !v.InConfig(key) {
			t.Errorf("config.example.yaml lacks %s", key)
		}
	}
}

func TestFile(t *testing.T) {
	clean(t)
	got, err := load(t, `
notion: {rate: 10, burst: 4, timeout: 1m30s, base_url: "http://127.0.0.1:8080/notion"}
databases:
  tasks: "11111111222233334444555555555555"
  task_log: https://www.notion.so/acme/Agent-Task-Log-AAAAAAAABBBBCCCCDDDDEEEEEEEEEEEE?v=2
tasks:
  properties: {claimed_by: Claimed by, claim_token: Token}
  statuses: {in_progress: Doing}
  priorities: {critical: [P0, Urgent], low: P3}
agents:
  - Sandman
  - {name: Oracle, uids: [0, 1000], notion_user: 6794760A1F1545CD9C650DFE42F5135A}
claim: {timeout: 45m, settle: 1s, exclusive: true, override: open_only, max_per_agent: 2, max_lifetime: 48h}
sync:            # nothing set
schedule: {sweep: "*/5 * * * *"}
socket:
log: {level: debug, format: json}
`)
	do(t, err)
	want, err := config.Load(config.Options{File: write(t, "")})
	do(t, err)
	want.Notion.Rate, want.Notion.Burst, want.Notion.Timeout = 10, 4, 90*time.Second
	want.Notion.BaseURL = "http://127.0.0.1:8080/notion"
	want.Databases.Tasks = "11111111-2222-3333-4444-555555555555"
	want.Databases.TaskLog = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
	want.Tasks.Properties.ClaimedBy, want.Tasks.Properties.ClaimToken = "Claimed by", "Token"
	want.Tasks.Statuses.InProgress = "Doing"
	want.Tasks.Priorities.Critical, want.Tasks.Priorities.Low = []string{"P0", "Urgent"}, []string{"P3"}
	want.Agents = []config.Agent{
		{Name: "Sandman"},
		{Name: "Oracle", UIDs: []int{0, 1000}, NotionUser: "6794760a-1f15-45cd-9c65-0dfe42f5135a"},
	}
	want.Claim = config.Claim{
		Timeout: 45 * time.Minute, WriteWindow: 1500 * time.Millisecond, Settle: time.Second, Exclusive: true,
		Override: config.OverrideOpenOnly, MaxPerAgent: 2, MaxLifetime: 48 * time.Hour, Review: config.ReviewAsked,
		Breaker: config.Breaker{Failures: 5, Within: 10 * time.Minute, Pause: 15 * time.Minute},
	}
	want.Schedule.Sweep = "*/5 * * * *"
	want.Log = config.Log{Level: "debug", Format: "json"}
	same(t, "Load", want, got)
}

// TestEnvironment sets every key by its variable.
func TestEnvironment(t *testing.T) {
	clean(t)
	values := map[string]string{
		"notion.token":                           "ntn_secret",
		"notion.token_file":                      "/run/token",
		"notion.base_url":                        "http://localhost:1",
		"notion.insecure":                        "true",
		"notion.comments":                        "true",
		"notion.rate":                            "2.5",
		"notion.burst":                           "7",
		"notion.timeout":                         "3s",
		"databases.tasks":                        "11111111-2222-3333-4444-555555555555",
		"databases.tasks_source":                 "Sprint 12",
		"databases.task_log_source":              "41111111222233334444555555555555",
		"databases.mesh_log_source":              "Mesh",
		"databases.task_log":                     "21111111-2222-3333-4444-555555555555",
		"databases.mesh_log":                     "31111111-2222-3333-4444-555555555555",
		"tasks.properties.status":                "p1",
		"tasks.properties.claimed_by":            "p2",
		"tasks.properties.claimed_at":            "p3",
		"tasks.properties.claim_timeout_minutes": "p4",
		"tasks.properties.claim_token":           "p5",
		"tasks.properties.priority":              "p6",
		"tasks.properties.depends_on":            "7",
		"tasks.properties.note":                  "8",
		"tasks.properties.done":                  "p10",
		"tasks.properties.assignee":              "p9",
		"tasks.properties.sub_items":             "p11",
		"tasks.properties.done_when":             "p12",
		"tasks.properties.touches":               "p13",
		"tasks.statuses.open":                    "s1",
		"tasks.statuses.in_progress":             "s2",
		"tasks.statuses.blocked":                 "s3",
		"tasks.statuses.completed":               "s4",
		"tasks.statuses.cancelled":               "s5",
		"tasks.statuses.review":                  "Review",
		"tasks.statuses.failed":                  "Failed",
		"tasks.priorities.critical":              "P0, Urgent",
		"tasks.priorities.high":                  `["P1, or so"]`,
		"tasks.priorities.medium":                "P2",
		"tasks.priorities.low":                   "P3",
		"tasks.fields":                           `["Done when", "Area, or so"]`,
		"tasks.only":                             `["Area=Agents, or so", "Ready=true"]`,
		"agents":                                 `["Sandman", {"name": "Oracle", "uids": [1000], "lead": true, "max_per_agent": 0}, {"name": "agent-*", "max_per_agent": 2, "max_per_day": 20, "max_usd_per_day": 2.5}]`,
		"claim.timeout":                          "5m",
		"claim.write_window":                     "4s",
		"claim.settle":                           "2s",
		"claim.override":                         "open_only",
		"claim.exclusive":                        "true",
		"claim.max_per_agent":                    "3",
		"claim.max_lifetime":                     "6h",
		"claim.max_attempts":                     "3",
		"claim.breaker.failures":                 "4",
		"claim.breaker.within":                   "5m",
		"claim.breaker.pause":                    "1h",
		"limits.zone":                            "Europe/Berlin",
		"claim.todos":                            "true",
		"claim.review":                           "always",
		"inbox.visibility":                       "10m",
		"inbox.comments":                         "2m",
		"inbox.offer":                            "5m",
		"notify":                                 `[{"url": "https://ntfy.sh/t", "on": ["ask", "lost"]}, {"url_file": "/run/url", "form": "json", "insecure": true}, {"command": "notify-send"}]`,
		"cluster.name":                           "north",
		"cluster.listen":                         "10.0.0.1:7331",
		"cluster.advertise":                      "gate.example:7331",
		"sync.interval":                          "1m",
		"sync.waiting":                           "2s",
		"sync.keep_finished":                     "48h",
		"webhook.listen":                         "10.0.0.1:7332",
		"webhook.path":                           "/n-1/x",
		"remote.listen":                          ":7333",
		"remote.cert_file":                       "/run/cert.pem",
		"remote.key_file":                        "/run/key.pem",
		"remote.oidc":                            `[{"issuer": "https://gitlab.example", "audience": "dibs", "subject": "project_path:a/*", "agent": "ci-*"}]`,
		"schedule.sweep":                         "@every 2m",
		"schedule.full_sync":                     "@every 2h",
		"events.keep":                            "72h",
		"journal.keep":                           "48h",
		"socket":                                 "/run/d.sock",
		"socket_group":                           "agents",
		"socket_user":                            "dibs",
		"journal.postgres":                       "postgres://db/dibs",
		"journal.postgres_file":                  "/run/secrets/db",
		"journal.schema":                         "mesh",
		"state_dir":                              "/var/lib/d",
		"metrics.listen":                         "[::1]:9464",
		"log.level":                              "warn",
		"log.format":                             "json",
	}
	for _, key := range config.Keys() {
		if values[key] == "" {
			t.Fatalf("the test lacks a value for %s", key)
		}
		t.Setenv("DIBS_"+strings.ToUpper(strings.ReplaceAll(key, ".", "_")), values[key])
	}
	got, err := load(t, "claim: {settle: 9s}\ntasks: {statuses: {in_progress: Doing}}\n") // the environment wins
	do(t, err)
	want := config.Config{
		Notion: config.Notion{
			Token: "ntn_secret", TokenFile: "/run/token", BaseURL: "http://localhost:1", Insecure: true, Comments: true,
			Rate: 2.5, Burst: 7, Timeout: 3 * time.Second,
		},
		Databases: config.Databases{
			Tasks:         "11111111-2222-3333-4444-555555555555",
			TasksSource:   "Sprint 12",
			TaskLog:       "21111111-2222-3333-4444-555555555555",
			TaskLogSource: "41111111222233334444555555555555",
			MeshLog:       "31111111-2222-3333-4444-555555555555",
			MeshLogSource: "Mesh",
		},
		Tasks: config.Tasks{
			Properties: config.Properties{
				Status: "p1", ClaimedBy: "p2", ClaimedAt: "p3", ClaimTimeoutMinutes: "p4",
				ClaimToken: "p5", Priority: "p6", DependsOn: "7", Note: "8", Assignee: "p9", Done: "p10", SubItems: "p11", DoneWhen: "p12", Touches: "p13",
			},
			Statuses: config.Statuses{Open: "s1", InProgress: "s2", Blocked: "s3", Completed: "s4", Cancelled: "s5", Review: "Review", Failed: "Failed"},
			Priorities: config.Priorities{
				Critical: []string{"P0", "Urgent"}, High: []string{"P1, or so"}, Medium: []string{"P2"}, Low: []string{"P3"},
			},
			Fields: []string{"Done when", "Area, or so"},
			Only:   []string{"Area=Agents, or so", "Ready=true"},
		},
		Agents: []config.Agent{{Name: "Sandman"}, {Name: "Oracle", UIDs: []int{1000}, Lead: true, MaxPerAgent: new(0)}, {Name: "agent-*", MaxPerAgent: new(2), MaxPerDay: 20, MaxUSDPerDay: 2.5}},
		Claim: config.Claim{
			Timeout: 5 * time.Minute, WriteWindow: 4 * time.Second, Settle: 2 * time.Second,
			Override: config.OverrideOpenOnly, Exclusive: true, MaxPerAgent: 3, MaxLifetime: 6 * time.Hour, MaxAttempts: 3, Todos: true, Review: config.ReviewAlways,
			Breaker: config.Breaker{Failures: 4, Within: 5 * time.Minute, Pause: time.Hour},
		},
		Cluster: config.Cluster{Name: "north", Listen: "10.0.0.1:7331", Advertise: "gate.example:7331"},
		Notify: []config.Receiver{
			{URL: "https://ntfy.sh/t", On: []config.Notice{config.NoticeAsk, config.NoticeLost}},
			{URLFile: "/run/url", Form: config.FormJSON, Insecure: true}, {Command: "notify-send"},
		},
		Limits:  config.Limits{Zone: "Europe/Berlin"},
		Inbox:   config.Inbox{Visibility: 10 * time.Minute, Comments: 2 * time.Minute, Offer: 5 * time.Minute},
		Sync:    config.Sync{Interval: time.Minute, Waiting: 2 * time.Second, KeepFinished: 48 * time.Hour},
		Webhook: config.Webhook{Listen: "10.0.0.1:7332", Path: "/n-1/x"},
		Remote: config.Remote{
			Listen: ":7333", CertFile: "/run/cert.pem", KeyFile: "/run/key.pem",
			OIDC: []config.Issuer{{Issuer: "https://gitlab.example", Audience: "dibs", Subject: "project_path:a/*", Agent: "ci-*"}},
		},
		Schedule:    config.Schedule{Sweep: "@every 2m", FullSync: "@every 2h"},
		Events:      config.Events{Keep: 72 * time.Hour},
		Journal:     config.Journal{Keep: 48 * time.Hour, Postgres: "postgres://db/dibs", PostgresFile: "/run/secrets/db", Schema: "mesh"},
		Socket:      "/run/d.sock",
		StateDir:    "/var/lib/d",
		SocketGroup: "agents", SocketUser: "dibs",
		Metrics: config.Metrics{Listen: "[::1]:9464"},
		Log:     config.Log{Level: "warn", Format: "json"},
	}
	same(t, "Load", want, got)
}

// TestEnvironmentInEmptySections sets keys by variable in sections that the file leaves empty.
func TestEnvironmentInEmptySections(t *testing.T) {
	clean(t)
	t.Setenv("DIBS_CLAIM_SETTLE", "9s")
	t.Setenv("DIBS_TASKS_STATUSES_IN_PROGRESS", "Doing")
	got, err := load(t, "claim:\ntasks: {statuses: , properties: {}}\nsocket:")
	do(t, err)
	if got.Claim.Settle != 9*time.Second || got.Claim.WriteWindow != 1500*time.Millisecond || got.Tasks.Statuses.InProgress != "Doing" || got.Tasks.Statuses.Open != "OPEN" {
		t.Errorf("claim %+v, statuses %+v", got.Claim, got.Tasks.Statuses)
	}
}

// TestOtherVariables sets variables that are no keys. An empty variable sets nothing.
func TestOtherVariables(t *testing.T) {
	clean(t)
	file := write(t, "")
	for name, value := range map[string]string{
		"DIBS_AGENT": "Sandman", "DIBS_SESSION": "s",
		"DIBS_TASK_ID": "t", "DIBS_TASK_TITLE": "t", "DIBS_TASK_URL": "t", "DIBS_TASK_FILE": "t", "DIBS_SUMMARY_FILE": "t", "DIBS_CLAIM_ID": "c", "DIBS_FENCE": "7", "DIBS_WORKTREE": "w", "DIBS_BRANCH": "b", "DIBS_BASE": "c", "DIBS_ATTEMPT": "2", "DIBS_PUBLISHED": "u", "DIBS_EVENT": "ask", "DIBS_TEXT": "t", "DIBS_TASK": "t", "DIBS_DOWNLOADS": "d", "DIBS_URL": "u", "DIBS_TOKEN": "t", "DIBS_TOKEN_FILE": "f", "DIBS_TOKEN_COMMAND": "c", "DIBS_FINGERPRINT": "f", "DIBS_CONFIG": file, "DIBS_ACTIVE_HELP": "0", "DIBS_COMPLETION_DESCRIPTIONS": "0",
		"DIBS_CLAIM_SETLE": "", "DIBSON": "1", "NOTION_TOKEN": "ntn_secret",
	} {
		t.Setenv(name, value)
	}
	if _, err := config.Load(config.Options{}); err != nil {
		t.Error(err)
	}
	t.Setenv("DIBS_CLAIM_SETLE", "4s")
	if _, err := config.Load(config.Options{File: file, FileOnly: true}); err != nil {
		t.Errorf("with the environment left out: %v", err)
	}
}

func TestWhereTheFileIs(t *testing.T) {
	home := clean(t)
	level := func(o config.Options) string {
		t.Helper()
		c, err := config.Load(o)
		do(t, err)
		return c.Log.Level
	}
	if got := level(config.Options{}); got != "info" {
		t.Errorf("with no file, log.level = %q, want the default", got)
	}
	dir := filepath.Join(home, "config", "dibs")
	do(t, os.MkdirAll(dir, 0o700))
	do(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("log: {level: warn}"), 0o600))
	if got := level(config.Options{}); got != "warn" {
		t.Errorf("with a file in XDG_CONFIG_HOME, log.level = %q, want warn", got)
	}
	t.Setenv("DIBS_CONFIG", write(t, "log: {level: error}"))
	if got := level(config.Options{}); got != "error" {
		t.Errorf("with DIBS_CONFIG, log.level = %q, want error", got)
	}
	if got := level(config.Options{File: write(t, "log: {level: debug}")}); got != "debug" {
		t.Errorf("with a file named, log.level = %q, want debug", got)
	}
	missing := filepath.Join(home, "nowhere.yaml")
	if _, err := config.Load(config.Options{File: missing}); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("with a file that is not there, Load = %v, want an error that names it", err)
	}
}

func TestPaths(t *testing.T) {
	home := clean(t)
	type env map[string]string
	for name, tt := range map[string]struct {
		file               string
		env                env
		options            config.Options
		wantSocket, wantIn string // wantIn: the state directory
	}{
		"without a runtime directory the socket is in the state directory": {"", nil, config.Options{}, home + "/state/dibs/dibs.sock", home + "/state/dibs"},
		"runtime directory":                                    {"", env{"XDG_RUNTIME_DIR": "/run/user/7"}, config.Options{}, "/run/user/7/dibs/dibs.sock", home + "/state/dibs"},
		"the socket follows the state directory":               {"state_dir: /var/lib/dibs", nil, config.Options{}, "/var/lib/dibs/dibs.sock", "/var/lib/dibs"},
		"home, and relative to the file":                       {"state_dir: ~/d\nsocket: run/s", nil, config.Options{}, "DIR/run/s", home + "/d"},
		"relative to the working directory in the environment": {"socket: run/s", env{"DIBS_SOCKET": "s"}, config.Options{}, "CWD/s", home + "/state/dibs"},
		"options come before everything": {
			"socket: /run/s\nstate_dir: /var/lib/s", env{"DIBS_SOCKET": "/run/env", "DIBS_STATE_DIR": "/var/lib/env"},
			config.Options{Socket: "s", StateDir: "/var/lib/option"}, "CWD/s", "/var/lib/option",
		},
		"the socket follows a state directory of the options":   {"", nil, config.Options{StateDir: "/var/lib/option"}, "/var/lib/option/dibs.sock", "/var/lib/option"},
		"no home is needed by whoever says where everything is": {"", env{"HOME": "", "XDG_STATE_HOME": "", "XDG_RUNTIME_DIR": "/run/user/7"}, config.Options{}, "/run/user/7/dibs/dibs.sock", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			file := write(t, tt.file)
			tt.options.File = file
			got, err := config.Load(tt.options)
			do(t, err)
			cwd, err := os.Getwd()
			do(t, err)
			socket := strings.NewReplacer("DIR", filepath.Dir(file), "CWD", cwd).Replace(tt.wantSocket)
			if got.Socket != socket || got.StateDir != tt.wantIn {
				t.Errorf("socket %s, state_dir %s; want %s and %s", got.Socket, got.StateDir, socket, tt.wantIn)
			}
		})
	}
}

// TestLongPlaces looks for the socket of directories that are too long for one.
func TestLongPlaces(t *testing.T) {
	clean(t)
	sockets := make(map[string]bool)
	for _, last := range []string{"a", "b", "a"} {
		t.Setenv("DIBS_STATE_DIR", "/"+strings.Repeat("d", 100)+last)
		c, err := config.Load(config.Options{})
		do(t, err)
		sockets[c.Socket] = true
	}
	if len(sockets) != 2 {
		t.Errorf("two directories have the sockets %v", sockets)
	}
}

func TestChanged(t *testing.T) {
	a, b := config.Default(), config.Default()
	if got := config.Changed(a, b); got != nil {
		t.Errorf("of equal configurations %v changed", got)
	}
	b.Notion.Token, b.Claim.Settle, b.Log.Level = "ntn_other", time.Minute, "debug"
	b.Agents = []config.Agent{{Name: "Sandman", UIDs: []int{1}}}
	b.Tasks.Priorities.Low = []string{"P3"}
	same(t, "changed", []string{"notion.token", "tasks.priorities.low", "agents", "claim.settle", "log.level"}, config.Changed(a, b))
}

func TestMistakes(t *testing.T) {
	clean(t)
	for _, tt := range []struct {
		name, file string
		env        map[string]string
		want       []string // all in the error
		wantNot    string   // not in the error
	}{
		{name: "unknown key", file: "claim: {timeuot: 5m}", want: []string{"unknown key claim.timeuot in FILE: did you mean claim.timeout?"}},
		{name: "unknown key, three letters more", file: "claim: {settlement: 5m}", want: []string{"did you mean claim.settle?"}},
		{name: "unknown section", file: "clam: {timeout: 5m}", want: []string{"unknown key clam.timeout in FILE: did you mean claim.timeout?"}},
		{name: "key in the wrong section", file: "in_progress: Doing", want: []string{"unknown key in_progress in FILE: did you mean tasks.statuses.in_progress?"}},
		{name: "key that several sections have", file: "timeout: 5m", want: []string{"unknown key timeout in FILE"}, wantNot: "did you mean"},
		{name: "unknown key, nothing like it", file: "colour_of_the_bikeshed: blue", want: []string{"unknown key colour_of_the_bikeshed in FILE"}, wantNot: "did you mean"},
		{name: "value for a section", file: "claim: 5m", want: []string{"claim: want a section with some of the keys timeout, write_window"}},
		{name: "section for a value", file: "socket: {path: /x}", want: []string{"socket: want a value, got a section"}},
		{name: "not YAML", file: "claim: [", want: []string{"configuration file FILE: yaml: "}},
		{name: "key given twice", file: "socket: /a\nsocket: /b", want: []string{`configuration file FILE: yaml: unmarshal errors: line 2: mapping key "socket" already defined at line 1`}},

		{name: "duration without a unit", file: "claim: {timeout: 30}", want: []string{"claim.timeout: want a duration such as 90s or 30m, got 30 (in FILE)"}},
		{name: "no duration", file: "claim: {timeout: soon}", want: []string{"claim.timeout: want a duration", "soon"}},
		{name: "quoted bool", file: `claim: {exclusive: "true"}`, want: []string{"claim.exclusive: want true or false, got true (in FILE)"}},
		{name: "id that YAML takes for a number", file: "databases: {tasks: 11111111222233334444555555555555}", want: []string{"databases.tasks: want text", "put it in quotes"}},
		{name: "number for text", file: "tasks: {statuses: {open: 1}}", want: []string{"tasks.statuses.open: want text, got 1"}},
		{name: "text for a number", file: "notion: {rate: fast}", want: []string{"notion.rate: want a number, got fast"}},
		{name: "fraction for a whole number", file: "notion: {burst: 2.5}", want: []string{"notion.burst: want a whole number, got 2.5"}},
		{name: "number for a list", file: "tasks: {priorities: {high: 1}}", want: []string{"tasks.priorities.high: want a list, got 1"}},
		{name: "number in a list", file: "tasks: {priorities: {high: [1]}}", want: []string{"tasks.priorities.high: want text, got 1"}},
		{name: "agent with an unknown key", file: "agents: [{name: Oracle, uid: [1]}]", want: []string{"agents: uid: unknown key: an agent has name, uids, notion_user, lead, max_per_agent, max_per_day and max_usd_per_day"}},
		{name: "agent with names for uids", file: "agents: [{name: Oracle, uids: [root]}]", want: []string{"agents: uids: root is not a user id"}},
		{name: "agent with a negative uid", file: "agents: [{name: Oracle, uids: [-1]}]", want: []string{"agents: uids: -1 is not a user id"}},
		{name: "agent with too large a uid", file: "agents: [{name: Oracle, uids: [4294967296]}]", want: []string{"agents: uids: 4294967296 is not a user id"}},
		{name: "agent with uids without a value", file: "agents: [{name: Oracle, uids: }]", want: []string{"agents: uids: want a list of user ids, got nothing (in FILE)"}},
		{name: "list for a secret", file: "journal: {postgres: [hush]}", want: []string{"journal.postgres: want text"}, wantNot: "hush"},
		{name: "agent with a negative limit", file: "agents: [{name: Oracle, max_per_agent: -1}]", want: []string{"agents: max_per_agent: -1: want a whole number, 0 (any number) or more"}},
		{name: "agent with negative money", file: "agents: [{name: Oracle, max_usd_per_day: -1}]", want: []string{"agents: max_usd_per_day: -1: want US dollars, 0.01 to 1000000, or 0 for any amount"}},
		{name: "agent with money that is no number", file: "agents: [{name: Oracle, max_usd_per_day: .nan}]", want: []string{"agents: max_usd_per_day: NaN: want US dollars"}},
		{name: "money that is forgotten too soon", file: "agents: [{name: Oracle, max_usd_per_day: 1}]\njournal: {keep: 47h}", want: []string{`journal.keep: 47h0m0s is too short to sum up what "Oracle" spends in a day (max_usd_per_day): want at least 48h0m0s`}},
		{name: "agent with money in words", file: "agents: [{name: Oracle, max_usd_per_day: much}]", want: []string{"agents: max_usd_per_day: much: want US dollars"}},
		{name: "agent with a limit in words", file: "agents: [{name: Oracle, max_per_agent: one}]", want: []string{"agents: max_per_agent: one: want a whole number"}},
		{name: "agent called auto", file: "agents: [auto]", want: []string{`agents: "auto" is no agent's name: it asks for one to be minted`}},
		{name: "pattern with a star within", file: "agents: ['a*b']", want: []string{`agents: "a*b" is `, "a * stands at the end"}},
		{name: "pattern with two stars", file: "agents: ['a**']", want: []string{`agents: "a**" is `, "a * stands at the end"}},
		{name: "one user for two agents", file: "agents: [{name: A, notion_user: 6794760a-1f15-45cd-9c65-0dfe42f5135a}, {name: B, notion_user: 6794760A1F1545CD9C650DFE42F5135A}]", want: []string{`agents: "A" and "B" have the same notion_user`}},
		{name: "pattern that leads", file: "agents: [{name: 'a*', lead: true}]", want: []string{`agents: "a*" stands for many names, and lead and notion_user are for one`}},
		{name: "pattern with a user", file: "agents: [{name: 'a*', notion_user: 6794760a-1f15-45cd-9c65-0dfe42f5135a}]", want: []string{`agents: "a*" stands for many names`}},
		{name: "receiver that is none", file: "notify: https://hush.example/", want: []string{"notify: want sections such as {url: …"}, wantNot: "hush"},
		{name: "receiver outside of a list", file: "notify: {url: https://hush.example/}", want: []string{"notify"}, wantNot: "hush"},
		{name: "receiver with an unknown key", file: "notify: [{addr: https://hush.example/}]", want: []string{"notify: addr: unknown key: a receiver has url, url_file or command, and form, on and insecure"}, wantNot: "hush"},
		{name: "receiver of no text", file: "notify: [{command: [curl, hush]}]", want: []string{"notify: command: want text"}, wantNot: "hush"},
		{name: "receiver of nothing", file: "notify: [{on: [ask]}]", want: []string{"notify: receiver 1: want one of url, url_file and command"}},
		{name: "receiver at two places", file: "notify: [{url: 'https://hush.example/', command: x}]", want: []string{"notify: receiver 1: want one of"}, wantNot: "hush"},
		{name: "receiver twice", file: "notify: [{command: x}, {command: x, on: ask}]", want: []string{"notify: receiver 2 is listed twice"}},
		{name: "receiver that is no address", file: "notify: [{url: 'ftp://example.com/hush'}]", want: []string{"notify: an address is not an http or https URL"}, wantNot: "hush"},
		{name: "receiver without encryption", file: "notify: [{url: 'http://a:hush@example.com/hush'}]", want: []string{"notify: http://example.com would get", "insecure: true"}, wantNot: "hush"},
		{name: "receiver of unknown notices", file: "notify: [{command: x, on: [asks]}]", want: []string{`notify: on: want some of [ask block review lost stuck paused], got "asks"`}},
		{name: "receiver of an unknown form", file: "notify: [{command: x, form: xml}]", want: []string{`notify: form: want slack, text or json, got "xml"`}},
		{name: "environment", env: map[string]string{"DIBS_CLAIM_EXCLUSIVE": "maybe"}, want: []string{"claim.exclusive: want true or false, got maybe (in DIBS_CLAIM_EXCLUSIVE)"}},
		{name: "environment, number", env: map[string]string{"DIBS_NOTION_BURST": "many"}, want: []string{"notion.burst: want a whole number, got many (in DIBS_NOTION_BURST)"}},
		{name: "environment, list", env: map[string]string{"DIBS_AGENTS": "[Sandman"}, want: []string{"agents: want names with commas between them or a JSON array"}},
		{name: "review of everything without a status", file: "claim: {review: always}", want: []string{"claim.review: always needs a status for work that waits for a person's decision"}},
		{name: "review of what?", file: "claim: {review: never}", want: []string{`claim.review: want asked or always, got "never"`}},
		{name: "unknown variable", env: map[string]string{"DIBS_CLAIM_SETLE": "4s"}, want: []string{"unknown variable DIBS_CLAIM_SETLE in the environment: did you mean DIBS_CLAIM_SETTLE?"}},
		{name: "unknown variable without its section", env: map[string]string{"DIBS_SETTLE": "4s"}, want: []string{"unknown variable DIBS_SETTLE in the environment: did you mean DIBS_CLAIM_SETTLE?"}},
		{name: "unknown variable, nothing like it", env: map[string]string{"DIBS_BIKESHED_COLOUR": "blue"}, want: []string{"unknown variable DIBS_BIKESHED_COLOUR in the environment"}, wantNot: "did you mean"},
		{name: "unknown variable with a secret", env: map[string]string{"DIBS_NOTION_TOKN": "ntn_secret"}, want: []string{"did you mean DIBS_NOTION_TOKEN?"}, wantNot: "ntn_secret"},
		{name: "unknown variable and key", file: "a_thing: 1", env: map[string]string{"DIBS_ANOTHER_THING": "1"}, want: []string{"unknown key a_thing", "unknown variable DIBS_ANOTHER_THING"}},
		{name: "two tokens", file: "notion: {token: a, token_file: b}", want: []string{"notion.token and notion.token_file are both set"}},

		{name: "metrics without a port", file: "metrics: {listen: 127.0.0.1}", want: []string{`metrics.listen: "127.0.0.1" is not an address and a port`}},
		{name: "metrics on all addresses", file: "metrics: {listen: ':9464'}", want: []string{`metrics.listen: ":9464" can be reached from other machines, or may be: want a loopback address`}},
		{name: "metrics on a named port", file: "metrics: {listen: '127.0.0.1:http'}", want: []string{"metrics.listen: ", "want one such as 127.0.0.1:9464"}},
		{name: "base URL", file: "notion: {base_url: api.notion.com}", want: []string{"notion.base_url: ", "not an http or https URL"}},
		{name: "rate", file: "notion: {rate: 0}", want: []string{"notion.rate: 0 requests a second"}},
		{name: "rate, not a number", file: "notion: {rate: .nan}", want: []string{"notion.rate: NaN"}},
		{name: "burst too small", file: "notion: {burst: 1}", want: []string{"notion.burst: want 2 (a claim reads and writes at once) to 90"}},
		{name: "burst too large", file: "notion: {burst: 91}", want: []string{"notion.burst: want 2"}},
		{name: "request timeout", file: "notion: {timeout: 0s}", want: []string{"notion.timeout: 0s"}},
		{name: "database", file: "databases: {tasks: Tasks}", want: []string{`databases.tasks: "Tasks" is not the id of a database`}},
		{name: "same database, spelled otherwise", file: "databases: {tasks: 2FA35E812BBB81808F74CBD9ACD08B52, task_log: 2fa35e81-2bbb-8180-8f74-cbd9acd08b52}", want: []string{"databases.task_log: the same database as databases.tasks"}},
		{name: "empty database", file: "databases: {tasks: ' '}", want: []string{`databases.tasks: " " is not the id of a database`}},
		{name: "property", file: "tasks: {properties: {status: ''}}", want: []string{"tasks.properties.status: a name is empty"}},
		{name: "no claim token", file: `tasks: {properties: {claim_token: ""}}`, want: []string{"tasks.properties.claim_token: a name is empty"}},
		{name: "same property", file: "tasks: {properties: {claim_token: claimed_by}}", want: []string{`tasks.properties.claim_token: "claimed_by" is already the name of tasks.properties.claimed_by`}},
		{name: "status", file: "tasks: {statuses: {open: ''}}", want: []string{"tasks.statuses.open: a name is empty"}},
		{name: "same status", file: "tasks: {statuses: {blocked: OPEN}}", want: []string{`tasks.statuses.blocked: "OPEN" is already the name of tasks.statuses.open`}},
		{name: "same priority", file: "tasks: {priorities: {high: [urgent], low: [later, urgent]}}", want: []string{`tasks.priorities.low: "urgent" is already the name of tasks.priorities.high`}},
		{name: "empty priority", file: "tasks: {priorities: {high: ['']}}", want: []string{"tasks.priorities.high: a name is empty"}},
		{name: "agent name", file: `agents: [" Oracle"]`, want: []string{"agents: agent name", "space"}},
		{name: "a field that is a property", file: "tasks: {properties: {priority: Prio}, fields: [Sprint, Prio]}", want: []string{`tasks.fields: "Prio" is tasks.properties.priority, which every task shows already: leave it out`}},
		{name: "a condition without a value", file: "tasks: {only: [Sprint]}", want: []string{`tasks.only: "Sprint": want NAME=VALUE`}},
		{name: "a field twice", file: "tasks: {fields: [Sprint, Area, Sprint]}", want: []string{`tasks.fields: "Sprint" is listed twice`}},
		{name: "a field without a name", file: "tasks: {properties: {note: ''}, fields: [Sprint, '']}", want: []string{"tasks.fields: a name is empty"}},
		{name: "a number for a field", file: "tasks: {fields: [1]}", want: []string{"tasks.fields: want text, got 1: if that is meant, put it in quotes"}},
		{name: "agent twice", file: "agents: [Oracle, {name: Oracle}]", want: []string{`agents: "Oracle" is listed twice`}},
		{name: "agent's Notion user", file: "agents: [{name: Oracle, notion_user: oracle@example.com}]", want: []string{`agents: notion_user of "Oracle"`}},
		{name: "short lease", file: "claim: {timeout: 59s}", want: []string{"claim.timeout: 59s: want whole minutes"}},
		{name: "lease with seconds", file: "claim: {timeout: 90s}", want: []string{"claim.timeout: 1m30s: want whole minutes"}},
		{name: "short life", file: "claim: {max_lifetime: 29m}", want: []string{"claim.max_lifetime: 29m0s is shorter than claim.timeout, 30m0s"}},
		{name: "write window", file: "claim: {write_window: -1s}", want: []string{"claim.write_window: -1s"}},
		{name: "settle", file: "claim: {settle: 1500ms}", want: []string{"claim.settle: 1.5s must be longer than claim.write_window, 1.5s: ", "claim.exclusive: true"}},
		{name: "timeout", file: "notion: {timeout: 14s}", want: []string{"notion.timeout: 14s: want at most", "which is 13.1s"}},
		{name: "settle of an exclusive daemon", file: "claim: {settle: -1s, exclusive: true}", want: []string{"claim.settle: want 0", "got -1s"}},
		{name: "override", file: "claim: {override: never}", want: []string{`claim.override: want any or open_only, got "never"`}},
		{name: "limit of a day that is forgotten", file: "agents: [{name: Oracle, max_per_day: 3}]\njournal: {keep: 25h}", want: []string{`journal.keep: 25h0m0s is too short to count what "Oracle" is granted in a day`}},
		{name: "no time zone", file: "limits: {zone: Berlin}", want: []string{`limits.zone: "Berlin" is not a time zone: want a name such as Europe/Berlin or UTC`}},
		{name: "breaker", file: "claim: {breaker: {failures: -1, within: 0s, pause: 1ms}}", want: []string{"claim.breaker.failures: ", "claim.breaker.within: ", "claim.breaker.pause: "}},
		{name: "limit", file: "claim: {max_per_agent: -1}", want: []string{"claim.max_per_agent: "}},
		{name: "lead", file: "agents: [{name: Oracle, lead: maybe}]", want: []string{"agents: lead: want true or false, got maybe"}},
		{name: "visibility", file: "inbox: {visibility: 0s}", want: []string{"inbox.visibility: 0s is too short: want at least 1s"}},
		{name: "comments", file: "inbox: {comments: 999ms}", want: []string{"inbox.comments: 999ms is too short"}},
		{name: "offer", file: "inbox: {offer: -1m}", want: []string{"inbox.offer: -1m0s is too short"}},
		{name: "journal", file: "journal: {keep: 23h}", want: []string{"journal.keep: 23h0m0s is too short"}},
		{name: "events", file: "events: {keep: 59m}", want: []string{"events.keep: 59m0s is too short"}},
		{name: "sync interval", file: "sync: {interval: 999ms}", want: []string{"sync.interval: 999ms is too short"}},
		{name: "schedule", file: "schedule: {sweep: hourly}", want: []string{`schedule.sweep: "hourly" is not a schedule`}},
		{name: "socket path", file: "socket: /" + strings.Repeat("s", 103), want: []string{"socket: the path has 104 bytes, sockets allow 103"}},
		{name: "log level", file: "log: {level: loud}", want: []string{`log.level: "loud" is not a level`}},
		{name: "log format", file: "log: {format: xml}", want: []string{`log.format: "xml" is not a format`}},
		{name: "all at once", file: "log: {format: xml}\nclaim: {settle: 1s}\nsync: {interval: 0s}", want: []string{"log.format", "claim.settle", "sync.interval"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			file := write(t, tt.file)
			_, err := config.Load(config.Options{File: file})
			if err == nil {
				t.Fatal("Load accepted it")
			}
			if tt.wantNot != "" && strings.Contains(err.Error(), tt.wantNot) {
				t.Errorf("Load = %v\nwant it not to say %q", err, tt.wantNot)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), strings.ReplaceAll(want, "FILE", file)) {
					t.Errorf("Load = %v\nwant it to say %q", err, want)
				}
			}
		})
	}
}

// TestFormerKeys loads configurations of earlier versions: the error says what to write instead.
func TestFormerKeys(t *testing.T) {
	clean(t)
	t.Setenv("DIBS_CLUSTER_PASSWORD_FILE", "/run/hush")
	_, err := load(t, "cluster: {etcd: ['http://dibs:hush@10.0.0.1:2379'], prefix: /dibs, tls: {ca: c.pem}}")
	for _, key := range []string{"cluster.etcd is", "cluster.prefix is", "cluster.tls.ca is", "DIBS_CLUSTER_PASSWORD_FILE in the environment is"} {
		if err == nil || !strings.Contains(err.Error(), key+" no longer read") || !strings.Contains(err.Error(), "set journal.postgres") {
			t.Errorf("Load = %v\nwant it to say of %s what to write instead", err, key)
		}
	}
	if strings.Contains(fmt.Sprint(err), "hush") {
		t.Errorf("Load = %v, which tells a secret", err)
	}
	t.Setenv("DIBS_CLUSTER_PASSWORD_FILE", "")
	t.Setenv("DIBS_NAMES_KEEP", "24h")
	_, err = load(t, "names: {prefix: worker}")
	if gone, ok := errors.AsType[*config.FormerError](err); !ok || gone.Setting() != "names.prefix" {
		t.Errorf("Load = %v, want a FormerError", err)
	}
	for _, said := range []string{"names.prefix is no longer read, as minted names begin with agent", "DIBS_NAMES_KEEP in the environment is no longer read, as sessions keep their names for a week"} {
		if !strings.Contains(fmt.Sprint(err), said) {
			t.Errorf("Load = %v\nwant %q in it", err, said)
		}
	}
}

// TestLongestSocketPath accepts the longest path; a longer one is refused above.
func TestLongestSocketPath(t *testing.T) {
	clean(t)
	if _, err := load(t, "socket: /"+strings.Repeat("s", 102)); err != nil {
		t.Error(err)
	}
}
