package journal_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/internal/alive"
	"dibs/internal/claim"
	"dibs/internal/feed"
	"dibs/internal/inbox"
	"dibs/internal/journal"
	reserving "dibs/internal/reserve"
	"dibs/internal/task"
	"dibs/internal/worklog"

	"github.com/google/go-cmp/cmp"
)

// inUse has for each version of the schema, from the first, the rows that a
// journal in use has in the tables as they are since that version, and that it
// did not have in the one before.
var inUse = []string{
	1: `
	INSERT INTO claims VALUES
		('01KAFQZ0000000000000000001', 'a', 'Oracle', 'held', 0,
			'{"id":"01KAFQZ0000000000000000001","agent":"Oracle","state":"held","timeout":60000000000,
			  "reserved_at":"2026-11-20T09:00:00Z","stale_at":"2026-11-20T09:31:00Z",
			  "task":{"id":"a","title":"T","status":"OPEN","priority":"low","token":"tok","timeout":120000000000}}'),
		('01KAFQZ0000000000000000002', 'b', 'Sandman', 'ended', 1795165200000,
			'{"id":"01KAFQZ0000000000000000002","agent":"Sandman","state":"ended","ending":"completed",
			  "reserved_at":"2026-11-20T09:00:00Z","ended_at":"2026-11-20T09:00:00Z","task":{"id":"b","status":"OPEN","priority":"low"}}'),
		('01KAFQZ0000000000000000011', 'c', 'Oracle', 'abandoned', 0,
			'{"id":"01KAFQZ0000000000000000011","agent":"Oracle","state":"abandoned","override":true,"former":"Ghost",
			  "reserved_at":"2026-11-20T09:00:00Z","task":{"id":"c","status":"OPEN","priority":"low"}}'),
		('01KAFQZ0000000000000000012', 'c', 'Oracle', 'abandoned', 0,
			'{"id":"01KAFQZ0000000000000000012","agent":"Oracle","state":"abandoned","due_at":"2026-11-20T09:00:00Z",
			  "reserved_at":"2026-11-20T09:00:00Z","task":{"id":"c","status":"OPEN","priority":"low"}}'),
		('01KAFQZ0000000000000000013', 'd', 'Ghost', 'voided', 0,
			'{"id":"01KAFQZ0000000000000000013","agent":"Ghost","state":"voided","due_at":"2026-11-20T09:00:00Z","clearing":true,
			  "finish":{"as":"swept","summary":"its lease ran out","at":"2026-11-20T09:00:00Z"},
			  "reserved_at":"2026-11-20T09:00:00Z","task":{"id":"d","status":"OPEN","priority":"low"}}');
	INSERT INTO reservations VALUES ('a', '01KAFQZ0000000000000000001', 'Oracle', 1795167060000);
	INSERT INTO events (seq, id, at, task_id, agent, claim_id, body) VALUES
		(1, '01KAFQZ0000000000000000003', 1795165200000, 'a', 'Oracle', '01KAFQZ0000000000000000001',
			'{"id":"01KAFQZ0000000000000000003","at":"2026-11-20T09:00:00Z","kind":"granted","task":"a"}'),
		(2, '01KAFQZ0000000000000000004', 1795165200000, 'b', 'Sandman', '01KAFQZ0000000000000000002',
			'{"id":"01KAFQZ0000000000000000004","at":"2026-11-20T09:00:00Z","kind":"completed","task":"b"}'),
		(3, '01KAFQZ0000000000000000005', 1795165200000, 'b', 'Sandman', '01KAFQZ0000000000000000002',
			'{"id":"01KAFQZ0000000000000000005","at":"2026-11-20T09:00:00Z","kind":"granted","task":"b"}');
	INSERT INTO outbox (event, log) VALUES (1, 'mesh');
	INSERT INTO outbox (event, log, state, tries, sent_at) VALUES (2, 'task', 'sending', 1, 1795165200000);
	INSERT INTO outbox (event, log, state, delivered_at) VALUES (3, 'mesh', 'delivered', 1795165200000);`,
	2: `
	INSERT INTO tasks (id, finished, seen, body) VALUES
		('a', 0, 1795165200000, '{"id":"a","title":"T","status":"IN_PROGRESS","priority":"low","token":"tok"}');
	INSERT INTO meta VALUES ('mirror.synced', '2026-11-20T09:00:00Z'), ('notion.tasks', '{"database":"d"}');`,
	3: `
	INSERT INTO requests (key, fingerprint, state, claim_id, status, body, created) VALUES
		('answered', 'f', 'answered', '01KAFQZ0000000000000000001', 201, CAST('{"id":"01KAFQZ0000000000000000001"}' AS BLOB), 1795165200000),
		('cut off', 'f', 'in_flight', '01KAFQZ0000000000000000001', 0, NULL, 1795165200000);`,
	4: `
	DELETE FROM untold;
	INSERT INTO feed VALUES (7, 1795165200000, 'a', '01KAFQZ0000000000000000001', 'Oracle', '', '{"at":"2026-11-20T09:00:00Z","kind":"claimed","task":"a"}');
	INSERT INTO told VALUES ('a', 1795165200000, '{"id":"a","title":"T","status":"OPEN","priority":"low","ready":true}');
	INSERT INTO dependencies VALUES ('b', 'a');
	INSERT INTO meta VALUES ('feed.begun', 'yes');`,
	5: ``,
	6: ``,
	7: ``,
	8: ``,
	9: ``,
	10: `
	INSERT INTO keepers VALUES ('01KAFQZ0000000000000000001', '[{"Process":{"ID":7,"Began":"boot 12","UID":1000},"Grace":60000000000}]');`,
	11: `
	INSERT INTO triggers (id, agent, key, type, rank, at, body) VALUES
		('01KAFQZ0000000000000000021', 'Oracle', 'row a', 'message', 3, 1795165200000,
			'{"id":"01KAFQZ0000000000000000021","type":"message","agent":"Oracle","at":"2026-11-20T09:00:00Z","from":"Sandman","text":"hello","task":{"id":"","status":"","priority":"none"}}');
	INSERT INTO pollers (agent, polled, finished) VALUES ('Oracle', 1795165200000, 1);
	INSERT INTO offers VALUES ('e', '{"id":"01KAFQZ0000000000000000022","task":"e","from":"Sandman","to":"Oracle","at":"2026-11-20T09:00:00Z","until":"2026-11-20T09:10:00Z"}');`,
	12: `
	INSERT INTO names VALUES ('agent-7K9X', 1000, 'a session', 1795165200000, 1);`,
	13: `
	INSERT INTO reserved VALUES ('01KAFQZ0000000000000000031', '{"id":"01KAFQZ0000000000000000031","agent":"Oracle","uid":1000,"shared":true,
		"targets":[{"text":"*.go","files":true,"at":[{"in":"/repo/.git","path":"/**/*.go"}]}],"made_at":"2026-11-20T09:00:00Z","until":"2026-11-20T09:30:00Z",
		"claim":"01KAFQZ0000000000000000001","process":{"ID":7,"Began":"boot 12","UID":1000}}');`,
	14: `
	INSERT INTO tries (task_id, at, body) VALUES ('e', 1795165200000, '{"agent":"Oracle","at":"2026-11-20T09:00:00Z","failed":true,"why":"no ladder"}');`,
	15: `
	INSERT INTO creations (id, uid, key, fingerprint, at) VALUES ('01KAFQZ0000000000000000031', 1000, 'add', 'f', 1795165200000);
	INSERT INTO questions VALUES ('b', 'Sandman', '{"id":"01KAFQZ0000000000000000032","task":"b","agent":"Sandman","at":"2026-11-20T09:00:00Z","until":"2026-11-20T09:10:00Z"}');`,
	16: ``,
	17: `
	INSERT INTO acks VALUES ('01KAFQZ0000000000000000021', 'Oracle', 1795165200000);`,
}

