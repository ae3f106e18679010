package journal

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// former is a journal as an earlier program left it.
type former struct {
	raw    *sql.DB
	place  string                         // its file, or the beginning of its schema's name
	prefix string                         // of its tables' names
	open   func(context.Context) *Journal // with this program
}

func (f *former) space() string { return strings.TrimSuffix(f.prefix, ".") }

// carryEnv has the place of a former journal, for a process that opens it and is killed.
const carryEnv = "JOURNAL_TEST_CARRY"

// formerOf returns a copy of the journal in fixtures/journals with that number.
func formerOf(t *testing.T, number int) *former {
	t.Helper()
	folder := filepath.Join("..", "..", "fixtures", "journals", fmt.Sprint(number))
	if pgtest.URL() == "" {
		data, err := os.ReadFile(filepath.Join(folder, FileName))
		f := at(t, filepath.Join(t.TempDir(), FileName))
		if err == nil {
			err = os.WriteFile(f.place, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	script, err := os.ReadFile(filepath.Join(folder, "postgres.sql"))
	f := at(t, fmt.Sprintf("former%d", board.Add(1)))
	if err == nil {
		_, err = f.raw.ExecContext(t.Context(), strings.ReplaceAll(string(script), "dibs_"+formerBoard, f.space()))
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// formerBoard is the tasks database of the journals in fixtures.
const formerBoard = "2f835e812bbb81b69700e18108a40b1f"

// at returns the journal in a file, or with that beginning of its schema's name.
func at(t *testing.T, place string) *former {
	t.Helper()
	f := &former{place: place}
	if pgtest.URL() == "" {
		var err error
		if f.raw, err = file(place).connect(1, nil, "busy_timeout(5000)"); err != nil {
			t.Fatal(err)
		}
		f.open = func(ctx context.Context) *Journal {
			j, err := Open(ctx, place)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { j.Close() })
			return j
		}
	} else {
		p := Postgres{URL: pgtest.URL(), Schema: place, Board: formerBoard}
		config, err := pgx.ParseConfig(p.URL)
		if err != nil {
			t.Fatal(err)
		}
		config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		f.raw, f.prefix = stdlib.OpenDB(*config), place+"_"+formerBoard+"."
		f.open = func(context.Context) *Journal {
			j, _ := leads(t, member(t, p, time.Second, 2*time.Second), "newer")
			return j
		}
	}
	t.Cleanup(func() { f.raw.Close() })
	return f
}

// rows returns all that is in the tables: what every program of a journal sees.
func (f *former) rows(t *testing.T) (all []string) {
	t.Helper()
	for _, table := range tableNames() {
		found, err := f.raw.QueryContext(t.Context(), "SELECT * FROM "+f.prefix+table)
		if err != nil {
			t.Fatal(err)
		}
		columns, err := found.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for found.Next() {
			values, into := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			if err := found.Scan(into...); err != nil {
				t.Fatal(err)
			}
			row := table
			for i, v := range values {
				if text, ok := v.([]byte); ok {
					v = string(text)
				}
				row += fmt.Sprintf(" %s=%v", columns[i], v)
			}
			all = append(all, row)
		}
		if err := found.Err(); err != nil {
			t.Fatal(err)
		}
		found.Close()
	}
	slices.Sort(all)
	return all
}

// Each row of an older journal is there after it was carried over, but for what any start changes. And
// what the rows say, this program reads.
func TestCarriedOver(t *testing.T) {
	f := formerOf(t, 1)
	before := f.rows(t)
	j := f.open(t.Context())
	after := f.rows(t)
	changed := func(rows, others []string) (tables []string) {
		for _, row := range rows {
			if !slices.Contains(others, row) {
				table, _, _ := strings.Cut(row, " ")
				tables = append(tables, table)
			}
		}
		return tables
	}
	// What was only reserved is over, what was being sent is in doubt, and a request that nobody can
	// answer any more is forgotten.
	gone, come := []string{"claims", "meta", "owed", "reservations"}, []string{"claims", "meta", "owed"}
	if f.prefix != "" {
		gone = slices.Insert(gone, 3, "requests")
	}
	if diff := cmp.Diff(gone, changed(before, after)); diff != "" {
		t.Errorf("rows that are gone or changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(come, changed(after, before)); diff != "" {
		t.Errorf("rows that are new or changed (-want +got):\n%s", diff)
	}

	ctx := t.Context()
	holds, _, err := j.Live(ctx)
	testkit.Must(t, err)
	states := make(map[string]claim.State)
	for _, h := range holds {
		states[h.Agent] = h.State
		if h.Fence == 0 || h.Task.Title == "" || h.Agent == "Vole" && h.Asked != 10*time.Minute {
			t.Errorf("%+v", h)
		}
	}
	if states["Sandman"] != claim.Finishing || states["Vole"] != claim.Held {
		t.Errorf("live claims: %v", states)
	}
	state, err := j.Brake(ctx)
	testkit.Must(t, err)
	offers, err := j.Offers(ctx)
	testkit.Must(t, err)
	questions, err := j.Questions(ctx)
	testkit.Must(t, err)
	reservations, err := j.Reservations(ctx)
	testkit.Must(t, err)
	if len(state.Pauses) != 1 || len(offers) != 1 || len(questions) != 1 || len(reservations) != 2 {
		t.Errorf("pauses %v, offers %v, questions %v, reservations %v", state.Pauses, offers, questions, reservations)
	}
	// Of three messages one is acknowledged, one taken, and one neither.
	got, err := j.TakeTriggers(ctx, inbox.Take{Agent: "Sandman", Taker: "new", Now: time.Now(), At: time.Now(), Visibility: 1000 * time.Hour})
	testkit.Must(t, err)
	texts := make([]string, 0, len(got))
	for _, trigger := range got {
		texts = append(texts, trigger.Text)
	}
	if !slices.Contains(texts, "third") || slices.Contains(texts, "first") {
		t.Errorf("messages: %q", texts)
	}
	var key, print string
	testkit.Must(t, f.raw.QueryRowContext(ctx, "SELECT key, fingerprint FROM "+f.prefix+"requests WHERE key = 'complete-1'").Scan(&key, &print))
	answer, err := j.BeginRequest(ctx, os.Getuid(), key, print, time.Now())
	if err != nil || answer == nil || !strings.Contains(string(answer.Body), "it is done") {
		t.Errorf("the answer to a request of before: %v, %v", answer, err)
	}
	if f.prefix != "" {
		return
	}
	aside := former{raw: nil}
	if aside.raw, err = file(file(f.place).former()).connect(1, nil); err != nil {
		t.Fatal(err)
	}
	defer aside.raw.Close()
	if diff := cmp.Diff(before, aside.rows(t)); diff != "" || !strings.Contains(j.CarriedOver(), file(f.place).former()) {
		t.Errorf("%s; the copy (-before +copy):\n%s", j.CarriedOver(), diff)
	}
}

// TestCarryVictim is the process that TestKilledWhileCarriedOver kills.
func TestCarryVictim(t *testing.T) {
	place := os.Getenv(carryEnv)
	if place == "" {
		t.Skip("this is another test's process")
	}
	at(t, place).open(t.Context())
	fmt.Println("carried over")
	select {}
}

// A program that is killed while it carries a journal over, at any moment, has carried over all or
// nothing, and the next start does the rest.
func TestKilledWhileCarriedOver(t *testing.T) {
	testkit.TakesSeconds(t)
	whole := formerOf(t, 1)
	whole.open(t.Context())
	want := len(whole.rows(t))
	steps := 12
	if whole.prefix != "" {
		steps = 5 // a term has to end in each
	}
	// kill kills a process after a time, and returns how long it would have taken, if it was done.
	kill := func(t *testing.T, after time.Duration) (took time.Duration) {
		f := formerOf(t, 1)
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCarryVictim$")
		cmd.Env = append(os.Environ(), carryEnv+"="+f.place)
		out, err := cmd.StdoutPipe()
		testkit.Must(t, err)
		began := time.Now()
		testkit.Must(t, cmd.Start())
		timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		for lines := bufio.NewScanner(out); took == 0 && lines.Scan(); {
			if lines.Text() == "carried over" {
				took = time.Since(began)
			}
		}
		if timer.Stop() {
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait()
		f.open(t.Context())
		if got := len(f.rows(t)); got != want {
			t.Errorf("killed after %v: %d rows, want %d", after, got, want)
		}
		return took
	}
	took := kill(t, time.Minute)
	for i := range steps {
		t.Run(fmt.Sprint(i), func(t *testing.T) { kill(t, took*time.Duration(i)/time.Duration(steps)) })
	}
}

// While an older program leads, a newer one is a door to it, and changes nothing. Once it has carried the
// journal over, no older one leads again.
func TestOlderLeader(t *testing.T) {
	pgtest.OnlyPostgres(t)
	f := formerOf(t, 1)
	run := func(statement string) error {
		_, err := f.raw.ExecContext(t.Context(), strings.ReplaceAll(statement, "leader", f.prefix+"leader"))
		return err
	}
	testkit.Must(t, run("UPDATE leader SET epoch = 7, name = 'old', since = now(), until = now() + interval '1 hour'"))
	d := member(t, Postgres{URL: pgtest.URL(), Schema: f.place, Board: formerBoard}, 2*time.Hour, 2*time.Second)
	term, err := d.Lead(t.Context(), "new")
	if err != nil || term.Epoch != 0 || d.Schema() != 1 {
		t.Errorf("the lead: %+v, %v, of schema %d", term, err, d.Schema())
	}
	if now, err := d.Members(t.Context()); err != nil || now.Leader != "old" || now.Epoch != 7 || now.Over {
		t.Errorf("who leads: %+v, %v", now, err)
	}
	testkit.Must(t, run("UPDATE leader SET until = now()"))
	if term, err = d.Lead(t.Context(), "new"); err != nil || term.Epoch != 8 || d.Schema() != Schema {
		t.Errorf("the lead: %+v, %v, of schema %d", term, err, d.Schema())
	}
	if run("UPDATE leader SET epoch = epoch + 1, name = 'old'") == nil {
		t.Error("a program of before can take the lead")
	}
}

// A program that meets a journal of a newer one does not lead, whether it was there before or not.
func TestNewerJournal(t *testing.T) {
	p := shared(t)
	before := member(t, p, time.Second, 2*time.Second)
	before.change(t, fmt.Sprintf("UPDATE %%s.meta SET value = '%d' WHERE key = 'schema'", Schema+1))
	for name, d := range map[string]*Database{"before": before, "after": member(t, p, time.Second, 2*time.Second)} {
		if term, err := d.Lead(t.Context(), name); err != nil || term.Epoch != 0 || d.Schema() != Schema+1 {
			t.Errorf("%s: %+v, %v, of schema %d", name, term, err, d.Schema())
		}
		if _, err := d.Members(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
