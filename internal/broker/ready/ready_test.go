package ready_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"dibs/internal/broker/ready"
	"dibs/internal/task"

	"pgregory.net/rapid"
)

// board is a board on which a task is ready if all that it depends on is COMPLETED, and
// nobody holds it: a lease ends a minute after ClaimedAt. A name without that is an
// assignment, and without either the task must be OPEN.
type board struct {
	now   time.Time
	tasks map[task.ID]task.Task
}

func (b *board) Task(id task.ID) (task.Task, bool) {
	t, ok := b.tasks[id]
	return t, ok
}

func (b *board) Judge(t task.Task) ready.Verdict {
	blocked := task.Unfinished(t, b.Task)
	if end := t.ClaimedAt.Add(time.Minute); !t.ClaimedAt.IsZero() && b.now.Before(end) {
		return ready.Verdict{Again: end}
	}
	v := ready.Verdict{Ready: len(blocked) == 0}
	if t.ClaimedAt.IsZero() {
		v.For = t.ClaimedBy
	}
	v.Ready = v.Ready && (t.Status == task.Open || t.Status == task.InProgress && v.For != "")
	return v
}

func (b *board) Became(task.Task, ready.Verdict) {}

func (b *board) Now() time.Time {
	if b.now.IsZero() {
		return time.Now()
	}
	return b.now
}

// want is what the view should show to an agent, apart from what is for any: every task
// judged on its own.
func (b *board) want(agent string) []task.ID {
	var all []task.Task
	for _, t := range b.tasks {
		if v := b.Judge(t); v.Ready && v.For == agent && !t.Trashed {
			all = append(all, t)
		}
	}
	task.Sort(all)
	return ids(slices.Values(all))
}

func ids(tasks func(func(task.Task) bool)) []task.ID {
	out := []task.ID{}
	for t := range tasks {
		out = append(out, t.ID)
	}
	return out
}

// Whatever changes, and however time passes, the view shows what judging all tasks
// one by one would.
func TestView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &board{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), tasks: make(map[task.ID]task.Task)}
		v := ready.New(b)
		id := rapid.Custom(func(t *rapid.T) task.ID { return task.ID(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "id"))) })
		status := rapid.SampledFrom([]task.Status{task.Open, task.Open, task.Completed, task.InProgress})
		check := func(t *rapid.T) {
			if got, want := ids(v.Tasks().All()), b.want(""); !slices.Equal(got, want) {
				t.Fatalf("ready %v, want %v", got, want)
			}
			for _, agent := range []string{"Sandman", "Oracle"} {
				if got, want := ids(v.Assigned(agent).All()), b.want(agent); !slices.Equal(got, want) {
					t.Fatalf("ready for %s %v, want %v", agent, got, want)
				}
			}
			if got := ids(v.Assigned("").All()); len(got) > 0 {
				t.Fatalf("assigned to nobody %v, want none", got)
			}
			if got, want := v.Len(), len(b.want("")); got != want {
				t.Fatalf("%d tasks ready, want %d", got, want)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": check,
			"change": func(t *rapid.T) {
				one := task.Task{
					ID: id.Draw(t, "task"), Status: status.Draw(t, "status"), Trashed: rapid.IntRange(0, 5).Draw(t, "trashed") == 0,
					Priority:  rapid.SampledFrom(task.Priorities).Draw(t, "priority"),
					DependsOn: rapid.SliceOfN(id, 0, 2).Draw(t, "depends on"),
					ClaimedBy: rapid.SampledFrom([]string{"", "", "Sandman", "Oracle"}).Draw(t, "claimed by"),
				}
				b.tasks[one.ID] = one
				v.Changed(one.ID)
			},
			"claim": func(t *rapid.T) {
				one, ok := b.tasks[id.Draw(t, "task")]
				if !ok {
					t.Skip()
				}
				one.ClaimedBy, one.ClaimedAt = "Sandman", b.now.Add(-time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds ago"))*time.Second)
				b.tasks[one.ID] = one
				v.Claimed(one.ID)
			},
			"remove": func(t *rapid.T) {
				gone := id.Draw(t, "task")
				delete(b.tasks, gone)
				v.Changed(gone)
			},
			"time": func(t *rapid.T) {
				b.now = b.now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second)
			},
		})
	})
}

