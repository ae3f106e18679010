package journal

import (
	"database/sql"
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"dibs/internal/claim"
	"dibs/internal/claim/brake"
	"dibs/internal/claim/keepers"
	"dibs/internal/journal/inbox"
	"dibs/internal/journal/report"
	"dibs/internal/outbox"
	"dibs/internal/reserve"
	"dibs/internal/task"
	"dibs/internal/testkit/pgtest"

	sqlite3 "modernc.org/sqlite/lib"
)

// What is called for a request or at a tick takes no longer because much has
// happened before: no statement of it looks through a table that keeps history.
// It may look through what lives or is owed, which has indices of its own.
func TestNothingScansHistory(t *testing.T) {
	pgtest.OnlySQLite(t)
	j := opened(t)
	clear(j.writer.tx.prepared) // by Open, which happens once
	callAll(t, j)
	queries := slices.Collect(maps.Keys(j.writer.tx.prepared))
	j.readers.prepared.Range(func(query, _ any) bool {
		queries = append(queries, query.(string))
		return true
	})
	if len(queries) < 40 {
		t.Errorf("only %d statements were compiled: %q", len(queries), queries)
	}
	scan := regexp.MustCompile(`^SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?`)
	for _, query := range queries {
		plan, err := collect(t.Context(), j.readers.DB, func(row scanner) (detail string, err error) {
			var id, parent, unused int
			err = row.Scan(&id, &parent, &unused, &detail)
			return detail, err
		}, "EXPLAIN QUERY PLAN "+query, make([]any, 16)...)
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
		for _, step := range plan {
			few := strings.Contains(query, "AS backlog") || strings.Contains(query, "against = ?") || // logs, denials of one claim
				strings.Contains(query, "FROM used") // of a day, a task or an agent
			if strings.Contains(step, "TEMP B-TREE") && !few {
				t.Errorf("%s\nis sorted: %s", strings.TrimSpace(query), step)
			}
			m := scan.FindStringSubmatch(step)
			if m == nil {
				continue
			}
			switch {
			case slices.Contains([]string{"claims_live", "marks_live", "owed_next", "owed_due", "owed_failed", "told_ready"}, m[2]):
			case m[1] == "pollers": // those who poll
			case slices.Contains([]string{"backlog", "CONSTANT", "fence"}, m[1]): // which has one row
			case m[2] == "facts_logged" && strings.HasSuffix(query, "WHERE logged = 1 ORDER BY seq DESC"+upTo): // the last rows
			default:
				t.Errorf("%s\nis done so: %s", strings.TrimSpace(query), step)
			}
		}
	}
}

