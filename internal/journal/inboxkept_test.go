package journal_test

import (
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/journal/inbox"
	"dibs/internal/task"
)

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
		_, err := j.AddTriggers(t.Context(), said("old", 10*day))
		do(t, err)
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
				_, err = j.SetQuestion(t.Context(), questions[0], true)
				do(t, err)
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
				_, err := j.AddTriggers(t.Context(), first)
				do(t, err)
				have("comment told")
				_, err = j.AckTriggers(t.Context(), "Oracle", []string{first.ID})
				do(t, err)
				time.Sleep(8 * day)
				prune(1) // what tells of tasks at the first poll
				_, err = j.AddTriggers(t.Context(), said("told", 8*day))
				do(t, err)
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
		_, err := j.AddTriggers(t.Context(), said("a", 0))
		do(t, err)
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
