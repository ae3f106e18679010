package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dibs/config"
)

func TestToken(t *testing.T) {
	home := clean(t)
	file := func(mode os.FileMode, content string) string {
		t.Helper()
		path := filepath.Join(home, fmt.Sprintf("token-%o-%d", mode, len(content)))
		do(t, os.WriteFile(path, []byte(content), mode))
		if err := os.Chmod(path, mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
		return path
	}
	private, public, empty := file(0o600, "ntn_file\n"), file(0o644, "\n ntn_file"), file(0o600, " \n")
	for _, tt := range []struct {
		name, config string
		env          map[string]string
		want         config.Secret
		wantErr      string
		wantWarning  string
		fileMode     os.FileMode // the configuration file's; the test expects a warning
	}{
		{name: "none", wantErr: "no Notion token: set NOTION_TOKEN, notion.token or notion.token_file"},
		{name: "in the file", config: "notion: {token: ntn_inline}", want: "ntn_inline"},
		{name: "in a readable file", config: "notion: {token: ntn_inline}", want: "ntn_inline", fileMode: 0o640},
		{name: "not the one of a readable file", config: "notion: {token: ntn_inline}", env: map[string]string{"NOTION_TOKEN": "ntn_env"}, want: "ntn_env"},
		{name: "NOTION_TOKEN", config: "notion: {token: ntn_inline}", env: map[string]string{"NOTION_TOKEN": "ntn_env"}, want: "ntn_env"},
		{
			name: "DIBS_NOTION_TOKEN wins over NOTION_TOKEN",
			env:  map[string]string{"NOTION_TOKEN": "ntn_env", "DIBS_NOTION_TOKEN": "ntn_dibs"}, want: "ntn_dibs",
		},
		{name: "token file", config: "notion: {token_file: " + private + "}", want: "ntn_file"},
		{
			name: "the environment wins over a token file", config: "notion: {token_file: " + private + "}",
			env: map[string]string{"NOTION_TOKEN": "ntn_env"}, want: "ntn_env",
		},
		{name: "token file of an editor of Windows", config: "notion: {token_file: " + file(0o600, "\ufeffntn_file\r\n") + "}", want: "ntn_file"},
		{name: "token file in UTF-16", config: "notion: {token_file: " + file(0o600, "\xff\xfen\x00t\x00n\x00_\x001\x00") + "}", wantErr: "is no text in UTF-8: save it as that"},
		{name: "readable token file", config: "notion: {token_file: " + public + "}", want: "ntn_file", wantWarning: public},
		{name: "empty token file", config: "notion: {token_file: " + empty + "}", wantErr: empty + " is empty"},
		{name: "missing token file", config: "notion: {token_file: /nowhere/token}", wantErr: "notion.token_file: open /nowhere/token"},
		{name: "token for the token file", config: "notion: {token_file: ntn_ABC123}", wantErr: "looks like the token itself"},
		{name: "another file for the token file", config: "notion: {token_file: " + file(0o600, "export X=1") + "}", wantErr: "more than one word"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			path := write(t, tt.config)
			if tt.fileMode != 0 {
				do(t, os.Chmod(path, tt.fileMode))
				tt.wantWarning = path
			}
			c, err := config.Load(config.Options{File: path})
			if err != nil {
				t.Fatal(err) // clients need no token
			}
			var logged bytes.Buffer
			got, err := c.Notion.ReadToken(slog.New(slog.NewTextHandler(&logged, nil)))
			if got != tt.want {
				t.Errorf("token = %q, want %q", string(got), string(tt.want))
			}
			if (err == nil) != (tt.wantErr == "") || (err != nil && !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("ReadToken = %v, want %q", err, tt.wantErr)
			}
			if (tt.wantWarning == "") != (logged.Len() == 0) || !strings.Contains(logged.String(), tt.wantWarning) {
				t.Errorf("logged %q, want %q", logged.String(), tt.wantWarning)
			}
		})
	}
}