// callAll calls everything that is called for requests and at ticks.
func callAll(t *testing.T, j *Journal) {
	t.Helper()
	ctx, now := t.Context(), time.Now()
	var failed []error
	check := func(_ any, err error) { failed = append(failed, err) }
	check(nil, j.SetBounds(ctx, brake.Bounds{Days: []brake.DayLimit{{Name: "*", Grants: 100}, {Name: "Sandman", Grants: 100}}, Breaker: brake.Breaker{Failures: 3, Within: time.Hour}}))
	check(j.Brake(ctx))
	_, _, err := j.ChangeBrake(ctx, func(b *brake.State) (claim.Fact, bool) { return b.Pause("Oracle", brake.Pause{At: now}, "") })
	check(nil, err)
	note := func(err error) { failed = append(failed, err) }
	mint := task.Mint{Session: "s", Now: now, Gone: now.Add(-time.Hour), Free: func(string) bool { return true }}
	for _, usable := range []bool{true, true, false} {
		mint.Usable = func(string) bool { return usable }
		_, _, err := j.MintName(ctx, mint)
		note(err)
		_, _, err = j.SessionName(ctx, 0, "s", mint.Gone)
		note(err)
	}
	for range 2 {
		note(j.SetReceivers(ctx, map[outbox.Kind]func(claim.Fact) bool{outbox.Notices + "a": func(claim.Fact) bool { return true }}))
		note(j.Record(ctx, claim.Fact{ID: claim.NewFactID(now), At: now, Kind: claim.KindReview, Agent: "Sandman", Task: "a"}))
		note(j.SetReceivers(ctx, nil))
	}
	note(j.PutTasks(ctx, []task.Task{{ID: "a"}, {ID: "b", DependsOn: []task.ID{"a"}}}))
	check(j.Unpublished(ctx, "", 1))
	check(j.Publish(ctx, now, []task.ID{"a", "b"}))
	check(j.Earlier(ctx, "a"))
	note(j.BeginFeed(ctx))
	check(j.FeedBegun(ctx))
	for _, agent := range []string{"Sandman", "Oracle"} {
		key := "key of " + agent
		check(j.BeginRequest(ctx, 1000, key, "f", now))
		_, err := j.BeginRequest(ctx, 1000, key, "f", now)
		if !errors.Is(err, outbox.ErrUnanswered) {
			note(err)
		}
		c := claim.Hold{ID: claim.NewID(now), Agent: agent, Task: task.Task{ID: "a"}, Lease: claim.Lease{Timeout: time.Hour}, Reserved: now}
		note(j.BindRequest(ctx, 1000, key, c.ID))
		check(j.RequestMade(ctx, 1000, key))
		_, refusal, err := j.Reserve(ctx, c, now, 1)
		note(err)
		note(j.FinishRequest(ctx, 1000, key, outbox.Answer{Status: 201}))
		note(j.DropRequest(ctx, 1000, key))
		if refusal != nil {
			continue
		}
		event := func(kind claim.Kind) claim.Fact {
			return claim.Fact{ID: claim.NewFactID(now), At: now, Kind: kind, Agent: agent, Claim: c.ID, Task: "a", Remote: true}
		}
		c.State = claim.Held
		note(j.Save(ctx, claim.Change{Holds: []claim.Hold{c}, Facts: []claim.Fact{event(claim.KindGranted)}}))
		_, _, err = j.Reserve(ctx, claim.Hold{ID: claim.NewID(now), Agent: "Merlin", Task: c.Task, Reserved: now}, now, 1)
		note(err)
		note(j.Record(ctx, event(claim.KindDenied)))
		note(j.SetKeepers(ctx, c.ID, []keepers.Keeper{{Grace: time.Minute}}))
		note(j.SetKeepers(ctx, c.ID, nil))
		c.State, c.Ending, c.Ended = claim.Ended, claim.EndReleased, now
		note(j.Save(ctx, claim.Change{
			Holds: []claim.Hold{c}, Facts: []claim.Fact{event(claim.KindReleased)},
			Marks: []claim.Mark{{ID: c.ID, Task: c.Task, Agent: c.Agent, State: claim.Abandoned}},
		}))
		if err := j.Save(ctx, claim.Change{Holds: []claim.Hold{c}}); !errors.Is(err, ErrEnded) {
			note(err)
		}
		check(j.Hold(ctx, c.ID))
		list, err := j.NextOwed(ctx, outbox.MeshEntry, now, 1)
		check(list, err)
		note(j.Hurry(ctx, outbox.MeshEntry, now))
		note(j.StartSending(ctx, list[0], now))
		note(j.NoteInDoubt(ctx, list[0], now, nil))
		note(j.Retry(ctx, list[0], now, nil))
		note(j.Delivered(ctx, list[0], "", now))
	}
	note(j.Record(ctx, claim.Fact{ID: claim.NewFactID(now), At: now, Kind: claim.KindCompleted, Agent: "Sandman", Task: "a"}))
	check(j.Ended(ctx, now, now))
	check(j.Agents(ctx, report.Asking{Limit: 500}))
	for _, q := range []report.Spending{{Agent: "Sandman"}, {Agent: "Sand*", From: now, To: now}, {Task: "a"}, {From: now}} {
		check(j.Spent(ctx, q))
	}
	note(j.Save(ctx, claim.Change{Used: []claim.Hold{{ID: "c", Agent: "Sandman", Task: task.Task{ID: "a"}, State: claim.Ended, Used: claim.Usage{Tokens: 1, At: now}}}}))
	trigger := inbox.Trigger{Type: inbox.Message, Agent: "Oracle", At: now, Key: "k"}
	check(j.AddTriggers(ctx, trigger, inbox.Available("Oracle", now)))
	note(j.Send(ctx, claim.Fact{ID: claim.NewFactID(now), At: now, Kind: claim.KindMessage, Holder: "Oracle"}, trigger))
	got, err := j.TakeTriggers(ctx, inbox.Take{Agent: "Oracle", Taker: "t", Now: now, At: now, Available: 1, Gone: []string{"p"}, Limit: 1})
	check(got, err)
	if len(got) == 0 {
		t.Fatal("nothing was taken: ", errors.Join(failed...))
	}
	check(j.Waiting(ctx, "Oracle"))
	check(j.TriggerAgents(ctx, []string{got[0].ID}))
	check(j.AckTriggers(ctx, "Oracle", []string{got[0].ID}))
	note(j.ReturnTriggers(ctx, "t"))
	check(j.Known(ctx))
	offered := claim.Fact{ID: claim.NewFactID(now), At: now, Kind: claim.KindOffered, Task: "a", Agent: "Sandman", Holder: "Oracle", Expires: now}
	note(j.Record(ctx, offered))
	check(j.Offers(ctx))
	note(j.EndOffer(ctx, "a"))
	check(j.BeginRequest(ctx, 1000, "k", "f", now))
	made, err := j.Owe(ctx, outbox.Intent{ID: "c", Kind: outbox.Creation, At: now, UID: 1000, Key: "k"})
	check(made, err)
	note(j.Delivered(ctx, made, "a", now))
	_, _, err = j.OwedFor(ctx, 1000, "k")
	note(err)
	note(j.Drop(ctx, made))
	question := claim.Fact{ID: claim.NewFactID(now), At: now, Kind: claim.KindBlocked, Task: "a", Agent: "Sandman", Asked: true, Comment: true}
	note(j.Record(ctx, question))
	_, _, err = j.Delivery(ctx, question.ID, claim.Comments)
	note(err)
	asked, err := j.Questions(ctx)
	check(asked, err)
	check(j.SetQuestion(ctx, asked[0], true))
	note(j.PutTasks(ctx, []task.Task{{ID: "a", Status: task.Completed}}))
	check(j.Publish(ctx, now, []task.ID{"a"}))
	note(j.PutTasks(ctx, []task.Task{{ID: "a", Status: task.Open}}))
	check(j.Publish(ctx, now, []task.ID{"a"}))
	holds, _, err := j.Live(ctx)
	check(holds, err)
	check(j.TaskClaims(ctx, "a"))
	check(j.Losses(ctx, "Oracle"))
	check(nil, j.LossNotified(ctx, claim.NewID(now)))
	check(j.Backlog(ctx, nil))
	_, _, err = j.NextOwedAt(ctx, outbox.MeshEntry)
	note(err)
	for _, f := range []FactFilter{{}, {Task: "a"}, {Agent: "Sandman"}} {
		check(j.Feed(ctx, f))
	}
	_, _, err = j.FeedBounds(ctx)
	note(err)
	last := claim.NewFactID(now)
	for _, f := range []FactFilter{{Newest: true}, {After: last}, {Task: "a"}, {Agent: "Sandman", Newest: true}, {Claim: "c", After: last}} {
		f.Limit = 10
		check(j.Facts(ctx, f))
	}
	check(j.Recorded(ctx, last))
	note(j.StoreReservation(ctx, reserve.Reservation{ID: "r", Agent: "Sandman"}))
	note(j.EndReservations(ctx, []string{"r"}))
	note(j.SetMeta(ctx, "k", "v"))
	check(j.Meta(ctx, "k"))
	note(j.DeleteTasks(ctx, []task.ID{"a"}))
	check(j.Publish(ctx, now, []task.ID{"a"}))
	do(t, errors.Join(failed...))
}

