package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/notion/emulator"
)

// hand is an agent of a mesh, which asks the daemon of one line.
type hand struct {
	*mesh
	name   string
	line   *dynasty
	random *rand.Rand
	asked  int
	kept   []api.Claim // that it forgot, for now
}

func newHand(m *mesh, number int, l *dynasty) *hand {
	return &hand{mesh: m, name: fmt.Sprint("agent-", number+1), line: l, random: m.stream(1000 + number)}
}

// rush is how often all agents may come for the same task at once.
const rush = 20 * time.Second

// errAway says that an agent has given up: no daemon answered for long.
var errAway = errors.New("nobody answers")

// ask asks until the daemon answers, or its heir, always under the same key.
func ask[T any](h *hand, what string, do func(ctx context.Context, c *client.Client, key string) (T, error)) (got T, err error) {
	h.asked++
	key := fmt.Sprint(h.name, "-", h.asked)
	for range 60 {
		if c := h.line.door(); c != nil {
			patience := 90*time.Second + upTo(h.random, time.Minute)
			if h.random.IntN(12) == 0 {
				patience = upTo(h.random, 5*time.Second)
			}
			h.trace.add(h.name, "asks %s", what)
			ctx, cancel := context.WithTimeout(h.Context(), patience)
			got, err = do(ctx, c, key)
			cancel()
			h.trace.add(h.name, "is told of %s: %.300s", what, said(got, err))
			p, answered := errors.AsType[*api.Problem](err)
			switch {
			case err == nil:
				return got, nil
			case !answered, p.Code == api.CodeStopping, p.Code == api.CodeBusy, p.Code == api.Code(claim.CodeJournalUnavailable):
			case p.Code == api.CodeInternal, p.Code == api.CodeKeyReused, p.Code == api.CodeForbiddenAgent, p.Code == api.CodeUnknownClaim:
				h.book.complain("%s is told of %s: %v", h.name, what, err)
				return got, err
			default:
				return got, err
			}
		}
		time.Sleep(time.Second + upTo(h.random, 20*time.Second))
	}
	return got, errAway
}

// said is what an answer says, in short.
func said(got any, err error) string {
	if err != nil {
		return "no: " + err.Error()
	}
	switch got := got.(type) {
	case api.Claim:
		return fmt.Sprintf("claim %s, %q, %s until %s", got.ID, got.Task.Title, got.State, got.ExpiresAt.Format(time.TimeOnly))
	case api.Triggers:
		var lines []string
		for _, t := range got.Triggers {
			lines = append(lines, t.ID+" "+named(t))
		}
		return fmt.Sprintf("%q", lines)
	}
	return "yes"
}

// work has the agent do what agents do until the troubles end. Then it gives back what it has.
func (h *hand) work() {
	for h.pause(h.random, 0, 80*time.Second) {
		switch draw := h.random.IntN(20); {
		case draw < 11:
			if cl, ok := h.claim(); ok {
				h.hold(cl)
			}
		case draw < 14:
			h.send()
		case draw < 18:
			h.poll()
		default:
			h.reserve()
		}
	}
	for _, cl := range h.kept {
		h.finish(cl)
	}
}

// claim asks for a task.
func (h *hand) claim() (api.Claim, bool) {
	body := api.ClaimRequest{Agent: h.name}
	draw := h.random.IntN(6)
	if draw < 2 { // for a task for which others come now, too
		time.Sleep(rush - time.Since(h.trace.began)%rush + upTo(h.random, 500*time.Millisecond))
	}
	switch pages := h.notion.Pages(h.tasks); {
	case draw < 2:
		i := slices.IndexFunc(pages, func(p emulator.Page) bool {
			return p.Select("status") == "OPEN" && p.Text("claimed_by") == "" && !p.Trashed
		})
		body.Task = pages[max(i, 0)].ID
	case draw < 4:
		body.Task = pages[h.random.IntN(len(pages))].ID
	} // or the next one
	if h.random.IntN(3) == 0 {
		body.WaitSeconds = upTo(h.random, time.Minute).Seconds()
	}
	if h.random.IntN(4) == 0 {
		body.TimeoutMinutes = 1 + h.random.IntN(20)
	}
	call := time.Now()
	cl, err := ask(h, "a claim of "+h.book.title(body.Task), func(ctx context.Context, c *client.Client, key string) (api.Claim, error) {
		return c.Claim(ctx, body, key)
	})
	if err != nil {
		return cl, false
	}
	h.book.granted(h, call, cl)
	h.count("grants")
	return cl, true
}

