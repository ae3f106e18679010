package broker_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/mirror"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// copied is a mirror that counts how often it is asked for a task.
type copied struct {
	broker.Mirror
	tasks map[task.ID]task.Task
	asked *int
}

func (c copied) Use(context.Context) {}

func (c copied) Task(id task.ID) (task.Task, bool) {
	*c.asked++
	t, ok := c.tasks[id]
	return t, ok
}

func (c copied) Tasks() iter.Seq[task.Task] {
	return func(yield func(task.Task) bool) {
		for _, t := range c.tasks {
			if !yield(t) {
				return
			}
		}
	}
}

func (copied) Standing() mirror.Standing { return mirror.Standing{} }

// noOffers is an inbox in which there are none.
type noOffers struct{ broker.Inbox }

func (noOffers) Offers(context.Context) ([]inbox.Offer, error) { return nil, nil }

// noLosses is the journal of agents that lost nothing.
type noLosses struct{ broker.Journal }

func (noLosses) Losses(context.Context, string) ([]claim.Loss, error) { return nil, nil }

func (noLosses) Facts(context.Context, claim.FactFilter) ([]claim.Fact, error) { return nil, nil }

// fatal is what a test, a benchmark and a check have in common.
type fatal interface{ Fatal(...any) }

// brokerOf returns a broker of those tasks, and how often it has asked for one.
func brokerOf(t fatal, tasks ...task.Task) (*broker.Broker, copied) {
	c := copied{tasks: make(map[task.ID]task.Task), asked: new(int)}
	for _, one := range tasks {
		c.tasks[one.ID] = one
	}
	claimer, err := claim.New(claim.Config{Policy: claim.Policy{Timeout: 30 * time.Minute, WriteWindow: time.Second, Settle: 2 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	return broker.New(broker.Config{Claimer: claimer, Mirror: c, Journal: noLosses{}, Inbox: broker.InboxConfig{Inbox: noOffers{}}, Clock: testkit.Clock{}}), c
}

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// A list of what is ready is what one gets who looks at every task and sorts, whatever the limit
// and the filter.
func TestReadyIsSortedAndCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		agents := []string{"", "Sandman", "Oracle"}
		var tasks []task.Task
		for i := range rapid.IntRange(0, 60).Draw(t, "tasks") {
			one := task.Task{
				ID: task.ID(fmt.Sprint("task-", i)), Status: rapid.SampledFrom([]task.Status{task.Open, task.Open, task.Open, task.Blocked, task.Completed, task.InProgress}).Draw(t, "status"),
				Title: rapid.SampledFrom([]string{"Fix the login", "Write the docs"}).Draw(t, "title"), Trashed: rapid.IntRange(0, 9).Draw(t, "trashed") == 0,
				Priority: rapid.SampledFrom(task.Priorities).Draw(t, "priority"), Created: began.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "minute")) * time.Minute),
			}
			if i > 0 && rapid.IntRange(0, 3).Draw(t, "depends") == 0 {
				one.DependsOn = []task.ID{task.ID(fmt.Sprint("task-", rapid.IntRange(0, i-1).Draw(t, "on")))}
			}
			if rapid.IntRange(0, 2).Draw(t, "assigned") == 0 {
				one.ClaimedBy = rapid.SampledFrom(agents).Draw(t, "to")
			}
			tasks = append(tasks, one)
		}
		b, m := brokerOf(t, tasks...)
		f := api.ListTasksInput{
			Ready: true, Agent: rapid.SampledFrom(agents).Draw(t, "agent"), Limit: rapid.SampledFrom([]int{0, 1, 3, 20}).Draw(t, "limit"),
			Status:   rapid.SampledFrom([]string{"", "", "OPEN", "open"}).Draw(t, "only"),
			Priority: rapid.SampledFrom([]string{"", "", "high", "low"}).Draw(t, "filter"), Text: rapid.SampledFrom([]string{"", "", "login"}).Draw(t, "words"),
		}
		if f.Text == "" && rapid.Bool().Draw(t, "where") {
			f.Where = []string{"title=Write the docs"}
		}
		var mine, open []task.Task
		for _, one := range tasks {
			done := !slices.ContainsFunc(one.DependsOn, func(id task.ID) bool { return m.tasks[id].Status != task.Completed || m.tasks[id].Trashed })
			switch {
			case one.Trashed, !done, one.Status != task.Open && (one.Status != task.InProgress || one.ClaimedBy == ""),
				f.Status != "" && one.Status != task.Open, f.Priority != "" && one.Priority.String() != f.Priority,
				!strings.Contains(one.Title, f.Text), len(f.Where) > 0 && one.Title != "Write the docs":
			case one.ClaimedBy == "":
				open = append(open, one)
			case one.ClaimedBy == f.Agent:
				mine = append(mine, one)
			}
		}
		task.Sort(mine)
		task.Sort(open)
		want := idsOf(append(mine, open...))
		total := len(want)
		if f.Limit > 0 {
			want = want[:min(f.Limit, total)]
		}
		got, err := b.ListTasks(context.Background(), nobody, &f)
		if err != nil {
			t.Fatal(err)
		}
		shown := []task.ID{}
		for _, v := range got.Tasks {
			shown = append(shown, v.ID)
		}
		if diff := cmp.Diff(want, shown); diff != "" || got.Total != total {
			t.Fatalf("%+v: %d tasks, want %d (-want +got):\n%s", f, got.Total, total, diff)
		}
	})
}