// A prepared statement is compiled once. SQLite compiles it again each time that it runs if the plan
// may depend on the value of a parameter: one behind LIMIT, or one that is compared with the column
// that a partial index compares with a constant.
func TestStatementsAreCompiledOnce(t *testing.T) {
	pgtest.OnlySQLite(t)
	path := filepath.Join(t.TempDir(), FileName)
	j, err := Open(t.Context(), path)
	if err == nil { // to make tables is to compile statements again that are there already
		if err = j.Close(); err == nil {
			j, err = Open(t.Context(), path)
		}
	}
	do(t, err)
	defer j.Close()
	callAll(t, j)
	callRest(t, j)
	counts := recompiled(t, j.writer.tx.conn)
	for range maxReaders {
		conn, err := j.readers.Conn(t.Context())
		do(t, err)
		defer conn.Close()
		for query, n := range recompiled(t, conn) {
			counts[query] += n
		}
	}
	if len(counts) < 100 {
		t.Errorf("only %d statements were found", len(counts))
	}
	for query, n := range counts {
		if n > 0 {
			t.Errorf("compiled %d times more than once: %s", n, query)
		}
	}
}

// callRest calls what callAll leaves out: what happens at a start, once a day, or for reports.
func callRest(t *testing.T, j *Journal) {
	t.Helper()
	ctx, now := t.Context(), time.Now()
	var failed []error
	check := func(_ any, err error) { failed = append(failed, err) }
	for range 2 {
		check(nil, j.recover(ctx))
		check(j.Prune(ctx, now.Add(time.Hour)))
		check(j.PruneFeed(ctx, now.Add(time.Hour)))
		check(j.PruneSeen(ctx, now.Add(time.Hour)))
		check(j.PruneInbox(ctx, now.Add(time.Hour)))
		check(j.TaskClaims(ctx, "a"))
		check(j.Earlier(ctx, "a"))
		check(j.Tasks(ctx))
		check(j.Facts(ctx, FactFilter{Since: now, Seen: true}))
		check(j.Feed(ctx, FactFilter{Task: "a", Agent: "Sandman", Limit: 1}))
		_, err := j.TakeTriggers(ctx, inbox.Take{Agent: "Merlin", Taker: "t", Now: now, At: now, Limit: 1})
		check(nil, err)
	}
	do(t, errors.Join(failed...))
}

