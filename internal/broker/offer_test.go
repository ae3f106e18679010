package broker_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// offer has Sandman offer a task to Oracle, and returns the code of the refusal.
func (h *house) offer(id task.ID) string {
	_, code := did(h, h.Offer, new(api.OnTask(id, "", api.OfferRequest{Agent: "Sandman", To: "Oracle", Text: "you know this"})))
	return code
}

func (h *house) decline(agent string, id task.ID) string {
	_, code := did(h, h.Decline, new(api.OnTask(id, "", api.DeclineRequest{Agent: agent, Reason: "no time"})))
	return code
}

// An open task is offered, and accepted: nobody else gets it meanwhile.
func TestOfferAccepted(t *testing.T) {
	inHouse(t, nil, pair()[:1], func(h *house) {
		id := pair()[0].ID
		if r, w := h.costs(func() {
			if got := h.offer(id); got != "<nil>" {
				h.Errorf("offered: %s", got)
			}
		}); r != 3 || w != 2 {
			h.Errorf("to offer an open task took %d reads and %d writes, want those of a claim and of its end", r, w)
		}
		if got := h.board.Page(id).ClaimedBy; got != "Oracle" {
			h.Errorf("the page shows %q", got)
		}
		h.wantTold("Oracle", "task_offered First from Sandman: you know this", "tasks_available 1")
		for _, agent := range []string{"Sandman", "Merlin"} {
			if _, err := h.claim(agent, id); h.code(err) != string(claim.CodeReserved) {
				h.Errorf("%s: %v, want it reserved", agent, err)
			}
		}
		shown := func() *api.Offer { return must(h, h.GetTask, &api.GetTaskInput{ID: string(id)}).Offer }
		if o := shown(); o == nil || o.State != "reviewing" || o.From != "Sandman" || o.To != "Oracle" || time.Until(o.ExpiresAt.Time).Round(time.Minute) != time.Hour {
			h.Errorf("the offer is shown as %+v", o)
		}
		h.restart()
		if cl := must(h, h.Accept, new(api.OnTask(id, "", api.AcceptRequest{Agent: "Oracle"}))); cl.Agent != "Oracle" || shown() != nil {
			h.Errorf("accepted: %+v, and then the offer is %+v", cl, shown())
		}
		time.Sleep(2 * time.Hour)
		if next, err := h.TakeBackOffers(h.Context()); err != nil || !next.IsZero() || h.board.Page(id).ClaimedBy != "Oracle" {
			h.Errorf("what was accepted is taken back: %v, %v", next, err)
		}
		h.wantRecords("offered Sandman Oracle", "accepted Oracle Sandman")
	})
}

// wantRecords compares what is on record of claims and offers. A claim that is made to hand a task on is not.
func (h *house) wantRecords(want ...string) {
	h.Helper()
	if got := h.records(claim.KindGranted, claim.KindOffered, claim.KindAccepted, claim.KindDeclined, claim.KindExpired, claim.KindReleased); !slices.Equal(got, want) {
		h.Errorf("on record is %q, want %q", got, want)
	}
}

