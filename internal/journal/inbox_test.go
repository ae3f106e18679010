package journal_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"dibs/internal/journal"
	"dibs/internal/journal/inbox"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// take takes Oracle's triggers at some time.
func take(t *testing.T, j *journal.Journal, at time.Time, change func(*inbox.Take)) []string {
	t.Helper()
	request := inbox.Take{Agent: "Oracle", Taker: inbox.NewID(at), Now: at, At: at, Visibility: time.Minute}
	if change != nil {
		change(&request)
	}
	got, err := j.TakeTriggers(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, trigger := range got {
		said = append(said, string(trigger.Type)+" "+trigger.Text)
	}
	return said
}

func wantTaken(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
}

func add(t *testing.T, j *journal.Journal, triggers ...inbox.Trigger) {
	t.Helper()
	for i := range triggers {
		triggers[i].Agent, triggers[i].At = "Oracle", t0
	}
	if _, err := j.AddTriggers(t.Context(), triggers...); err != nil {
		t.Fatal(err)
	}
}

func TestTriggersAreTakenInOrder(t *testing.T) {
	j := newJournal(t)
	take(t, j, t0, nil)
	for _, text := range []string{"a", "b"} {
		for _, kind := range slices.Backward(inbox.Types[:6]) {
			add(t, j, inbox.Trigger{Type: kind, Text: text})
		}
	}
	wantTaken(t, take(t, j, t0, func(r *inbox.Take) { r.Limit = 3 }), "claim_lost a", "claim_lost b", "task_offered a")
	wantTaken(t, take(t, j, t0, func(r *inbox.Take) { r.Limit = 3 }), "task_offered b", "task_assigned a", "task_assigned b")
	wantTaken(t, take(t, j, t0, nil), "message a", "message b", "comment a", "comment b", "task_finished a", "task_finished b")
	wantTaken(t, take(t, j, t0, nil))
}

func TestTriggersComeBack(t *testing.T) {
	j := newJournal(t)
	take(t, j, t0, nil)
	add(t, j, inbox.Trigger{Type: inbox.Message, Text: "a"})
	by := func(process string) func(*inbox.Take) { return func(r *inbox.Take) { r.Process = process } }
	wantTaken(t, take(t, j, t0, by("p")), "message a")
	wantTaken(t, take(t, j, t0.Add(time.Minute-time.Millisecond), nil))
	wantTaken(t, take(t, j, t0.Add(time.Minute), by("p")), "message a")
	// At once, if the process is gone; that of another is none of its business.
	wantTaken(t, take(t, j, t0.Add(time.Minute), func(r *inbox.Take) { r.Gone = []string{"q"} }))
	wantTaken(t, take(t, j, t0.Add(time.Minute), func(r *inbox.Take) { r.Gone, r.Taker = []string{"p"}, "poll" }), "message a")
	// The same poll gets the same, and what it gives back the next one gets.
	wantTaken(t, take(t, j, t0.Add(time.Minute), func(r *inbox.Take) { r.Taker = "poll" }), "message a")
	if err := j.ReturnTriggers(t.Context(), "poll"); err != nil {
		t.Fatal(err)
	}
	wantTaken(t, take(t, j, t0.Add(time.Minute), nil), "message a")
}

func TestAcknowledging(t *testing.T) {
	j := newJournal(t)
	take(t, j, t0, nil)
	add(t, j, inbox.Trigger{ID: "01KAFQZ0000000000000000021", Type: inbox.Message, Text: "a", Key: "row a"})
	take(t, j, t0, nil)
	ack := func(agent string, want ...string) {
		t.Helper()
		got, err := j.AckTriggers(t.Context(), agent, []string{"01KAFQZ0000000000000000021"})
		if err != nil || !slices.Equal(want, got) {
			t.Errorf("%s: unknown = %q, %v; want %q", agent, got, err, want)
		}
	}
	ack("Sandman", "01KAFQZ0000000000000000021")
	ack("Oracle")
	ack("Oracle")
	add(t, j, inbox.Trigger{Type: inbox.Message, Text: "a", Key: "row a"}) // read again
	wantTaken(t, take(t, j, t0.Add(time.Hour), nil))
	if n, err := j.PruneInbox(t.Context(), t0.AddDate(100, 0, 0)); n != 2 || err != nil { // with the first poll's
		t.Errorf("pruned %d, %v; want 2", n, err)
	}
	ack("Oracle", "01KAFQZ0000000000000000021")
}

// That tasks are available is told at the first poll, and whenever none became some.
func TestAvailable(t *testing.T) {
	j := newJournal(t)
	if err := j.BeginFeed(t.Context()); err != nil {
		t.Fatal(err)
	}
	set := func(id task.ID, s task.Status) {
		t.Helper()
		if err := j.PutTasks(t.Context(), []task.Task{{ID: id, Status: s}}); err != nil {
			t.Fatal(err)
		}
		if _, err := j.Publish(t.Context(), t0, []task.ID{id}); err != nil {
			t.Fatal(err)
		}
	}
	some := func(n int) func(*inbox.Take) { return func(r *inbox.Take) { r.Available, r.Visibility = n, time.Hour } }
	wantTaken(t, take(t, j, t0, some(0)))
	set("a", task.Open)
	wantTaken(t, take(t, j, t0, some(0))) // the mirror may be ahead
	wantTaken(t, take(t, j, t0, some(1)), "tasks_available ")
	set("b", task.Open)
	wantTaken(t, take(t, j, t0, some(2)))
	set("a", task.Blocked)
	set("a", task.Open)
	wantTaken(t, take(t, j, t0, some(2)))
	for range 2 { // two changes between two polls are told once
		set("a", task.Blocked)
		set("b", task.Blocked)
		set("a", task.Open)
	}
	wantTaken(t, take(t, j, t0, some(1)), "tasks_available ")
	wantTaken(t, take(t, j, t0, some(1)))
}

// Who polls while a daemon that is new on a board still takes note of its tasks is told of
// them once.
func TestAvailableBeforeTheFeedBegins(t *testing.T) {
	j := newJournal(t)
	if err := j.PutTasks(t.Context(), []task.Task{{ID: "a", Status: task.Open}}); err != nil {
		t.Fatal(err)
	}
	one := func(r *inbox.Take) { r.Available, r.Visibility = 1, time.Hour }
	wantTaken(t, take(t, j, t0, one), "tasks_available ")
	if _, err := j.Publish(t.Context(), t0, []task.ID{"a"}); err != nil {
		t.Fatal(err)
	}
	wantTaken(t, take(t, j, t0, one))
}

// Leads are told of each finished task, however they came to be leads.
func TestLeads(t *testing.T) {
	j := newJournal(t)
	ctx := t.Context()
	if err := j.BeginFeed(ctx); err != nil {
		t.Fatal(err)
	}
	if err := j.SetLeads(ctx, []string{"Oracle"}); err != nil {
		t.Fatal(err)
	}
	finish := func(id task.ID) {
		t.Helper()
		for _, s := range []task.Status{task.Open, task.Completed} {
			if err := j.PutTasks(ctx, []task.Task{{ID: id, Status: s}}); err != nil {
				t.Fatal(err)
			}
			if _, err := j.Publish(ctx, t0, []task.ID{id}); err != nil {
				t.Fatal(err)
			}
		}
	}
	finish("a")
	wantTaken(t, take(t, j, t0, nil), "task_finished ")
	if err := j.SetLeads(ctx, nil); err != nil {
		t.Fatal(err)
	}
	finish("b")
	wantTaken(t, take(t, j, t0, func(r *inbox.Take) { r.Finished = true }))
	finish("c")
	wantTaken(t, take(t, j, t0, nil), "task_finished ")
}

// Sixteen pollers of one name compete for five triggers of each type. They are killed with
// what they took, and so is the daemon, at random: each trigger is dealt with once.
func TestManyPollers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := &pollers{T: t, path: filepath.Join(t.TempDir(), "journal.db"), now: t0, held: make(map[string]int), dealt: make(map[string]inbox.Type)}
	s.journal = open(t, s.path)
	var all []inbox.Trigger
	for i := range eachType {
		for _, kind := range inbox.Types[:len(inbox.Types)-1] {
			all = append(all, inbox.Trigger{Type: kind, Text: fmt.Sprint(i), Key: fmt.Sprint(kind, i)})
		}
	}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() { s.run(i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	random := rand.New(rand.NewPCG(seed, 16))
	for _, i := range random.Perm(len(all)) {
		s.daemon.RLock()
		add(t, s.journal, all[i])
		s.daemon.RUnlock()
		if random.IntN(5) == 0 { // the daemon is killed, and another one started
			s.daemon.Lock()
			s.journal.Close()
			s.journal = open(t, s.path)
			s.daemon.Unlock()
		}
	}
	wg.Wait()
	kinds := make(map[inbox.Type]int)
	for _, kind := range s.dealt {
		kinds[kind]++
	}
	for _, kind := range inbox.Types {
		if kinds[kind] != eachType {
			t.Errorf("%d of type %s were dealt with, want %d", kinds[kind], kind, eachType)
		}
	}
	t.Logf("%d polls were killed with what they took", s.killed)
}

// eachType is how many triggers of each type there are.
const eachType = 5

// pollers are processes that poll under one name, and what is to be true of them.
type pollers struct {
	*testing.T
	path    string
	journal *journal.Journal
	daemon  sync.RWMutex // to be held to write by who restarts it
	// clock is held to read from a poll to its last acknowledgement, so that nothing
	// comes back from a process that is slow only.
	clock sync.RWMutex
	now   time.Time

	mu     sync.Mutex
	held   map[string]int        // by which live process
	dealt  map[string]inbox.Type // what was acknowledged
	killed int
}

func (s *pollers) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.dealt) == eachType*len(inbox.Types) || s.Failed()
}

