package config_test

import (
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
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func load(t *testing.T, content string) (config.Config, error) {
	t.Helper()
	return config.Load(config.Options{File: write(t, content)})
}

func TestExampleIsTheDefault(t *testing.T) {
	clean(t)
	const example = "../config.example.yaml"
	got, err := config.Load(config.Options{File: example})
	if err != nil {
		t.Fatal(err)
	}
	want, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Databases.Named(); err != nil {
		t.Errorf("the example: %v", err)
	}
	want.Databases = got.Databases // they have no default
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("config.example.yaml is not the default (-default +example):\n%s", diff)
	}

	v := viper.New()
	v.SetConfigFile(example)
	if err := v.ReadInConfig(); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	want, err := config.Load(config.Options{File: write(t, "")})
	if err != nil {
		t.Fatal(err)
	}
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Load (-want +got):\n%s", diff)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
				ClaimToken: "p5", Priority: "p6", DependsOn: "7", Note: "8", Assignee: "p9", Done: "p10", SubItems: "p11", DoneWhen: "p12",
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
		Limits:      config.Limits{Zone: "Europe/Berlin"},
		Inbox:       config.Inbox{Visibility: 10 * time.Minute, Comments: 2 * time.Minute, Offer: 5 * time.Minute},
		Sync:        config.Sync{Interval: time.Minute, Waiting: 2 * time.Second, KeepFinished: 48 * time.Hour},
		Webhook:     config.Webhook{Listen: "10.0.0.1:7332", Path: "/n-1/x"},
		Schedule:    config.Schedule{Sweep: "@every 2m", FullSync: "@every 2h"},
		Events:      config.Events{Keep: 72 * time.Hour},
		Journal:     config.Journal{Keep: 48 * time.Hour, Postgres: "postgres://db/dibs", PostgresFile: "/run/secrets/db", Schema: "mesh"},
		Socket:      "/run/d.sock",
		StateDir:    "/var/lib/d",
		SocketGroup: "agents", SocketUser: "dibs",
		Metrics: config.Metrics{Listen: "[::1]:9464"},
		Log:     config.Log{Level: "warn", Format: "json"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Load (-want +got):\n%s", diff)
	}
}

// TestEnvironmentInEmptySections sets keys by variable in sections that the file leaves empty.
func TestEnvironmentInEmptySections(t *testing.T) {
	clean(t)
	t.Setenv("DIBS_CLAIM_SETTLE", "9s")
	t.Setenv("DIBS_TASKS_STATUSES_IN_PROGRESS", "Doing")
	got, err := load(t, "claim:\ntasks: {statuses: , properties: {}}\nsocket:")
	if err != nil {
		t.Fatal(err)
	}
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
		"DIBS_TASK_ID": "t", "DIBS_TASK_TITLE": "t", "DIBS_TASK_URL": "t", "DIBS_TASK_FILE": "t", "DIBS_SUMMARY_FILE": "t", "DIBS_CLAIM_ID": "c", "DIBS_FENCE": "7", "DIBS_EVENT": "ask", "DIBS_TEXT": "t", "DIBS_TASK": "t", "DIBS_URL": "u", "DIBS_CONFIG": file, "DIBS_ACTIVE_HELP": "0", "DIBS_COMPLETION_DESCRIPTIONS": "0",
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
		if err != nil {
			t.Fatal(err)
		}
		return c.Log.Level
	}
	if got := level(config.Options{}); got != "info" {
		t.Errorf("with no file, log.level = %q, want the default", got)
	}
	dir := filepath.Join(home, "config", "dibs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("log: {level: warn}"), 0o600); err != nil {
		t.Fatal(err)
	}
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
	for _, tt := range []struct {
		name, file         string
		env                map[string]string
		options            config.Options
		wantSocket, wantIn string // wantIn: the state directory
	}{
		{
			name:       "without a runtime directory the socket is in the state directory",
			wantSocket: home + "/state/dibs/dibs.sock", wantIn: home + "/state/dibs",
		},
		{
			name:       "runtime directory",
			env:        map[string]string{"XDG_RUNTIME_DIR": "/run/user/7"},
			wantSocket: "/run/user/7/dibs/dibs.sock", wantIn: home + "/state/dibs",
		},
		{
			name:       "the socket follows the state directory",
			file:       "state_dir: /var/lib/dibs",
			wantSocket: "/var/lib/dibs/dibs.sock", wantIn: "/var/lib/dibs",
		},
		{
			name:       "home, and relative to the file",
			file:       "state_dir: ~/d\nsocket: run/s",
			wantSocket: "DIR/run/s", wantIn: home + "/d",
		},
		{
			name:       "relative to the working directory in the environment",
			file:       "socket: run/s",
			env:        map[string]string{"DIBS_SOCKET": "s"},
			wantSocket: "CWD/s", wantIn: home + "/state/dibs",
		},
		{
			name:       "options come before everything",
			file:       "socket: /run/s\nstate_dir: /var/lib/s",
			env:        map[string]string{"DIBS_SOCKET": "/run/env", "DIBS_STATE_DIR": "/var/lib/env"},
			options:    config.Options{Socket: "s", StateDir: "/var/lib/option"},
			wantSocket: "CWD/s", wantIn: "/var/lib/option",
		},
		{
			name:       "the socket follows a state directory of the options",
			options:    config.Options{StateDir: "/var/lib/option"},
			wantSocket: "/var/lib/option/dibs.sock", wantIn: "/var/lib/option",
		},
		{
			name:       "no home is needed by whoever says where everything is",
			env:        map[string]string{"HOME": "", "XDG_STATE_HOME": "", "XDG_RUNTIME_DIR": "/run/user/7"},
			wantSocket: "/run/user/7/dibs/dibs.sock", wantIn: "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			file := write(t, tt.file)
			tt.options.File = file
			got, err := config.Load(tt.options)
			if err != nil {
				t.Fatal(err)
			}
			cwd, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}
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
		if err != nil {
			t.Fatal(err)
		}
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
	if diff := cmp.Diff([]string{"notion.token", "tasks.priorities.low", "agents", "claim.settle", "log.level"}, config.Changed(a, b)); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}
