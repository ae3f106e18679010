package journal

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/outbox"
	"dibs/internal/task"
	"dibs/internal/testkit/pgtest"
)

// commits counts the commits in the WAL of the file at path, which must not have
// been checkpointed. A frame that ends a transaction says how large the file is then.
func commits(t *testing.T, path string) int {
	t.Helper()
	wal, err := os.ReadFile(path + "-wal")
	do(t, err)
	const header, frameHeader = 32, 24
	page := int(binary.BigEndian.Uint32(wal[8:]))
	salts, n := wal[16:24], 0
	for frames := wal[header:]; len(frames) >= frameHeader+page; frames = frames[frameHeader+page:] {
		if slices.Equal(frames[8:16], salts) && binary.BigEndian.Uint32(frames[4:]) != 0 {
			n++
		}
	}
	return n
}

// line is a journal and those who wait in line for its writer.
type line struct {
	*Journal
	t       *testing.T
	release chan struct{}
	results []chan error
}

// inLine runs a test on a journal whose writer is busy until the test calls
// ends, so that it is known who waits and in which order.
func inLine(t *testing.T, test func(t *testing.T, l *line)) {
	t.Helper()
	pgtest.OnlySQLite(t)
	path := filepath.Join(t.TempDir(), "journal.db")
	synctest.Test(t, func(t *testing.T) {
		j, err := Open(t.Context(), path)
		do(t, err)
		defer j.Close()
		l := &line{Journal: j, t: t, release: make(chan struct{})}
		l.joins(func() error {
			return j.write(t.Context(), func(*tx) error { <-l.release; return nil })
		})
		test(t, l)
	})
}

// joins starts a call, which gets behind those that wait already.
func (l *line) joins(call func() error) {
	result := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				result <- fmt.Errorf("panic: %v", p)
			}
		}()
		result <- call()
	}()
	synctest.Wait()
	l.results = append(l.results, result)
}

// ends lets the line move, and returns what became of those who joined it.
func (l *line) ends() (errs []error) {
	close(l.release)
	for _, result := range l.results {
		errs = append(errs, <-result)
	}
	return errs[1:]
}

func (l *line) sets(key string) {
	l.joins(func() error { return l.SetMeta(l.t.Context(), key, "v") })
}

// writes joins an operation that sets key and then does something else.
func (l *line) writes(ctx context.Context, key string, then func(tx *tx) error) {
	l.joins(func() error {
		return l.write(ctx, func(tx *tx) error {
			if _, err := tx.ExecContext(ctx, "INSERT INTO meta VALUES (?, 'v')", key); err != nil {
				return err
			}
			return then(tx)
		})
	})
}

// wants checks which keys are set.
func (l *line) wants(keys ...string) {
	l.t.Helper()
	got, err := collect(l.t.Context(), l.readers, scanString, "SELECT key FROM meta WHERE key <> 'schema' ORDER BY key")
	if err != nil || !slices.Equal(got, keys) {
		l.t.Errorf("keys = %v, %v; want %v", got, err, keys)
	}
}

func TestConcurrentWritesShareCommits(t *testing.T) {
	for _, test := range []struct{ writers, commits int }{
		{1, 1}, {2, 1}, {maxGroup, 1}, {maxGroup + 1, 2}, {2*maxGroup + 1, 3},
	} {
		t.Run(fmt.Sprint(test.writers), func(t *testing.T) {
			inLine(t, func(t *testing.T, l *line) {
				var keys []string
				for i := range test.writers {
					keys = append(keys, fmt.Sprintf("%03d", i))
					l.sets(keys[i])
				}
				before := commits(t, l.Path())
				check(t, errors.Join(l.ends()...))
				l.wants(keys...)
				if n := commits(t, l.Path()) - before; n != test.commits {
					t.Errorf("%d writers made %d commits, want %d", test.writers, n, test.commits)
				}
			})
		})
	}
}