func (s *pollers) run(poller int, random *rand.Rand) {
	for gone := []string(nil); !s.over(); {
		doomed := random.IntN(3) == 0
		process := fmt.Sprintf("%d of %d", random.Uint64(), poller)
		s.clock.RLock()
		got := s.take(poller, process, gone, doomed, random)
		gone = nil
		if !doomed {
			for _, trigger := range got {
				s.ack(trigger)
			}
		}
		s.clock.RUnlock()
		switch {
		case doomed && random.IntN(2) == 0:
			gone = []string{process} // which is noticed
		case doomed:
			s.clock.Lock()
			s.now = s.now.Add(time.Minute)
			s.clock.Unlock()
		}
	}
}

func (s *pollers) take(poller int, process string, gone []string, doomed bool, random *rand.Rand) []inbox.Trigger {
	s.daemon.RLock()
	defer s.daemon.RUnlock()
	got, err := s.journal.TakeTriggers(s.Context(), inbox.Take{
		Agent: "Oracle", Taker: process, Process: process, Limit: 1 + random.IntN(4), Now: s.now, At: s.now,
		Visibility: time.Minute, Gone: gone, Available: 1,
	})
	if err != nil {
		s.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, trigger := range got {
		if who, taken := s.held[trigger.ID]; taken {
			s.Errorf("%s is handed to %d while %d has it", trigger.ID, poller, who)
		}
		if _, done := s.dealt[trigger.ID]; done {
			s.Errorf("%s is handed out after it was acknowledged", trigger.ID)
		}
		if !doomed {
			s.held[trigger.ID] = poller
		}
	}
	if doomed && len(got) > 0 {
		s.killed++
	}
	return got
}

func (s *pollers) ack(trigger inbox.Trigger) {
	s.daemon.RLock()
	defer s.daemon.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	unknown, err := s.journal.AckTriggers(s.Context(), "Oracle", []string{trigger.ID})
	if err != nil || len(unknown) > 0 {
		s.Errorf("ack: %v, %v", unknown, err)
	}
	delete(s.held, trigger.ID)
	s.dealt[trigger.ID] = trigger.Type
	told := 0
	for _, kind := range s.dealt {
		if kind == inbox.TasksAvailable {
			told++
		}
	}
	if trigger.Type == inbox.TasksAvailable && told < eachType {
		if _, err := s.journal.AddTriggers(s.Context(), inbox.Available("Oracle", t0)); err != nil {
			s.Error(err)
		}
	}
}