// used makes a journal of that version, as one in use would be.
func used(t *testing.T, version int) (path string) {
	t.Helper()
	all := scripts(t)
	if len(inUse) != len(all)+1 {
		t.Fatalf("there are %d migrations; say what a journal in use holds at each", len(all))
	}
	path = filepath.Join(t.TempDir(), "journal.db")
	script := "PRAGMA journal_mode = WAL;"
	for i, migration := range all[:version] {
		script += migration + ";" + inUse[i+1]
	}
	runSQL(t, path, script+fmt.Sprintf(";PRAGMA user_version = %d", version))
	return path
}

// wantUsed checks that everything of a journal of that version is there.
func wantUsed(t *testing.T, j *journal.Journal, version int) {
	t.Helper()
	ctx := t.Context()
	held := claim.Claim{
		ID: "01KAFQZ0000000000000000001", Agent: "Oracle", State: claim.Held, Lease: claim.Lease{Timeout: time.Minute, StaleAt: t0.Add(31 * time.Minute)},
		Reserved: t0,
		Task:     task.Task{ID: "a", Title: "T", Status: task.Open, Priority: task.Low, Token: "tok", Timeout: 2 * time.Minute},
	}
	ended := claim.Claim{
		ID: "01KAFQZ0000000000000000002", Agent: "Sandman", State: claim.Ended, Ending: claim.EndCompleted,
		Reserved: t0, Ended: t0, Task: task.Task{ID: "b", Status: task.Open, Priority: task.Low},
	}
	unseen := claim.Claim{
		ID: "01KAFQZ0000000000000000011", Agent: "Oracle", State: claim.Unseen, Former: "Ghost",
		Reserved: t0, Task: task.Task{ID: "c", Status: task.Open, Priority: task.Low},
	}
	abandoned := unseen
	abandoned.ID, abandoned.State, abandoned.Former, abandoned.Due = "01KAFQZ0000000000000000012", claim.Abandoned, "", t0
	mark := claim.Claim{
		ID: "01KAFQZ0000000000000000013", Agent: "Ghost", State: claim.Clearing, Due: t0, Sweep: &claim.Sweep{Reason: "its lease ran out"},
		Reserved: t0, Task: task.Task{ID: "d", Status: task.Open, Priority: task.Low},
	}
	claims, err := j.Claims(ctx, journal.ClaimFilter{IncludeEnded: true})
	if diff := cmp.Diff([]claim.Claim{mark, abandoned, unseen, ended, held}, claims); err != nil || diff != "" {
		t.Errorf("claims: %v (-want +got):\n%s", err, diff)
	}
	granted := claim.Event{ID: "01KAFQZ0000000000000000003", At: t0, Kind: claim.KindGranted, Task: "a"}
	completed := claim.Event{ID: "01KAFQZ0000000000000000004", At: t0, Kind: claim.KindCompleted, Task: "b"}
	delivered := claim.Event{ID: "01KAFQZ0000000000000000005", At: t0, Kind: claim.KindGranted, Task: "b"}
	wantEvents(t, j, granted, completed, delivered)
	wantNext(t, j, t0,
		worklog.Item{Entry: granted, Log: claim.MeshLog},
		worklog.Item{Entry: completed, Log: claim.TaskLog, InDoubt: true, Tries: 1, SentAt: t0})
	if version >= 2 {
		want := []task.Task{{ID: "a", Title: "T", Status: task.InProgress, Priority: task.Low, Token: "tok"}}
		if diff := cmp.Diff(want, tasks(t, j)); diff != "" {
			t.Errorf("tasks (-want +got):\n%s", diff)
		}
		for key, want := range map[string]string{"mirror.synced": "2026-11-20T09:00:00Z", "notion.tasks": `{"database":"d"}`} {
			if got, err := j.Meta(ctx, key); err != nil || got != want {
				t.Errorf("%s = %q, %v; want %q", key, got, err, want)
			}
		}
	}
	if version >= 3 {
		answer := &journal.Answer{Status: 201, Body: []byte(`{"id":"01KAFQZ0000000000000000001"}`)}
		wantBegin(t, j, "answered", "f", answer, nil)
		wantBegin(t, j, "cut off", "f", nil, journal.ErrInterrupted)
	}
	if version >= 4 {
		got, err := j.Feed(ctx, journal.FeedFilter{})
		if diff := cmp.Diff([]feed.Event{{ID: 7, At: t0, Kind: feed.Claimed, Task: "a"}}, got); err != nil || diff != "" {
			t.Errorf("feed: %v (-want +got):\n%s", err, diff)
		}
		if begun, err := j.Begun(ctx); err != nil || !begun {
			t.Errorf("Begun = %v, %v; want true", begun, err)
		}
	} else if version >= 2 { // all that is known has yet to be taken note of
		if got, err := j.Untold(ctx, "", 0); err != nil || !cmp.Equal([]task.ID{"a"}, got) {
			t.Errorf("Untold = %v, %v; want a", got, err)
		}
	}
	if version >= 10 {
		kept, err := j.Keepers(ctx)
		want := map[claim.ID][]alive.Keeper{held.ID: {{Process: alive.Process{ID: 7, Began: "boot 12", UID: 1000}, Grace: time.Minute}}}
		if diff := cmp.Diff(want, kept); err != nil || diff != "" {
			t.Errorf("keepers: %v (-want +got):\n%s", err, diff)
		}
	}
	if version >= 11 {
		got, err := j.TakeTriggers(ctx, inbox.Take{Agent: "Oracle", Taker: "poll", Now: t0, At: t0, Visibility: time.Minute})
		want := []inbox.Trigger{{ID: "01KAFQZ0000000000000000021", Type: inbox.Message, Agent: "Oracle", At: t0, From: "Sandman", Text: "hello"}}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("triggers: %v (-want +got):\n%s", err, diff)
		}
		offers, err := j.Offers(ctx)
		wantOffers := []inbox.Offer{{ID: "01KAFQZ0000000000000000022", Task: "e", From: "Sandman", To: "Oracle", At: t0, Until: t0.Add(10 * time.Minute)}}
		if diff := cmp.Diff(wantOffers, offers); err != nil || diff != "" {
			t.Errorf("offers: %v (-want +got):\n%s", err, diff)
		}
	}
	if version >= 12 {
		if name, used, err := j.SessionName(ctx, 1000, "a session", t0); err != nil || name != "agent-7K9X" || !used.Equal(t0) {
			t.Errorf("the name of a session is %q of %v, %v", name, used, err)
		}
	}
	if version >= 13 {
		got, err := j.Reservations(ctx)
		want := []reserving.Reservation{{
			ID: "01KAFQZ0000000000000000031", Agent: "Oracle", UID: 1000, Shared: true, Made: t0, Until: t0.Add(30 * time.Minute), Claim: held.ID,
			Targets: []reserving.Target{{Text: "*.go", Files: true, At: []reserving.Spot{{Place: "/repo/.git", Path: "/**/*.go"}}}},
			Process: alive.Process{ID: 7, Began: "boot 12", UID: 1000},
		}}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("reservations: %v (-want +got):\n%s", err, diff)
		}
	}
	if version >= 14 {
		got, err := j.Tries(ctx, "e")
		if diff := cmp.Diff([]claim.Try{{Agent: "Oracle", At: t0, Failed: true, Why: "no ladder"}}, got); err != nil || diff != "" {
			t.Errorf("tries: %v (-want +got):\n%s", err, diff)
		}
	}
	stats, err := j.OutboxStats(ctx)
	owed := []journal.Backlog{
		{Log: claim.MeshLog, Depth: 1, Oldest: t0},
		{Log: claim.TaskLog, Depth: 1, InDoubt: 1, Oldest: t0, LastError: "the daemon stopped while it was being sent"},
	}
	if diff := cmp.Diff(owed, stats); err != nil || diff != "" {
		t.Errorf("outbox: %v (-want +got):\n%s", err, diff)
	}
	refusal, err := j.Reserve(ctx, attempt("Sandman", "a", t0), t0, 0)
	if diff := cmp.Diff(&claim.Refusal{Holder: &held}, refusal); err != nil || diff != "" {
		t.Errorf("Reserve: %v, refusal (-want +got):\n%s", err, diff)
	}
	if err := j.PutTasks(ctx, []task.Task{held.Task}); err != nil {
		t.Error(err)
	}
}