func TestTokenIsNotShown(t *testing.T) {
	clean(t)
	const token = "ntn_1234567890"
	c, err := load(t, "notion: {token: "+token+"}")
	do(t, err)
	var logged bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&logged, nil), slog.NewJSONHandler(&logged, nil)} {
		slog.New(handler).Info("x", "token", c.Notion.Token, "notion", c.Notion)
	}
	encoded, err := json.Marshal(c)
	do(t, err)
	shown := logged.String() + string(encoded)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		shown += fmt.Sprintf(verb+" ", c.Notion.Token) + fmt.Sprintf(verb+" ", c)
	}
	if hex := fmt.Sprintf("%x", token); strings.Contains(shown, token) || strings.Contains(shown, hex) {
		t.Errorf("the token is shown: %s", shown)
	}
	if !strings.Contains(shown, "[redacted]") {
		t.Errorf("that there is a token is not shown: %s", shown)
	}

	for _, file := range []string{
		"notion: {token: 1234567890123}", // a number
		"ntn_1234567890",                 // the token file taken for the configuration
		"notion: ntn_1234567890",
		"notion: {base_url: x, token: ntn_1234567890}", // another mistake beside it
	} {
		_, err := load(t, file)
		if err == nil {
			t.Errorf("Load accepted %q", file)
		} else if strings.Contains(err.Error(), "ntn_1") || strings.Contains(err.Error(), "12345") {
			t.Errorf("Load repeats the token: %v", err)
		}
	}
}

// The address of a receiver may be in a file beside the configuration, and is not shown.
func TestAddressOfReceiver(t *testing.T) {
	clean(t)
	path := write(t, "notify: [{url: 'https://user:hush@example.com/hush?hush'}, {url_file: hook}, {command: hush}]")
	hook := filepath.Join(filepath.Dir(path), "hook")
	do(t, os.WriteFile(hook, []byte("https://example.com/from-file\n"), 0o644))
	c, err := config.Load(config.Options{File: path})
	do(t, err)
	encoded, err := json.Marshal(c.Notify[0])
	if shown := fmt.Sprintf("%v %+v %#v %s", c, c.Notify[0], c.Notify[0], encoded); err != nil || strings.Contains(shown, "user:hush") {
		t.Errorf("the address is shown: %s, %v", shown, err)
	}
	var log bytes.Buffer
	u, err := c.Notify[1].Address(slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil || u.String() != "https://example.com/from-file" || !strings.Contains(log.String(), "run chmod 600") || strings.Contains(log.String(), "from-file") {
		t.Errorf("from the file: %v, %v, and logged %s", u, err, &log)
	}
	do(t, os.WriteFile(hook, []byte("http://example.com/from-file"), 0o600))
	if _, err := c.Notify[1].Address(slog.New(slog.DiscardHandler)); err == nil || strings.Contains(err.Error(), "from-file") {
		t.Errorf("an address without encryption: %v", err)
	}
	if u, err := c.Notify[2].Address(nil); u != nil || err != nil {
		t.Errorf("a command has the address %v, %v", u, err)
	}
}

// Only variables with a secret are withheld from programs: those of PostgreSQL where the journal's
// database may be reached by them.
func TestEnvironmentOfPrograms(t *testing.T) {
	clean(t)
	for name, want := range map[string]struct{ alone, shared bool }{
		"NOTION_TOKEN": {}, "DIBS_NOTION_TOKEN": {}, "DIBS_NOTIFY": {}, "DIBS_JOURNAL_POSTGRES": {},
		"PGPASSWORD": {alone: true}, "PGPASSFILE": {alone: true}, "PGSERVICE": {alone: true}, "PGHOST": {alone: true},
		"DIBS_NOTION_TOKEN_FILE": {true, true}, "DIBS_AGENT": {true, true}, "PAGER": {true, true},
	} {
		t.Setenv(name, "x")
		for shared, want := range map[bool]bool{false: want.alone, true: want.shared} {
			if got := slices.Contains(config.Environment(shared), name+"=x"); got != want {
				t.Errorf("a program gets %s = %v with a shared journal = %v, want %v", name, got, shared, want)
			}
		}
	}
}

func TestPostgres(t *testing.T) {
	home := clean(t)
	file := filepath.Join(home, "db")
	write := func(content string, mode os.FileMode) {
		t.Helper()
		do(t, os.WriteFile(file, []byte(content), mode))
		do(t, os.Chmod(file, mode))
	}
	const address = "postgres://dibs:hunter2@db/dibs"
	for _, tt := range []struct {
		name    string
		journal config.Journal
		content string
		mode    os.FileMode
		want    config.Secret
		wantErr string
		warns   bool
	}{
		{name: "set", journal: config.Journal{Postgres: address}, want: address},
		{name: "in a file", journal: config.Journal{PostgresFile: file}, content: address + "\n", mode: 0o600, want: address},
		{name: "words in a file", journal: config.Journal{PostgresFile: file}, content: "host=db user=dibs", mode: 0o600, want: "host=db user=dibs"},
		{name: "in a file that others read", journal: config.Journal{PostgresFile: file}, content: address, mode: 0o644, want: address, warns: true},
		{name: "two lines", journal: config.Journal{PostgresFile: file}, content: address + "\nx", mode: 0o600, wantErr: "more than one line"},
		{name: "empty", journal: config.Journal{PostgresFile: file}, content: "\n", mode: 0o600, wantErr: "is empty"},
		{name: "no file", journal: config.Journal{PostgresFile: home + "/nowhere"}, mode: 0o600, wantErr: "journal.postgres_file: open"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			write(tt.content, tt.mode)
			var log bytes.Buffer
			got, err := tt.journal.ReadPostgres(slog.New(slog.NewTextHandler(&log, nil)))
			if string(got) != string(tt.want) || (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("%v, %v, want %q", got == tt.want, err, tt.wantErr)
			}
			if warned := strings.Contains(log.String(), `secret="the address of the database"`); warned != tt.warns {
				t.Errorf("warned: %v: %s", warned, &log)
			}
			if said := log.String() + fmt.Sprint(err); strings.Contains(said, "hunter2") {
				t.Errorf("the password is shown: %s", said)
			}
		})
	}
}