// hold has the agent work on its task, say now and then that it is alive, and what became of
// it, unless it forgets that.
func (h *hand) hold(cl api.Claim) {
	for range h.random.IntN(5) {
		time.Sleep(upTo(h.random, 5*time.Minute))
		if !h.book.trusted(cl.ID) || h.over.Load() {
			break
		}
		call := time.Now()
		renewed, err := ask(h, "a renewal of "+cl.Task.Title, func(ctx context.Context, c *client.Client, key string) (api.Claim, error) {
			return c.Renew(ctx, string(cl.ID), api.RenewRequest{Agent: h.name}, key)
		})
		switch {
		case lost(err):
			h.book.ended(cl.ID, call, "a renewal was refused")
			return
		case err == nil:
			h.book.renewed(cl.ID, renewed.ExpiresAt.Time)
		}
	}
	switch draw := h.random.IntN(10); {
	case draw == 0:
		h.kept = append(h.kept, cl)
	case draw == 1:
		return // it vanishes
	case draw == 2 && h.offer(cl):
	default:
		h.finish(cl)
	}
}

// lost reports whether an agent is told that its claim is over.
func lost(err error) bool {
	p, ok := errors.AsType[*api.Problem](err)
	return ok && p.Code == api.CodeClaimLost
}

// finish has the agent say what became of its task.
func (h *hand) finish(cl api.Claim) {
	id := string(cl.ID)
	verb, kind := "", claim.Kind("")
	var say func(context.Context, *client.Client, string) (api.Claim, error)
	switch draw := h.random.IntN(20); {
	case draw < 10:
		verb, kind = "complete", claim.KindCompleted
		say = func(ctx context.Context, c *client.Client, key string) (api.Claim, error) {
			return c.Complete(ctx, id, api.CompleteRequest{Agent: h.name, Summary: "done"}, key)
		}
	case draw < 16:
		verb, kind = "release", claim.KindReleased
		say = func(ctx context.Context, c *client.Client, key string) (api.Claim, error) {
			return c.Release(ctx, id, api.StopRequest{Agent: h.name}, key)
		}
	case draw < 18:
		verb, kind = "block", claim.KindBlocked
		say = func(ctx context.Context, c *client.Client, key string) (api.Claim, error) {
			return c.Block(ctx, id, api.BlockRequest{Agent: h.name, Reason: "no access"}, key)
		}
	default:
		verb, kind = "fail", claim.KindFailed
		say = func(ctx context.Context, c *client.Client, key string) (api.Claim, error) {
			return c.Fail(ctx, id, api.FailRequest{Agent: h.name, Reason: "it does not work", Reopen: draw == 18}, key)
		}
	}
	h.book.ended(cl.ID, time.Now(), "its agent is to %s it", verb)
	if _, err := ask(h, "to "+verb+" "+cl.Task.Title, say); err == nil {
		h.book.finished(cl.ID, kind)
		h.count(string(kind))
	}
}

// offer offers the agent's task to another one of its line; false if there is none.
func (h *hand) offer(cl api.Claim) bool {
	to := one(h.random, h.crew...)
	if to == h || to.line != h.line {
		return false
	}
	h.book.ended(cl.ID, time.Now(), "it is offered to %s", to.name)
	h.book.offered(h, string(cl.Task.ID))
	_, err := ask(h, "to offer "+cl.Task.Title, func(ctx context.Context, c *client.Client, key string) (api.Offered, error) {
		return c.Offer(ctx, cl.Task.ID, api.OfferRequest{Agent: h.name, To: to.name}, key)
	})
	if err == nil {
		h.count("offers")
	}
	return true
}