func idsOf(tasks []task.Task) []task.ID {
	out := []task.ID{}
	for _, t := range tasks {
		out = append(out, t.ID)
	}
	return out
}

// large returns as many tasks that are ready as that, of four priorities, each of which depends
// on one that is completed, so that who judges one asks for another.
func large(n int) []task.Task {
	tasks := []task.Task{{ID: "done", Status: task.Completed}}
	for i := range n {
		tasks = append(tasks, task.Task{
			ID: task.ID(fmt.Sprint("task-", i)), Status: task.Open, Title: fmt.Sprintf("Task %d of many", i), DependsOn: []task.ID{"done"},
			Priority: task.Priorities[i%len(task.Priorities)], Created: began.Add(time.Duration(i/20) * time.Minute),
		})
	}
	return tasks
}

// lists are questions for twenty tasks of a large board.
var lists = map[string]api.ListTasksInput{
	"all":      {Ready: true, Limit: 20},
	"agent":    {Ready: true, Limit: 20, Agent: "Sandman"},
	"priority": {Ready: true, Limit: 20, Priority: "low"},
	"text":     {Ready: true, Limit: 20, Text: "many"},
	"where":    {Ready: true, Limit: 20, Where: []string{"status=OPEN"}},
}

// Whoever asks for twenty of many ready tasks has twenty judged, and no more.
func TestFirstOfManyReady(t *testing.T) {
	const most = 3 * 20 // to judge one, and to say what it waits for
	b, m := brokerOf(t, large(10_000)...)
	for name, f := range lists {
		*m.asked = 0
		got, err := b.ListTasks(t.Context(), nobody, &f)
		if err != nil || len(got.Tasks) != 20 || f.Priority == "" && got.Total != 10_000 {
			t.Fatalf("%s: %d of %d tasks, %v", name, len(got.Tasks), got.Total, err)
		}
		if *m.asked > most {
			t.Errorf("%s: 20 tasks of 10,000 took %d looks at tasks, want at most %d", name, *m.asked, most)
		}
	}
	*m.asked = 0
	b.Changed("task-5000")
	if *m.asked > 2 {
		t.Errorf("a change of one of 10,000 ready tasks took %d looks at tasks", *m.asked)
	}
}

// BenchmarkReady asks for twenty tasks where a thousand are ready and where ten thousand are,
// and changes one:
//
//	go test -run=NONE -bench=Ready ./internal/broker
func BenchmarkReady(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		br, m := brokerOf(b, large(n)...)
		measure := func(name string, do func(i int) error) {
			b.Run(fmt.Sprintf("%s/ready=%d", name, n), func(b *testing.B) {
				*m.asked = 0
				i := 0
				for ; b.Loop(); i++ {
					if err := do(i); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(*m.asked)/float64(i), "looks/op")
			})
		}
		for name, f := range lists {
			measure(name, func(int) error {
				_, err := br.ListTasks(b.Context(), nobody, &f)
				return err
			})
		}
		measure("change", func(i int) error {
			br.Changed(task.ID(fmt.Sprint("task-", i%n)))
			return nil
		})
	}
}

// An agent may open a task that nobody holds, and no more; people, in no agent's name, decide the
// rest.
func TestAgentsOnlyOpen(t *testing.T) {
	for _, agent := range []string{"", "Sandman"} {
		for _, to := range claim.ToStatuses() {
			t.Run(agent+" "+string(to), func(t *testing.T) {
				failed := openTask(1, "First")
				failed.Status = task.Failed
				inHouse(t, nil, []task.Task{failed}, func(h *house) {
					_, err := h.Reopen(h.Context(), broker.Caller{User: "user maria"}, &api.ReopenInput{ID: string(failed.ID), Body: &api.ReopenRequest{Agent: agent, Was: "failed", Status: string(to)}})
					want, code := to, "<nil>"
					if agent != "" && to != task.Open {
						want, code = task.Failed, string(api.CodeInvalidRequest)
					}
					if now := h.board.Page(failed.ID); now.Status != want || h.code(err) != code {
						t.Errorf("answered %v, and the task is %s; want %s, %s", err, now.Status, code, want)
					}
				})
			})
		}
	}
}