// TestInsecure checks that the token goes to no other machine unencrypted by default, and that
// errors show no secret from a URL.
func TestInsecure(t *testing.T) {
	const unencrypted, user = "unencrypted", "a user or a password in a URL"
	for base, want := range map[string]string{
		"https://notion.example":                     "",
		"http://127.0.0.1:8787":                      "",
		"http://[::1]:8787":                          "",
		"http://localhost:8787/notion":               "",
		"http://notion.example":                      unencrypted,
		"http://192.168.0.7:8787":                    unencrypted,
		"http://localhost.example":                   unencrypted,
		"https://ann:s3cret@notion.example":          user,
		"https://s3cret@notion.example":              user,
		"http://ann:s3cret@127.0.0.1":                user,
		"ftp://ann:s3cret@notion.example":            "is not an http or https URL",
		"ann:s3cret@notion.example":                  "is not an http or https URL",
		"https:ann:s3cret@notion.example":            "is not an http or https URL",
		"https:/ann:s3cret@notion.example":           "is not an http or https URL",
		"https://ann:x/s3cret@notion.example":        "is not an http or https URL",
		"https://ann:s3cret?x@notion.example":        "is not an http or https URL",
		"https://ann:x#s3cret@notion.example":        "is not an http or https URL",
		"https://ann:s3cret@notion.example:x/%zz":    "is not an http or https URL",
		"http://notion.example/?token=s3cret#s3cret": unencrypted,
	} {
		c := config.Default()
		c.Notion.BaseURL = base
		err := c.Validate()
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %v, want %q", base, err, want)
		}
		c.Notion.Insecure = true
		if err := c.Validate(); (err == nil) != (want == "" || want == unencrypted) {
			t.Errorf("%s, insecure: %v", base, err)
		}
	}
	c := config.Default()
	c.Databases.Tasks = "https://ann:s3cret@www.notion.so/x?token=s3cret"
	if err := c.Validate(); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("databases.tasks: %v", err)
	}
}

func TestLogHandler(t *testing.T) {
	for _, tt := range []struct {
		log  config.Log
		want string
	}{
		{config.Log{Level: "warn", Format: "text"}, "level=WARN msg=loud"},
		{config.Log{Level: "warn", Format: "json"}, `"level":"WARN","msg":"loud"`},
	} {
		var out bytes.Buffer
		log := slog.New(tt.log.Handler(&out, tt.log.Severity()))
		log.Info("quiet")
		log.Warn("loud")
		if got := out.String(); !strings.Contains(got, tt.want) || strings.Contains(got, "quiet") {
			t.Errorf("%+v logged %q, want %q alone", tt.log, got, tt.want)
		}
	}
}