// send says something to another agent.
func (h *hand) send() {
	to := one(h.random, h.crew...)
	if to == h {
		return
	}
	text := fmt.Sprintf("message %d of %s", h.asked+1, h.name)
	_, err := ask(h, "to send to "+to.name, func(ctx context.Context, c *client.Client, key string) (api.Message, error) {
		return c.Send(ctx, api.MessageRequest{From: h.name, To: to.name, Text: text}, key)
	})
	if err == nil {
		h.count("messages")
		h.book.sent(h, to, text)
	}
}

// poll takes triggers, and acknowledges those that it sees to. It returns how many there were.
func (h *hand) poll() int {
	taker := fmt.Sprint(h.name, "-", h.asked)
	limit := one(h.random, 0, 2)
	got, err := ask(h, "a poll", func(ctx context.Context, c *client.Client, key string) (api.Triggers, error) {
		return c.Poll(ctx, h.name, api.PollRequest{Limit: limit}, key)
	})
	if err != nil {
		return 0
	}
	var ids []string
	for _, t := range got.Triggers {
		h.book.shown(h, taker, t)
		if t.Type == inbox.TaskOffered && !h.over.Load() {
			h.answer(t)
		}
		if h.over.Load() || h.random.IntN(4) > 0 {
			ids = append(ids, t.ID)
		}
	}
	h.ack(ids)
	return len(got.Triggers)
}

// ack acknowledges triggers.
func (h *hand) ack(ids []string) {
	if len(ids) == 0 {
		return
	}
	h.book.acked(ids, asked)
	if _, err := ask(h, "an acknowledgement", func(ctx context.Context, c *client.Client, key string) (api.Acked, error) {
		return c.Ack(ctx, h.name, api.AckRequest{IDs: ids}, key)
	}); err == nil {
		h.book.acked(ids, acked)
		h.count("acknowledgements")
	}
}

// answer has the agent accept or decline what it was offered. An offer that it has accepted comes back
// until it is acknowledged. To decline it then gives the claim up.
func (h *hand) answer(t api.Trigger) {
	if h.random.IntN(3) == 0 {
		h.book.gaveUp(h, string(t.Task.ID))
		_, _ = ask(h, "to decline "+t.Task.Title, func(ctx context.Context, c *client.Client, key string) (api.Offered, error) {
			return c.Decline(ctx, t.Task.ID, api.DeclineRequest{Agent: h.name}, key)
		})
		return
	}
	call := time.Now()
	cl, err := ask(h, "to accept "+t.Task.Title, func(ctx context.Context, c *client.Client, key string) (api.Claim, error) {
		return c.Accept(ctx, t.Task.ID, api.AcceptRequest{Agent: h.name}, key)
	})
	if err == nil {
		h.count("offers accepted")
		h.book.granted(h, call, cl)
		h.kept = append(h.kept, cl)
	}
}

// reserve reserves a thing for a while.
func (h *hand) reserve() {
	thing := one(h.random, "name:alpha", "name:beta")
	lasts := time.Minute + upTo(h.random, 10*time.Minute)
	r, err := ask(h, "to reserve "+thing, func(ctx context.Context, c *client.Client, key string) (api.Reservation, error) {
		return c.Reserve(ctx, "/", []string{thing}, api.ReserveRequest{Agent: h.name, ForSeconds: lasts.Seconds()}, key)
	})
	if err != nil {
		return
	}
	h.count("reservations")
	kept := h.book.reserved(h, thing, r)
	if h.random.IntN(2) == 0 {
		time.Sleep(upTo(h.random, lasts))
		h.book.unreserved(kept)
		_, _ = ask(h, "to give back "+thing, func(ctx context.Context, c *client.Client, _ string) (api.Reservation, error) {
			return c.Unreserve(ctx, r.ID, h.name)
		})
	}
}