// recompiled returns how often each prepared statement of a connection was compiled again.
func recompiled(t *testing.T, conn *sql.Conn) map[string]int {
	t.Helper()
	counts, err := reprepared(conn, sqlite3.Xsqlite3_next_stmt, sqlite3.Xsqlite3_sql, sqlite3.Xsqlite3_stmt_status)
	do(t, err)
	return counts
}

// reprepared asks SQLite itself, because the driver does not tell: it looks into the driver's
// connection. T is SQLite's state of a thread.
func reprepared[T any](conn *sql.Conn, next func(T, uintptr, uintptr) uintptr, text func(T, uintptr) uintptr, status func(T, uintptr, int32, int32) int32) (map[string]int, error) {
	counts := make(map[string]int)
	err := conn.Raw(func(driver any) error {
		c := reflect.ValueOf(driver).Elem()
		db, tls := uintptr(c.FieldByName("db").Uint()), *(*T)(c.FieldByName("tls").Addr().UnsafePointer())
		for s := next(tls, db, 0); s != 0; s = next(tls, db, s) {
			counts[textAt(text(tls, s))] += int(status(tls, s, sqlite3.SQLITE_STMTSTATUS_REPREPARE, 0))
		}
		return nil
	})
	return counts, err
}

// textAt returns the text of C at an address.
func textAt(at uintptr) string {
	start := *(**byte)(unsafe.Pointer(&at))
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(start), n)) != 0 {
		n++
	}
	return strings.Clone(unsafe.String(start, n))
}

// do fails the test at once if there was an error.
func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// opened returns a new journal in a file, open until the test is over.
func opened(t *testing.T) *Journal {
	t.Helper()
	j, err := Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"))
	do(t, err)
	t.Cleanup(func() { j.Close() })
	return j
}

// check fails the test if there was an error.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// errOf returns the error of a call alone.
func errOf[T any](_ T, err error) error { return err }
