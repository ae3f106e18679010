package journal_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/task"
)

// Only what was changed in the mirror may be news.
func TestTheSameTaskIsNoNews(t *testing.T) {
	j := newJournal(t)
	untold := func(want ...task.ID) {
		t.Helper()
		got, err := j.Unpublished(t.Context(), "", 0)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Untold = %v, %v; want %v", got, err, want)
		}
		_, err = j.Publish(t.Context(), t0, got)
		do(t, errors.Join(err, j.BeginFeed(t.Context())))
	}
	put := func(title string) { do(t, j.PutTasks(t.Context(), []task.Task{mirrored("a", title, task.Open)})) }
	put("one")
	untold("a")
	put("one")
	untold()
	put("another")
	untold("a")
	do(t, j.DeleteTasks(t.Context(), []task.ID{"a", "b"}))
	untold("a")
}

// A loss is the agent's last unless it was granted another claim; to ask for one is not enough.
func TestTheLastLoss(t *testing.T) {
	j := newJournal(t)
	c := grant(t, j, attempt("Sandman", "a", t0), t0)
	save(t, j, ended(c, claim.EndLost, t0))
	last := func(want bool) {
		t.Helper()
		losses, err := j.Losses(t.Context(), "Sandman")
		if err != nil || len(losses) != 1 || losses[0].Last != want {
			t.Errorf("Losses = %+v, %v; want one, last = %v", losses, err, want)
		}
	}
	later := attempt("Sandman", "b", t0.Add(time.Second))
	reserve(t, j, later, later.Reserved)
	last(true)
	save(t, j, held(later, later.Reserved))
	last(false)
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
	_, err := j.SetQuestion(t.Context(), first, true)
	do(t, err)
	if got, err := j.Questions(t.Context()); err != nil || len(got) != 1 || got[0].ID != second.ID {
		t.Errorf("Questions = %+v, %v; want the second", got, err)
	}
}

// Who once asked for what is finished goes on being told.
func TestPollsGoOnAskingForWhatIsFinished(t *testing.T) {
	b := newBoard(t, open1("a"))
	for _, finished := range []bool{true, false} {
		_, err := b.TakeTriggers(t.Context(), inbox.Take{Agent: "Oracle", Taker: "poll", Now: t0, At: t0, Visibility: time.Minute, Finished: finished})
		do(t, err)
	}
	done := open1("a")
	done.Status = task.Completed
	b.put(done)
	b.tell()
	w, err := b.Waiting(t.Context(), "Oracle")
	if err != nil || w.Count != 1 {
		t.Errorf("Waiting = %+v, %v; want that the task is finished", w, err)
	}
}