// An upgrade keeps all that the journal holds, and leaves a copy of how it was,
// which whoever wants to go back puts in its place.
func TestUpgradeFromEveryVersion(t *testing.T) {
	last := len(scripts(t))
	for version := 1; version <= last; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			path := used(t, version)
			copied := path + fmt.Sprintf(".before-%04d", version+1)
			write(t, path+".before-0001", []byte("the copy of an earlier upgrade"))
			write(t, copied+".tmp", []byte("what is left of an upgrade that was cut off"))
			j := open(t, path)
			wantUsed(t, j, version)
			if version == last {
				if _, err := os.Stat(copied); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("a copy was made although nothing was upgraded: %v", err)
				}
				return
			}
			info, err := os.Stat(copied)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != 0o600 {
				t.Errorf("mode of the copy = %v, want 0600", info.Mode())
			}
			for _, gone := range []string{path + ".before-0001", copied + ".tmp"} {
				if _, err := os.Stat(gone); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is still there: %v", gone, err)
				}
			}
			if _, got := schema(t, copied); got != version {
				t.Errorf("version of the copy = %d, want %d", got, version)
			}
			back := filepath.Join(t.TempDir(), "journal.db")
			data, err := os.ReadFile(copied)
			if err != nil {
				t.Fatal(err)
			}
			write(t, back, data)
			wantUsed(t, open(t, back), version)
		})
	}
}

// A copy that cannot be kept stops the upgrade before anything is changed.
func TestNoUpgradeWithoutACopy(t *testing.T) {
	path := used(t, 1)
	if err := os.MkdirAll(path+".before-0002.tmp/in the way", 0o700); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(t.Context(), path)
	if err == nil {
		j.Close()
		t.Fatal("Open succeeded")
	}
	for _, part := range []string{"copy", path, "not empty"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	if _, got := schema(t, path); got != 1 {
		t.Errorf("version = %d, want 1", got)
	}
}

func TestNewJournalsHaveNoCopies(t *testing.T) {
	j := newJournal(t)
	found, err := filepath.Glob(j.Path() + ".before-*")
	if err != nil || len(found) != 0 {
		t.Errorf("copies = %v, %v", found, err)
	}
}