// A held task is offered, also to an agent that has reached its limit, and declined; or nobody answers.
// Either way it is open to all again, and who offered it is told.
func TestOfferNotTaken(t *testing.T) {
	inHouse(t, func(h *house) { h.policy.MaxPerAgent = 1 }, pair(), func(h *house) {
		h.publish()
		held, id := h.mustClaim("Oracle", pair()[0].ID), pair()[1].ID
		h.mustClaim("Sandman", id)
		h.wantTold("Oracle")
		if got := h.offer(held.Task.ID); got != string(claim.CodeHeld) {
			h.Errorf("another's task is offered: %s", got)
		}
		if r, w := h.costs(func() { h.offer(id) }); r != 1 || w != 1 {
			h.Errorf("to offer a held task took %d reads and %d writes, want one of each", r, w)
		}
		if got := h.offer(id); got != string(claim.CodeReserved) {
			h.Errorf("it is offered twice: %s", got)
		}
		if got := h.decline("Merlin", id); got != string(claim.CodeReserved) {
			h.Errorf("Merlin declined Oracle's: %s", got)
		}
		if got := h.decline("Oracle", id); got != "<nil>" {
			h.Errorf("declined: %s", got)
		}
		if got := h.board.Page(id); got.ClaimedBy != "" || got.Status != task.Open {
			h.Errorf("declined, the page shows %+v", got)
		}
		h.wantTold("Sandman", "message Second from Oracle: declined: no time", "tasks_available 1")

		h.offer(id)
		if next, err := h.TakeBackOffers(h.Context()); err != nil || time.Until(next).Round(time.Minute) != time.Hour {
			h.Errorf("the next offer ends at %v, %v", next, err)
		}
		time.Sleep(time.Hour)
		if next, err := h.TakeBackOffers(h.Context()); err != nil || !next.IsZero() || h.board.Page(id).ClaimedBy != "" {
			h.Errorf("after the hour: %v, %v, %+v", next, err, h.board.Page(id))
		}
		h.wantTold("Sandman", "message Second from Oracle: not answered in time; the task is open to all again", "tasks_available 1")
		h.wantTold("Oracle", "tasks_available 1") // and nothing of an offer that is over
		h.wantRecords("granted Oracle", "granted Sandman", "offered Sandman Oracle", "declined Oracle Sandman", "offered Sandman Oracle", "expired Sandman Oracle")

		h.offer(id)
		h.edit(id, assigned("Merlin"))
		time.Sleep(time.Hour)
		if _, err := h.TakeBackOffers(h.Context()); err != nil || h.board.Page(id).ClaimedBy != "Merlin" {
			h.Errorf("a person gave it to Merlin: %v, %+v", err, h.board.Page(id))
		}
		for name, r := range map[string]api.OfferRequest{"to itself": {Agent: "Sandman", To: "Sandman"}, "to no name": {Agent: "Sandman", To: "auto"}} {
			if _, got := did(h, h.Offer, new(api.OnTask(id, "", r))); got != "invalid_request" {
				h.Errorf("%s: %s", name, got)
			}
		}
		h.edit(id, func(t *task.Task) { t.ClaimedBy, t.Assignee = "", "Ada" })
		if got := h.offer(id); got != string(claim.CodeReserved) {
			h.Errorf("what is Ada's by the column of assignees is offered: %s", got)
		}
	})
}

// A message is sent once for each key, also if the daemon was killed before it had answered; one to
// all goes to those who are known, and not to its sender.
func TestMessages(t *testing.T) {
	inHouse(t, nil, nil, func(h *house) {
		send := func(key, from, to string) (api.Message, error) {
			return h.Send(h.Context(), broker.Caller{UID: 7, Key: key}, keyed(api.MessageRequest{From: from, To: to, Text: "hello\nthere"}))
		}
		var ids []string
		for _, key := range []string{"k", "k", "l"} {
			m, err := send(key, "Sandman", "Oracle")
			if err != nil {
				h.Fatal(err)
			}
			ids = append(ids, m.ID)
			h.restart()
		}
		if ids[0] != ids[1] || ids[1] == ids[2] {
			h.Errorf("the messages are %q", ids)
		}
		h.wantTold("Oracle", "message from Sandman: hello\nthere", "message from Sandman: hello\nthere")
		h.wantTold("Merlin")
		if m, err := send("", "Merlin", "all"); err != nil || !slices.Equal(m.Agents, []string{"Oracle"}) {
			h.Errorf("to all: %+v, %v", m, err)
		}
		h.wantTold("Oracle", "message from Merlin: hello\nthere")
		h.wantTold("Merlin")
		if got := h.records(claim.KindMessage); len(got) != 3 {
			h.Errorf("on record is %q", got)
		}
	})
}

