package journal_test

import (
	"slices"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/inbox"
	"dibs/internal/inbox/inboxtest"
	"dibs/internal/task"
)

// The inbox of one daemon is as inboxes are.
func TestInbox(t *testing.T) {
	inboxtest.Run(t, func(t *testing.T) *inboxtest.World {
		now := t0
		return &inboxtest.World{
			Doors: []inboxtest.Inbox{newJournal(t)}, Pass: func() {}, Visibility: time.Minute,
			Over: func() { now = now.Add(time.Minute) }, Now: func() time.Time { return now },
		}
	})
}

// Where the inbox is shared, what every daemon sees on the board is not owed to it, and what
// only this one knows is.
func TestWhatIsOwedToASharedInbox(t *testing.T) {
	j := newJournal(t)
	j.ShareInbox()
	ctx := t.Context()
	if err := j.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	if err := j.SetLeads(ctx, []string{"Lead"}); err != nil {
		t.Fatal(err)
	}
	put := func(task task.Task) {
		t.Helper()
		if err := j.PutTasks(ctx, tasksOf(task)); err != nil {
			t.Fatal(err)
		}
		if _, err := j.Tell(ctx, t0, idsOf(task)); err != nil {
			t.Fatal(err)
		}
	}
	put(task.Task{ID: "a", Status: task.Open, ClaimedBy: "Oracle"})
	put(task.Task{ID: "a", Status: task.Completed})
	event := func(kind claim.Kind) claim.Event {
		return claim.Event{ID: claim.NewEventID(t0), At: t0, Kind: kind, Task: "b", Agent: "Oracle", Claim: "01KAFQZ0000000000000000001", Summary: "all of it", Remote: true}
	}
	put(task.Task{ID: "b", Status: task.Completed})
	if err := j.Record(ctx, event(claim.KindLost), event(claim.KindLost), event(claim.KindCompleted)); err != nil {
		t.Fatal(err)
	}
	owed, err := j.Unshared(ctx, t0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range owed {
		got = append(got, string(o.Type)+" "+o.Agent+" "+o.Key)
	}
	slices.Sort(got)
	want := []string{"claim_lost Oracle lost 01KAFQZ0000000000000000001", "task_finished" + " " + inbox.Leads + " finished 01KAFQZ0000000000000000001"}
	if !slices.Equal(got, want) {
		t.Errorf("owed %q, want %q", got, want)
	}
}

func tasksOf(all ...task.Task) []task.Task { return all }

func idsOf(all ...task.Task) (ids []task.ID) {
	for _, t := range all {
		ids = append(ids, t.ID)
	}
	return ids
}

// A daemon that leaves a cluster tells by itself what it had stored: what is not known to be
// acknowledged, and what was for groups.
func TestLeavingASharedInbox(t *testing.T) {
	j := newJournal(t)
	ctx := t.Context()
	take(t, j, t0, nil)
	add(t, j, inbox.Trigger{ID: "01KAFQZ0000000000000000021", Type: inbox.Message, Text: "dealt with"}, inbox.Trigger{ID: "01KAFQZ0000000000000000022", Type: inbox.Message, Text: "taken there"})
	group := inbox.Trigger{ID: "01KAFQZ0000000000000000023", Type: inbox.Message, Agent: inbox.Everybody, At: t0, From: "Sandman", Text: "all"}
	if _, err := j.AddTriggers(ctx, group); err != nil {
		t.Fatal(err)
	}
	if err := j.Shared(ctx, t0, "01KAFQZ0000000000000000021", "01KAFQZ0000000000000000022"); err != nil {
		t.Fatal(err)
	}
	if err := j.OweAcks(ctx, t0, "Oracle", "01KAFQZ0000000000000000021"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := j.LeaveShared(ctx); err != nil {
			t.Fatal(err)
		}
	}
	wantTaken(t, take(t, j, t0, nil), "message all")
	wantTaken(t, take(t, j, t0.Add(time.Minute), func(r *inbox.Take) { r.Limit = 1 }), "message taken there")
	if owed, err := j.OwedAcks(ctx, 0); err != nil || len(owed) != 0 {
		t.Errorf("owed %v, %v", owed, err)
	}
}
