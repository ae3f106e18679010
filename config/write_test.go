package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/config"

	"github.com/google/go-cmp/cmp"
)

// TestWrittenIsReadAgain writes a configuration without default values, and reads it back.
func TestWrittenIsReadAgain(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "")
	path := filepath.Join(t.TempDir(), "new", "config.yaml")
	c, err := config.Load(config.Options{File: path, New: true})
	do(t, err)
	c.Notion = config.Notion{Token: "ntn_secret", TokenFile: "/run/my secrets/token", BaseURL: "https://example.com/p", Rate: 2.5, Burst: 5, Timeout: 11 * time.Second}
	c.Databases.Tasks = "11111111-2222-3333-4444-555555555555"
	c.Databases.TasksSource, c.Databases.TaskLogSource = "2026", "Sprint: \"12\""
	c.Tasks.Properties.Status = "Überblick: \"Stand\"" // what YAML would take for something else
	c.Tasks.Properties.Note = ""
	c.Tasks.Statuses.Open = "null"
	c.Tasks.Statuses.InProgress = "true"
	c.Tasks.Statuses.Blocked = "# blockiert"
	c.Tasks.Statuses.Completed = "1.0"
	c.Tasks.Priorities.High = []string{"P0", "P1, really"}
	c.Tasks.Priorities.Low = []string{}
	c.Agents = []config.Agent{{Name: "Sandman", Lead: true}, {Name: "Oracle", UIDs: []int{1000}, NotionUser: "6794760a-1f15-45cd-9c65-0dfe42f5135a"}, {Name: "agent-*", MaxPerAgent: new(2)}, {Name: "Hypnos", MaxPerAgent: new(0)}}
	c.Notify = []config.Receiver{{URL: "http://example.com/kept", Form: config.FormSlack, On: []config.Notice{config.NoticeAsk}, Insecure: true}, {URLFile: "/run/url"}, {Command: "echo \"$DIBS_TEXT\""}}
	c.Claim.Settle, c.Claim.MaxPerAgent, c.Claim.Exclusive, c.Claim.Override = 4*time.Second, 3, true, config.OverrideOpenOnly
	c.Schedule.Sweep = "*/5 * * * *"
	c.Journal.Postgres = "postgres://dibs:kept@db.example.com/dibs"
	c.StateDir, c.Socket, c.SocketByDefault = "/var/lib/dibs", "/run/dibs.sock", false
	do(t, c.WriteFile(path, false))
	data, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(data), "ntn_secret") {
		t.Errorf("err = %v, or the token is in it:\n%s", err, data)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, err = %v, want 0600", info.Mode(), err)
	}
	again, err := config.Load(config.Options{File: path})
	if err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	c.Notion.Token = ""
	if diff := cmp.Diff(c, again); diff != "" {
		t.Errorf("-written +read:\n%s\n%s", diff, data)
	}
}

func TestWrittenSaysOnlyWhatDiffers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	c, err := config.Load(config.Options{File: path, New: true})
	do(t, err)
	c.Databases = config.Databases{
		Tasks: "2f835e81-2bbb-81b6-9700-e18108a40b1f", TaskLog: "2fa35e81-2bbb-8180-8f74-cbd9acd08b52", MeshLog: "2fa35e81-2bbb-811a-b6f7-ff9eb7448c99",
	}
	got, err := c.YAML()
	want := `databases:
  tasks: 2f835e81-2bbb-81b6-9700-e18108a40b1f
  task_log: 2fa35e81-2bbb-8180-8f74-cbd9acd08b52
  mesh_log: 2fa35e81-2bbb-811a-b6f7-ff9eb7448c99
`
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("err = %v (-want +got):\n%s", err, diff)
	}
}

func TestFileOnly(t *testing.T) {
	t.Setenv("DIBS_CLAIM_SETTLE", "9s")
	for fileOnly, want := range map[bool]time.Duration{true: 1600 * time.Millisecond, false: 9 * time.Second} {
		c, err := config.Load(config.Options{File: filepath.Join(t.TempDir(), "config.yaml"), New: true, FileOnly: fileOnly})
		if err != nil || c.Claim.Settle != want {
			t.Errorf("file only: %v: settle = %v, err = %v, want %v", fileOnly, c.Claim.Settle, err, want)
		}
	}
}

func TestWriteFileKeepsWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	do(t, os.WriteFile(path, []byte("# mine\n"), 0o600))
	c := config.Default()
	if err := c.WriteFile(path, false); err == nil {
		t.Error("a file that was there was replaced unasked")
	}
	if data, _ := os.ReadFile(path); string(data) != "# mine\n" {
		t.Errorf("the file became %q", data)
	}
	do(t, os.Chmod(path, 0o644))
	if err := c.WriteFile(path, true); err != nil {
		t.Error(err)
	}
	if data, _ := os.ReadFile(path + ".bak"); string(data) != "# mine\n" {
		t.Errorf("what was kept is %q", data)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode = %v, err = %v, want that of the file before", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".config-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
