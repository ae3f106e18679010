package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/journal/report"
	"dibs/internal/outbox"
	"dibs/internal/task"
)

// Each benchmark works on a journal that has been in use: with benchTasks tasks,
// benchLive live claims, and a history of claims that ended. It reports, beside
// the time, how much CPU the whole process spent on each call, and for how long
// all but one call in a hundred took.
const (
	benchTasks   = 10_000
	benchLive    = 500
	benchHistory = 2_000
)

// benchFile is the file of a journal in use, made once, and the claims that live in it.
var benchFile struct {
	once sync.Once
	data []byte
	live []claim.Hold
}

// usedJournal is a journal for a benchmark, and the claims that live in it.
func usedJournal(b *testing.B) (*journal.Journal, []claim.Hold) {
	b.Helper()
	benchFile.once.Do(func() {
		j, live := makeUsed(b)
		do(b, j.Close())
		data, err := os.ReadFile(j.Path())
		do(b, err)
		benchFile.data, benchFile.live = data, live
	})
	path := filepath.Join(b.TempDir(), "journal.db")
	write(b, path, benchFile.data)
	return open(b, path), benchFile.live
}

func makeUsed(b *testing.B) (*journal.Journal, []claim.Hold) {
	b.Helper()
	j := open(b, filepath.Join(b.TempDir(), "journal.db"))
	var tasks []task.Task
	for i := range benchTasks {
		tasks = append(tasks, benchTask(i))
	}
	for part := range slices.Chunk(tasks, 500) {
		do(b, j.PutTasks(b.Context(), part))
	}
	var live []claim.Hold
	for i := range benchHistory + benchLive {
		at := t0.Add(time.Duration(i) * time.Second)
		c := benchClaim(i, at)
		reserve(b, j, c, at)
		c = held(c, at)
		save(b, j, c, event(c, claim.KindGranted, at))
		if i < benchHistory {
			save(b, j, ended(c, claim.EndReleased, at), event(c, claim.KindReleased, at))
			continue
		}
		live = append(live, c)
	}
	for {
		ids, err := j.Unpublished(b.Context(), "", 500)
		do(b, err)
		if len(ids) == 0 {
			break
		}
		if _, err := j.Publish(b.Context(), t0, ids); err != nil {
			b.Fatal(err)
		}
	}
	do(b, j.BeginFeed(b.Context()))
	return j, live
}

func benchTask(i int) task.Task {
	return task.Task{
		ID: task.ID(fmt.Sprintf("2a1b3c4d-%04d-4000-8000-%012d", i%10_000, i)), Title: fmt.Sprintf("Task number %d of the board", i),
		URL: fmt.Sprintf("https://www.notion.so/2a1b3c4d%024d", i), Status: task.Open, Priority: task.Medium,
	}
}

func benchClaim(i int, at time.Time) claim.Hold {
	c := attempt(fmt.Sprintf("agent-%d", i%64), "", at)
	c.Task = benchTask(i % benchTasks)
	return c
}