// A review that comes back is its agent's first for half an hour, also after a restart, and what was
// said to it comes first of all attempts.
func TestReturned(t *testing.T) {
	edited := func(h *house) {
		h.publish()
		h.edit(pair()[0].ID, func(t *task.Task) { t.Status, t.Edited = task.Open, h.store.Now().Truncate(time.Minute) })
		h.publish()
	}
	reopened := func(h *house) {
		h.publish()
		got := must(h, h.Reopen, &api.ReopenInput{ID: string(pair()[0].ID), Body: &api.ReopenRequest{Note: "the ridge leaks"}})
		if got.Was != task.Review {
			h.Errorf("it was %s", got.Was)
		}
		h.publish()
	}
	for _, tt := range []struct {
		name, text, said string
		comesBack        func(*house)
		then             func(*house)
	}{
		{"reopened", "the ridge leaks", "the ridge leaks", reopened, func(*house) {}},
		{"reopened, and the daemon starts again", "the ridge leaks", "the ridge leaks", reopened, func(h *house) { h.restart() }},
		{"opened in Notion", "", "Maria: it leaks\nCarlos: at the ridge", edited, func(*house) {}},
		{"opened in Notion, and the daemon starts again", "", "Maria: it leaks\nCarlos: at the ridge", edited, func(h *house) { h.restart() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			commented := func(h *house) {
				h.config.Pages = pages{fine, fine, "", []broker.Comment{
					{By: "Maria", At: time.Now().Add(-time.Hour), Text: "soon?"}, {By: "Sandman", Signed: true, At: time.Now().Add(time.Minute), Text: "all new tiles"},
					{By: "Maria", At: time.Now().Add(30 * time.Minute), Text: "it leaks"}, {By: "Carlos", At: time.Now().Add(31 * time.Minute), Text: "at the ridge"},
				}, new(int)}
			}
			inHouse(t, commented, []task.Task{pair()[0], with(pair()[1], ranks(task.Critical))}, func(h *house) {
				id := pair()[0].ID
				h.publish()
				cl := h.mustClaim("Sandman", id)
				must(h, h.Review, new(api.On(string(cl.ID), "", api.ReviewRequest{Agent: "Sandman", Note: "all new tiles"})))
				time.Sleep(time.Hour)
				tt.comesBack(h)
				tt.then(h)

				h.wantTold("Sandman", strings.TrimSuffix("task_assigned "+pair()[0].Title+": "+tt.text, ": "), "tasks_available 1 1")
				_, err := h.claim("Oracle", id)
				if p := h.Problem(err); p == nil || p.Code != "reserved" || p.Holder != "Sandman" || time.Until(p.ExpiresAt.Time) < 28*time.Minute {
					h.Errorf("Oracle: %+v (%v)", p, err)
				}
				why := h.why("Oracle", "", id)
				if why.Ready || why.Code != "reserved" || why.Holder != "Sandman" || !strings.Contains(why.Reason, "returned to Sandman") || why.Returned == nil || why.Returned.Text != tt.text {
					h.Errorf("why: %+v", why)
				}
				if own := h.why("Sandman", "", id); !own.Ready || own.Returned == nil || own.Returned.To != "Sandman" {
					h.Errorf("its own: %+v", own)
				}
				if next := h.mustClaim("Oracle", ""); next.Task.Title != pair()[1].Title {
					h.Errorf("Oracle's next is %q", next.Task.Title)
				}
				_, err = h.claim("Oracle", "")
				if p := h.Problem(err); p == nil || p.Code != "nothing_ready" || p.Summary.Assigned != 1 {
					h.Errorf("Oracle then: %v", err)
				}
				h.mustFinish("Oracle", "", claim.EndReleased, "")
				cl = h.mustClaim("Sandman", "") // before the critical one
				if a := cl.Task.Attempts; cl.Task.ID != id || len(a) != 2 || a[0].Outcome != claim.Returned || a[0].Agent != "Sandman" || a[0].Text != tt.said || a[1].Text != "all new tiles" {
					h.Errorf("Sandman: %+v", cl.Task)
				}
				h.mustFinish("Sandman", "", claim.EndReleased, "")
				h.mustClaim("Oracle", id) // once it was claimed it is anybody's
			})
			inHouse(t, commented, pair()[:1], func(h *house) {
				cl := h.mustClaim("Sandman", pair()[0].ID)
				must(h, h.Review, new(api.On(string(cl.ID), "", api.ReviewRequest{Agent: "Sandman"})))
				tt.comesBack(h)
				tt.then(h)
				time.Sleep(32 * time.Minute)
				h.mustClaim("Oracle", "")
			})
		})
	}
}

// A review comes back to its own agent, whoever had an earlier one, and whatever a late mirror shows.
func TestReturnedAgain(t *testing.T) {
	inHouse(t, nil, pair()[:1], func(h *house) {
		id := pair()[0].ID
		for _, agent := range []string{"Sandman", "Oracle"} {
			late := h.board.Page(id)
			cl := h.mustClaim(agent, id)
			h.old[id] = late
			h.why("Merlin", "", id)
			delete(h.old, id)
			must(h, h.Review, new(api.On(string(cl.ID), "", api.ReviewRequest{Agent: agent})))
			time.Sleep(time.Hour)
			h.edit(id, func(t *task.Task) { t.Status, t.Edited = task.Open, h.store.Now() })
			if why := h.why("Merlin", "", id); why.Returned == nil || why.Returned.To != agent {
				h.Errorf("%s: %+v", agent, why)
			}
			time.Sleep(32 * time.Minute)
		}
	})
}

// Only a review comes back to its agent.
func TestNotReturned(t *testing.T) {
	inHouse(t, nil, pair()[:1], func(h *house) {
		id := pair()[0].ID
		h.mustClaim("Sandman", id)
		h.mustFinish("Sandman", "", claim.EndBlocked, "no ladder")
		must(h, h.Reopen, &api.ReopenInput{ID: string(id)})
		cl := h.mustClaim("Oracle", "")
		must(h, h.Review, new(api.On(string(cl.ID), "", api.ReviewRequest{Agent: "Oracle"})))
		h.edit(id, is(task.Blocked)) // a person, who waits for something
		must(h, h.Reopen, &api.ReopenInput{ID: string(id)})
		h.mustClaim("Sandman", "")
	})
}
