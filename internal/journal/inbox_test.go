package journal_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/journal/inbox"
	"dibs/internal/journal/inbox/inboxtest"
	"dibs/internal/task"
)

func TestInbox(t *testing.T) {
	inboxtest.Run(t, func(t *testing.T) *inboxtest.World {
		now := t0
		return &inboxtest.World{
			Inbox: newJournal(t), Visibility: time.Minute,
			Over: func() { now = now.Add(time.Minute) }, Now: func() time.Time { return now },
		}
	})
}

// take takes Oracle's triggers at some time.
func take(t *testing.T, j *journal.Journal, at time.Time, change func(*inbox.Take)) []string {
	t.Helper()
	request := inbox.Take{Agent: "Oracle", Taker: inbox.NewID(at), Now: at, At: at, Visibility: time.Minute}
	if change != nil {
		change(&request)
	}
	got, err := j.TakeTriggers(t.Context(), request)
	do(t, err)
	var said []string
	for _, trigger := range got {
		said = append(said, string(trigger.Type)+" "+trigger.Text)
	}
	return said
}

func wantTaken(t *testing.T, got []string, want ...string) {
	t.Helper()
	same(t, "taken", want, got)
}

func add(t *testing.T, j *journal.Journal, triggers ...inbox.Trigger) {
	t.Helper()
	for i := range triggers {
		triggers[i].Agent, triggers[i].At = "Oracle", t0
	}
	do(t, errOf(j.AddTriggers(t.Context(), triggers...)))
}

// An acknowledged trigger is forgotten when it is pruned.
func TestPrunedTriggersAreUnknown(t *testing.T) {
	j := newJournal(t)
	const id = "01KAFQZ0000000000000000021"
	take(t, j, t0, nil)
	add(t, j, inbox.Trigger{ID: id, Type: inbox.Message, Text: "a"})
	take(t, j, t0, nil)
	ack := func(want ...string) {
		t.Helper()
		if got, err := j.AckTriggers(t.Context(), "Oracle", []string{id}); err != nil || !slices.Equal(want, got) {
			t.Errorf("unknown = %q, %v; want %q", got, err, want)
		}
	}
	ack()
	if n, err := j.PruneInbox(t.Context(), t0.AddDate(100, 0, 0)); n != 2 || err != nil { // with the first poll's
		t.Errorf("pruned %d, %v; want 2", n, err)
	}
	ack(id)
}

// That tasks are available is told at the first poll, and whenever none became some.
func TestAvailable(t *testing.T) {
	j := newJournal(t)
	do(t, j.BeginFeed(t.Context()))
	set := func(id task.ID, s task.Status) {
		t.Helper()
		do(t, j.PutTasks(t.Context(), []task.Task{{ID: id, Status: s}}))
		do(t, errOf(j.Publish(t.Context(), t0, []task.ID{id})))
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
	do(t, j.PutTasks(t.Context(), []task.Task{{ID: "a", Status: task.Open}}))
	one := func(r *inbox.Take) { r.Available, r.Visibility = 1, time.Hour }
	wantTaken(t, take(t, j, t0, one), "tasks_available ")
	do(t, errOf(j.Publish(t.Context(), t0, []task.ID{"a"})))
	wantTaken(t, take(t, j, t0, one))
}

// Leads are told of each finished task, however they came to be leads.
func TestLeads(t *testing.T) {
	j := newJournal(t)
	ctx := t.Context()
	do(t, j.BeginFeed(ctx))
	do(t, j.SetLeads(ctx, []string{"Oracle"}))
	finish := func(id task.ID) {
		t.Helper()
		for _, s := range []task.Status{task.Open, task.Completed} {
			do(t, j.PutTasks(ctx, []task.Task{{ID: id, Status: s}}))
			do(t, errOf(j.Publish(ctx, t0, []task.ID{id})))
		}
	}
	finish("a")
	wantTaken(t, take(t, j, t0, nil), "task_finished ")
	do(t, j.SetLeads(ctx, nil))
	finish("b")
	wantTaken(t, take(t, j, t0, func(r *inbox.Take) { r.Finished = true }))
	for _, id := range []task.ID{"c", "d"} { // whoever once asked for it goes on being told
		finish(id)
		wantTaken(t, take(t, j, t0, nil), "task_finished ")
	}
}

// inInbox runs a test in virtual time, with Oracle's inbox, to be had or pruned now.
func inInbox(t *testing.T, test func(t *testing.T, j *journal.Journal, have func(want ...string), prune func(want int))) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t)
		have := func(want ...string) {
			t.Helper()
			wantTaken(t, take(t, j, time.Now(), nil), want...)
		}
		have()
		test(t, j, have, func(want int) {
			t.Helper()
			if n, err := j.PruneInbox(t.Context(), time.Now().Add(-7*day)); n != want || err != nil {
				t.Errorf("pruned %d, %v; want %d", n, err, want)
			}
		})
	})
}

const day = 24 * time.Hour

// said is a comment that a person wrote so long ago.
func said(text string, ago time.Duration) inbox.Trigger {
	return inbox.Trigger{Type: inbox.Comment, Agent: "Oracle", At: time.Now().Add(-ago), Text: text, Key: "comment " + text}
}