// Whatever makes operations fail, the others of their group are kept.
func TestEachFailsAlone(t *testing.T) {
	failure := errors.New("failure")
	for name, fail := range map[string]func(tx *tx) error{
		"by itself": func(*tx) error { return failure },
		"at a statement": func(tx *tx) error {
			_, err := tx.ExecContext(context.Background(), "INSERT INTO meta VALUES ('1', 'again')")
			return err
		},
		"at COMMIT": func(tx *tx) error {
			_, err := tx.ExecContext(context.Background(), "INSERT INTO reservations VALUES ('a', 'no such claim', 'Sandman', 0)")
			return err
		},
		"and rolls back everything": func(tx *tx) error {
			return errors.Join(failure, tx.script("ROLLBACK")) // as SQLite does by itself for some errors
		},
		"and rolls back everything before it has changed anything": func(tx *tx) error {
			err := tx.script("ROLLBACK")
			tx.changed = false
			return errors.Join(err, tx.script("INSERT INTO nothing VALUES (1)"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLine(t, func(t *testing.T, l *line) {
				l.sets("1")
				l.writes(t.Context(), "2", fail)
				l.writes(t.Context(), "3", func(*tx) error { return failure })
				l.sets("4")
				errs := l.ends()
				if errs[0] != nil || errs[1] == nil || !errors.Is(errs[2], failure) || errs[3] != nil {
					t.Errorf("errors = %v, want those of the second and the third", errs)
				}
				l.wants("1", "4")
				if err := l.SetMeta(t.Context(), "5", "v"); err != nil {
					t.Errorf("the next operation: %v", err)
				}
				l.wants("1", "4", "5")
			})
		})
	}
}

// A refusal does not take its group apart.
func TestRefusalsShareCommits(t *testing.T) {
	inLine(t, func(t *testing.T, l *line) {
		begin := func(fingerprint string) {
			l.joins(func() error {
				_, err := l.BeginRequest(t.Context(), 1000, "key", fingerprint, time.Now())
				return err
			})
		}
		l.sets("1")
		begin("f")
		begin("g")
		begin("f")
		l.sets("2")
		before := commits(t, l.Path())
		errs := l.ends()
		for i, want := range []error{nil, nil, outbox.ErrReused, outbox.ErrUnanswered, nil} {
			if !errors.Is(errs[i], want) {
				t.Errorf("number %d: error = %v, want %v", i, errs[i], want)
			}
		}
		l.wants("1", "2")
		if n := commits(t, l.Path()) - before; n != 1 {
			t.Errorf("%d commits, want 1", n)
		}
	})
}

// Everybody gets their turn in the order in which they came, those who want a
// transaction for themselves too, and sees what was done before.
func TestWritersTakeTurns(t *testing.T) {
	inLine(t, func(t *testing.T, l *line) {
		var seen []string
		look := func(tx *tx) error {
			keys, err := collect(t.Context(), tx, scanString, "SELECT key FROM meta WHERE key <> 'schema' ORDER BY key")
			seen = append(seen, strings.Join(keys, ""))
			return err
		}
		l.writes(t.Context(), "1", look)
		l.writes(t.Context(), "2", look)
		l.joins(func() error { return l.writeAlone(t.Context(), look) })
		l.writes(t.Context(), "3", look)
		l.joins(func() error { return l.writer.outside(t.Context(), func(*sql.Conn) error { return look(l.writer.tx) }) })
		l.writes(t.Context(), "4", look)
		l.writes(t.Context(), "5", look)
		before := commits(t, l.Path())
		check(t, errors.Join(l.ends()...))
		if want := []string{"1", "12", "12", "123", "123", "1234", "12345"}; !slices.Equal(seen, want) {
			t.Errorf("seen = %q, want %q", seen, want)
		}
		if n := commits(t, l.Path()) - before; n != 3 { // 1 and 2, 3, 4 and 5
			t.Errorf("%d commits, want 3", n)
		}
	})
}

// A caller that gives up while it waits stores nothing, delays nobody, and does not
// wait for those before it. An appointed committer commits all the same.
func TestGivenUpInLine(t *testing.T) {
	inLine(t, func(t *testing.T, l *line) {
		ctx, cancel := context.WithCancel(t.Context())
		l.writes(ctx, "1", func(*tx) error { return nil })
		l.sets("2")
		l.writes(ctx, "3", func(*tx) error { return nil })
		cancel()
		for _, i := range []int{1, 3} {
			if err := <-l.results[i]; !errors.Is(err, context.Canceled) {
				t.Errorf("number %d: error = %v, want context.Canceled", i, err)
			}
			l.results[i] <- nil
		}
		check(t, errors.Join(l.ends()...))
		l.wants("2")
	})
	inLine(t, func(t *testing.T, l *line) {
		ctx, cancel := context.WithCancel(t.Context())
		l.joins(func() error {
			return l.writeAlone(t.Context(), func(*tx) error { cancel(); return nil })
		})
		l.writes(ctx, "1", func(*tx) error { return nil }) // appointed before it can notice
		l.sets("2")
		errs := l.ends()
		if errs[0] != nil || !errors.Is(errs[1], context.Canceled) || errs[2] != nil {
			t.Errorf("errors = %v, want only that the second was cancelled", errs)
		}
		l.wants("2")
	})
}

// An operation that has begun is seen through.
func TestBegunIsSeenThrough(t *testing.T) {
	inLine(t, func(t *testing.T, l *line) {
		ctx, cancel := context.WithCancel(t.Context())
		l.sets("1")
		l.writes(ctx, "2", func(tx *tx) error {
			cancel()
			_, err := tx.ExecContext(ctx, "INSERT INTO meta VALUES ('3', 'v')")
			return err
		})
		l.sets("4")
		check(t, errors.Join(l.ends()...))
		l.wants("1", "2", "3", "4")
	})
}

// An operation that panics takes its group along, and nobody else.
func TestPanicPassesTheTurnOn(t *testing.T) {
	inLine(t, func(t *testing.T, l *line) {
		for range 3 {
			l.sets("1")
		}
		l.writes(t.Context(), "2", func(*tx) error { panic("oh") })
		l.sets("3")
		l.joins(func() error { return l.writeAlone(t.Context(), func(*tx) error { return nil }) })
		l.sets("4")
		errs := l.ends()
		want := []error{errors.New("panic: oh"), errAborted, errAborted, errAborted, errAborted, nil, nil}
		for i, err := range errs {
			if fmt.Sprint(err) != fmt.Sprint(want[i]) && !errors.Is(err, want[i]) {
				t.Errorf("number %d: error = %v, want %v", i, err, want[i])
			}
		}
		l.wants("4")
	})
}

// Close lets those who came before it finish, and turns away those who come later.
func TestCloseWaitsInLine(t *testing.T) {
	inLine(t, func(t *testing.T, l *line) {
		l.sets("1")
		l.joins(l.Close)
		l.sets("2")
		errs := l.ends()
		if errs[0] != nil || errs[1] != nil || !errors.Is(errs[2], errClosed) {
			t.Errorf("errors = %v, want that the last one found it closed", errs)
		}
		if err := l.SetMeta(t.Context(), "3", "v"); !errors.Is(err, errClosed) {
			t.Errorf("after Close: %v, want that it is closed", err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("Close again: %v", err)
		}
		j, err := Open(t.Context(), l.Path())
		do(t, err)
		defer j.Close()
		(&line{Journal: j, t: t}).wants("1")
	})
}

// What takes long is not committed with others.
func TestLongOperationsAreAlone(t *testing.T) {
	tasks := func(n int) (tasks []task.Task) {
		for i := range n {
			tasks = append(tasks, task.Task{ID: task.ID(fmt.Sprint(n, "-", i))})
		}
		return tasks
	}
	ids := func(tasks []task.Task) (ids []task.ID) {
		for _, t := range tasks {
			ids = append(ids, t.ID)
		}
		return ids
	}
	inLine(t, func(t *testing.T, l *line) {
		l.sets("1")
		l.joins(func() error { return l.PutTasks(t.Context(), tasks(maxShared)) })
		l.joins(func() error { return l.PutTasks(t.Context(), tasks(maxShared+1)) })
		l.sets("2")
		l.joins(func() error { _, err := l.Publish(t.Context(), time.Now(), ids(tasks(maxShared+1))); return err })
		l.joins(func() error { return l.DeleteTasks(t.Context(), ids(tasks(maxShared+1))) })
		before := commits(t, l.Path())
		check(t, errors.Join(l.ends()...))
		if n := commits(t, l.Path()) - before; n != 5 {
			t.Errorf("%d commits, want 5", n)
		}
	})
}