// What is iterated over is the view of one moment.
func TestTasksAreOfOneMoment(t *testing.T) {
	b := &board{tasks: map[task.ID]task.Task{"a": {ID: "a", Status: task.Open}, "b": {ID: "b", Status: task.Open}}}
	v := ready.New(b)
	v.Changed("a", "b")
	tasks := v.Tasks()
	delete(b.tasks, "b")
	v.Changed("b")
	if got := ids(tasks.All()); !slices.Equal(got, []task.ID{"a", "b"}) {
		t.Errorf("ready then %v, want a and b", got)
	}
	if got := ids(v.Tasks().All()); !slices.Equal(got, []task.ID{"a"}) {
		t.Errorf("ready now %v, want a", got)
	}
}

// hasty is a board on which nothing is ready, and all is to be judged again.
type hasty struct {
	*board
	again time.Time
}

func (h hasty) Judge(task.Task) ready.Verdict { return ready.Verdict{Again: h.again} }

// A judge that wants to be asked again at once does not keep the view from answering.
func TestAgainNow(t *testing.T) {
	b := &board{tasks: map[task.ID]task.Task{"a": {ID: "a", Status: task.Open}}}
	past := time.Now().Add(-time.Second)
	v := ready.New(hasty{b, past})
	v.Changed("a")
	if n := v.Len(); n != 0 {
		t.Errorf("%d tasks ready, want none", n)
	}
}

func BenchmarkChanged(b *testing.B) {
	const tasks = 10_000
	all := &board{tasks: make(map[task.ID]task.Task)}
	v := ready.New(all)
	for i := range tasks {
		id := task.ID(fmt.Sprint(i))
		all.tasks[id] = task.Task{ID: id, Status: task.Open}
		v.Changed(id)
	}
	for i := 0; b.Loop(); i++ {
		id := task.ID(fmt.Sprint(i % tasks))
		v.Changed(id)
		for range v.Tasks().All() {
			break
		}
	}
}

// A list, and the part of it that has a priority, are what sorting and counting all tasks one by
// one would give, also from the middle on.
func TestList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &board{tasks: make(map[task.ID]task.Task)}
		v := ready.New(b)
		began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for i := range rapid.IntRange(0, 200).Draw(t, "tasks") {
			one := task.Task{
				ID: task.ID(fmt.Sprintf("%03d", i)), Status: task.Open, Priority: rapid.SampledFrom(task.Priorities).Draw(t, "priority"),
				Created: began.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "minute")) * time.Minute),
				Key:     rapid.SampledFrom([]string{"", "T-3", "T-12"}).Draw(t, "key"),
			}
			b.tasks[one.ID] = one
			v.Changed(one.ID)
		}
		want := b.want("")
		of := func(p task.Priority) []task.ID {
			return slices.DeleteFunc(slices.Clone(want), func(id task.ID) bool { return b.tasks[id].Priority != p })
		}
		check := func(what any, got ready.List, want []task.ID) {
			if all := ids(got.All()); !slices.Equal(all, want) || got.Len() != len(want) {
				t.Fatalf("%v: %d tasks, %v, want %v", what, got.Len(), all, want)
			}
			first := []task.ID{}
			for one := range got.All() {
				if first = append(first, one.ID); len(first) == 5 {
					break
				}
			}
			if n := min(5, len(want)); !slices.Equal(first, want[:n]) {
				t.Fatalf("%v: first %v, want %v", what, first, want[:n])
			}
		}
		check("all", v.Tasks(), want)
		for _, p := range task.Priorities {
			check(p, v.Tasks().Of(p), of(p))
		}
		check("none", v.Assigned("Sandman").Of(task.High), nil)
	})
}