// run calls op b.N times, from that many callers at once.
func run(b *testing.B, callers int, op func(i int) error) {
	b.Helper()
	b.ReportAllocs()
	took := make([]time.Duration, b.N)
	before := cpu(b)
	b.ResetTimer()
	var next atomic.Int64
	race(callers, func(int) {
		for i := int(next.Add(1)) - 1; i < b.N; i = int(next.Add(1)) - 1 {
			began := time.Now()
			if err := op(i); err != nil {
				b.Error(err)
				return
			}
			took[i] = time.Since(began)
		}
	})
	b.StopTimer()
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// cpu is how much CPU time the process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// A grant as the protocol makes it, from the first word of it to its end.
func BenchmarkGrant(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			j, _ := usedJournal(b)
			ctx := b.Context()
			run(b, callers, func(i int) error {
				at := t0.Add(24*time.Hour + time.Duration(i)*time.Millisecond)
				c := benchClaim(benchHistory+benchLive+i, at)
				c.Task.ID += task.ID(fmt.Sprint("-", i))
				key := "key-" + string(c.ID)
				if _, err := j.BeginRequest(ctx, 1000, key, "f", at); err != nil {
					return err
				}
				if err := j.BindRequest(ctx, 1000, key, c.ID); err != nil {
					return err
				}
				if _, refusal, err := j.Reserve(ctx, c, at, 0); err != nil || refusal != nil {
					return fmt.Errorf("refusal %v, error %w", refusal, err)
				}
				c.State = claim.Writing
				if err := j.Save(ctx, claim.Change{Holds: []claim.Hold{c}}); err != nil {
					return err
				}
				if err := j.PutTasks(ctx, []task.Task{c.Task}); err != nil {
					return err
				}
				c = held(c, at)
				granted := event(c, claim.KindGranted, at)
				granted.Remote = true
				if err := j.Save(ctx, claim.Change{Holds: []claim.Hold{c}, Facts: []claim.Fact{granted}}); err != nil {
					return err
				}
				return j.FinishRequest(ctx, 1000, key, outbox.Answer{Status: 201, Body: []byte(`{"id":"` + string(c.ID) + `"}`)})
			})
		})
	}
}

func BenchmarkReserve(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			j, _ := usedJournal(b)
			run(b, callers, func(i int) error {
				at := t0.Add(24 * time.Hour)
				c := benchClaim(benchHistory+benchLive+i, at)
				c.Task.ID += task.ID(fmt.Sprint("-", i))
				_, _, err := j.Reserve(b.Context(), c, at, 0)
				return err
			})
		})
	}
}

func BenchmarkRefusal(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			j, live := usedJournal(b)
			run(b, callers, func(i int) error {
				holder := live[i%len(live)]
				at := holder.Reserved
				c := benchClaim(i, at)
				c.Task = holder.Task
				_, refusal, err := j.Reserve(b.Context(), c, at, 0)
				if err == nil && refusal == nil {
					err = fmt.Errorf("not refused")
				}
				return err
			})
		})
	}
}

func BenchmarkSave(b *testing.B) {
	for _, to := range []claim.State{claim.Writing, claim.Held} {
		for _, callers := range []int{1, 16} {
			b.Run(fmt.Sprint(to, "/", callers), func(b *testing.B) {
				j, live := usedJournal(b)
				run(b, callers, func(i int) error {
					c := live[i%len(live)]
					if c.State = to; to == claim.Writing {
						return j.Save(b.Context(), claim.Change{Holds: []claim.Hold{c}})
					}
					granted := event(c, claim.KindGranted, t0)
					granted.Remote = true
					return j.Save(b.Context(), claim.Change{Holds: []claim.Hold{c}, Facts: []claim.Fact{granted}})
				})
			})
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	j, live := usedJournal(b)
	run(b, 1, func(i int) error {
		e := event(live[i%len(live)], claim.KindDenied, t0)
		e.Remote = true
		return j.Record(b.Context(), e)
	})
}

func BenchmarkRequest(b *testing.B) {
	j, _ := usedJournal(b)
	run(b, 1, func(i int) error {
		key := fmt.Sprint("key-", i)
		if _, err := j.BeginRequest(b.Context(), 1000, key, "f", t0); err != nil {
			return err
		}
		return j.FinishRequest(b.Context(), 1000, key, outbox.Answer{Status: 201, Body: []byte(`{}`)})
	})
}

func BenchmarkPutTasks(b *testing.B) {
	for _, n := range []int{1, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			j, _ := usedJournal(b)
			run(b, 1, func(i int) error {
				tasks := make([]task.Task, n)
				for k := range tasks {
					tasks[k] = benchTask((i*n + k) % benchTasks)
					tasks[k].Title += fmt.Sprint(i)
				}
				return j.PutTasks(b.Context(), tasks)
			})
		})
	}
}

func BenchmarkTell(b *testing.B) {
	j, _ := usedJournal(b)
	run(b, 1, func(i int) error {
		t := benchTask(i % benchTasks)
		t.Title += fmt.Sprint(i)
		if err := j.PutTasks(b.Context(), []task.Task{t}); err != nil {
			return err
		}
		_, err := j.Publish(b.Context(), t0, []task.ID{t.ID})
		return err
	})
}