// What is told late is kept for as long as anything, and what was taken for as long again.
func TestWhatWasTakenIsNotPruned(t *testing.T) {
	inInbox(t, func(t *testing.T, j *journal.Journal, have func(...string), prune func(int)) {
		do(t, errOf(j.AddTriggers(t.Context(), said("old", 10*day))))
		prune(0)
		time.Sleep(7*day - time.Hour)
		have("comment old") // by a poll that dies
		time.Sleep(2 * time.Hour)
		prune(1) // that of the first poll
		have("comment old")
		time.Sleep(7*day - time.Hour)
		prune(0)
		time.Sleep(2 * time.Hour)
		prune(1)
	})
}

// A comment is read anew for as long as its task is held, or a question about it is open: it
// is known by then that the agent was told.
func TestCommentsThatAreReadAgainAreNotToldAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		begin, end func(t *testing.T, j *journal.Journal)
	}{
		"a question": {
			begin: func(t *testing.T, j *journal.Journal) {
				do(t, j.Record(t.Context(), claim.Fact{
					ID: claim.NewFactID(time.Now()), At: time.Now(), Kind: claim.KindBlocked, Agent: "Oracle", Task: "a", Asked: true,
				}))
			},
			end: func(t *testing.T, j *journal.Journal) {
				questions, err := j.Questions(t.Context())
				do(t, err)
				if len(questions) != 1 {
					t.Fatalf("questions: %v", questions)
				}
				do(t, errOf(j.SetQuestion(t.Context(), questions[0], true)))
			},
		},
		"a claim": {
			begin: func(t *testing.T, j *journal.Journal) {
				save(t, j, held(attempt("Oracle", task.ID("a"), time.Now()), time.Now()))
			},
			end: func(t *testing.T, j *journal.Journal) {
				for _, c := range live(t, j) {
					c.State, c.Ending, c.Ended = claim.Ended, claim.EndReleased, time.Now()
					save(t, j, c)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inInbox(t, func(t *testing.T, j *journal.Journal, have func(...string), prune func(int)) {
				tt.begin(t, j)
				first := said("told", 0)
				first.ID = inbox.NewID(time.Now())
				do(t, errOf(j.AddTriggers(t.Context(), first)))
				have("comment told")
				do(t, errOf(j.AckTriggers(t.Context(), "Oracle", []string{first.ID})))
				time.Sleep(8 * day)
				prune(1) // what tells of tasks at the first poll
				do(t, errOf(j.AddTriggers(t.Context(), said("told", 8*day))))
				have()
				tt.end(t, j)
				prune(1)
			})
		})
	}
}

// A clock that was wrong when a trigger was taken does not keep it for longer than twice the
// visibility, nor has it come back early.
func TestTakenByAClockThatWasAhead(t *testing.T) {
	inInbox(t, func(t *testing.T, j *journal.Journal, have func(...string), _ func(int)) {
		do(t, errOf(j.AddTriggers(t.Context(), said("a", 0))))
		wantTaken(t, take(t, j, time.Now().Add(365*day), nil), "comment a")
		have()
		time.Sleep(time.Minute - time.Millisecond)
		have()
		time.Sleep(time.Millisecond)
		have("comment a")
	})
}

// A poll that is repeated gets what it took as if it took it then: for a whole visibility,
// and for the process that asks now.
func TestARepeatedPollTakesAnew(t *testing.T) {
	j := newJournal(t)
	take(t, j, t0, nil)
	add(t, j, inbox.Trigger{Type: inbox.Message, Text: "a"})
	repeated := func(process string) func(*inbox.Take) {
		return func(r *inbox.Take) { r.Taker, r.Process = "poll", process }
	}
	wantTaken(t, take(t, j, t0, repeated("p")), "message a")
	wantTaken(t, take(t, j, t0, func(r *inbox.Take) { r.Agent, r.Taker = "Merlin", "poll" }))
	wantTaken(t, take(t, j, t0.Add(59*time.Second), repeated("q")), "message a")
	wantTaken(t, take(t, j, t0.Add(time.Minute), func(r *inbox.Take) { r.Gone = []string{"p"} }))
	wantTaken(t, take(t, j, t0.Add(119*time.Second), func(r *inbox.Take) { r.Taker = "another" }), "message a")
	wantTaken(t, take(t, j, t0.Add(119*time.Second), repeated("q")))
}

// What became of a question leaves alone the one that was asked since.
func TestALaterQuestionStays(t *testing.T) {
	j := newJournal(t)
	ask := func(at time.Time) inbox.Question {
		e := event(attempt("Sandman", "a", at), claim.KindBlocked, at)
		e.Asked = true
		record(t, j, e)
		questions, err := j.Questions(t.Context())
		if err != nil || len(questions) != 1 {
			t.Fatalf("Questions = %v, %v; want one", questions, err)
		}
		return questions[0]
	}
	first, second := ask(t0), ask(t0.Add(time.Minute))
	do(t, errOf(j.SetQuestion(t.Context(), first, true)))
	if got, err := j.Questions(t.Context()); err != nil || len(got) != 1 || got[0].ID != second.ID {
		t.Errorf("Questions = %+v, %v; want the second", got, err)
	}
}