// An entry taken from the outbox, sent, and delivered.
func BenchmarkOutbox(b *testing.B) {
	j, live := usedJournal(b)
	var items []outbox.Intent
	run(b, 1, func(i int) error {
		if len(items) == 0 {
			e := event(live[i%len(live)], claim.KindGranted, t0)
			if err := j.Record(b.Context(), e); err != nil {
				return err
			}
			var err error
			if items, err = j.NextOwed(b.Context(), outbox.MeshEntry, t0, 32); err != nil {
				return err
			}
		}
		item := items[0]
		items = items[1:]
		if err := j.StartSending(b.Context(), item, t0); err != nil {
			return err
		}
		return j.Delivered(b.Context(), item, "", t0)
	})
}

// What is read for each request or at each tick.
func BenchmarkRead(b *testing.B) {
	j, live := usedJournal(b)
	for _, test := range []struct {
		name string
		read func(i int) error
	}{
		{"Claim", func(i int) error { _, err := j.Hold(b.Context(), live[i%len(live)].ID); return err }},
		{"TaskClaims", func(i int) error { _, err := j.TaskClaims(b.Context(), live[i%len(live)].Task.ID); return err }},
		{"Events", func(i int) error {
			_, err := j.Facts(b.Context(), journal.FactFilter{Newest: true, Limit: 20})
			return err
		}},
		{"EventsOfAgent", func(i int) error {
			_, err := j.Facts(b.Context(), journal.FactFilter{Agent: "agent-7", Newest: true, Limit: 20})
			return err
		}},
		{"Feed", func(i int) error { _, err := j.Feed(b.Context(), journal.FactFilter{Limit: 20}); return err }},
		{"FeedBounds", func(i int) error { _, _, err := j.FeedBounds(b.Context()); return err }},
		{"Untold", func(i int) error { _, err := j.Unpublished(b.Context(), "", 200); return err }},
		{"Backlog", func(i int) error { _, err := j.Backlog(b.Context(), nil); return err }},
		{"NextOwedAt", func(i int) error {
			_, _, err := j.NextOwedAt(b.Context(), outbox.MeshEntry)
			return err
		}},
	} {
		b.Run(test.name, func(b *testing.B) { run(b, 1, test.read) })
	}
}

// millionEvents is how many events the benchmarks of the history have, over a month.
const millionEvents = 1_000_000

// busy is a journal with a month of events up to t0, of a hundred agents.
func busy(b *testing.B) *journal.Journal {
	b.Helper()
	path := filepath.Join(b.TempDir(), "journal.db")
	j := open(b, path)
	do(b, j.Close())
	runSQL(b, path, fmt.Sprintf(`
		WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %[1]d - 1)
		INSERT INTO facts (seq, id, at, task_id, agent, holder, claim_id, logged, body)
		SELECT i + 1, printf('%%026d', i), %[2]d - (%[1]d - i) * %[3]d, 'task' || (i / 3), 'agent' || (i %% 100), '', 'claim' || (i / 3), 1, '{"kind":"granted"}' FROM n;
		UPDATE facts SET took = seq %% 1000000 WHERE seq %% 3 = 0;
		INSERT INTO seen SELECT agent, max(at) FROM facts GROUP BY agent;`,
		millionEvents, t0.UnixMilli(), (30*24*time.Hour).Milliseconds()/millionEvents))
	return open(b, path)
}

// What is asked for after a month in which a million things happened.
func BenchmarkAgents(b *testing.B) {
	j := busy(b)
	b.Run("agents", func(b *testing.B) {
		run(b, 1, func(int) error {
			list, err := j.Agents(b.Context(), report.Asking{
				Limit: 500, Since: t0.AddDate(0, 0, -7), DoneSince: t0.Add(-9 * time.Hour), MedianSince: t0.AddDate(0, 0, -7),
			})
			if err == nil && len(list) != 100 {
				err = fmt.Errorf("%d agents", len(list))
			}
			return err
		})
	})
}
