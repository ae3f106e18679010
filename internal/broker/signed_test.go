package broker_test

import (
	"context"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/outbox/creation"
	"dibs/internal/task"
)

// outside notes in whose name the daemon around a broker is asked for something.
type outside struct {
	broker.House
	broker.Cluster
	renewed, adopted string
}

func (o *outside) Doubt() error                         { return nil }
func (o *outside) Claimed(string, error, time.Duration) {}
func (o *outside) Webhook() api.Webhook                 { return api.Webhook{} }

func (o *outside) RenewWebhook(_ context.Context, by string) error {
	o.renewed = by
	return nil
}

func (o *outside) Adopt(_ context.Context, by string) (api.Cluster, error) {
	o.adopted = by
	return api.Cluster{}, nil
}

// maker makes the one task that there is.
type maker struct{ made task.Task }

func (m maker) Make(context.Context, creation.Request) (task.Task, bool, error) {
	return m.made, true, nil
}

func (m maker) Get(context.Context, task.ID) (claim.Reading, error) { return claim.Reading{}, nil }

// What is done in no agent's name is signed with the caller's user, in the record; docs/threats.md
// lists it.
func TestSigned(t *testing.T) {
	blocked := with(openTask(1, "Blocked"), is(task.Blocked))
	stale := with(openTask(2, "Stale"), func(t *task.Task) {
		t.ClaimedBy, t.ClaimedAt, t.Status = "Oracle", time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), task.InProgress
	})
	around := new(outside)
	furnish := func(h *house) {
		h.config.House, h.config.Cluster, h.config.Creations = around, around, maker{blocked}
	}
	inHouse(t, furnish, []task.Task{blocked, stale}, func(h *house) {
		ctx, who := h.Context(), broker.Caller{UID: 1000, User: "user ada", Own: true}
		time.Sleep(24 * time.Hour)
		key := api.BareInput{}
		for what, do := range map[claim.Kind]func() error{
			claim.KindReopened: func() error {
				_, err := h.Reopen(ctx, who, &api.ReopenInput{ID: string(blocked.ID)})
				return err
			},
			claim.KindSwept: func() error {
				_, err := h.Sweep(ctx, who, new(api.KeyedInput[*api.SweepRequest]))
				return err
			},
			claim.KindPaused:  func() error { return h.pause(who, "Sandman", "") },
			claim.KindResumed: func() error { _, err := h.resume(who, "Sandman"); return err },
			claim.KindAdded: func() error {
				_, err := h.AddTask(ctx, who, &api.AddInput{Body: api.AddRequest{Title: "New"}})
				return err
			},
			claim.KindCommented: func() error {
				in := api.OnTask(blocked.ID, "", api.CommentRequest{Text: "hello"})
				_, err := h.Comment(ctx, who, &in)
				return err
			},
			claim.KindMessage: func() error {
				_, err := h.Send(ctx, who, &api.KeyedInput[api.MessageRequest]{Body: api.MessageRequest{To: "Oracle", Text: "hello"}})
				return err
			},
		} {
			if what == claim.KindResumed {
				if err := h.pause(who, "Sandman", ""); err != nil {
					h.Fatal(err)
				}
			}
			if err := do(); err != nil {
				h.Errorf("%s: %v", what, err)
			}
			log, err := h.Log(ctx, nobody, &api.LogInput{Limit: 1000})
			if err != nil {
				h.Fatal(err)
			}
			by := "not on record"
			for _, e := range log.Entries {
				if e.Kind == what {
					by = e.By
				}
			}
			if by != who.User {
				h.Errorf("%s is signed %q", what, by)
			}
		}
		_, err := h.RenewWebhook(ctx, who, &key)
		if err != nil || around.renewed != who.User {
			h.Errorf("%v, renewed by %q", err, around.renewed)
		}
		if _, err := h.AdoptCluster(ctx, who, &key); err != nil || around.adopted != who.User {
			h.Errorf("%v, adopted by %q", err, around.adopted)
		}
		who.Own = false
		if _, err := h.AdoptCluster(ctx, who, &key); h.code(err) != string(api.CodeForbiddenAgent) {
			h.Errorf("anybody adopts: %v", err)
		}
		if _, err := h.RenewWebhook(ctx, who, &key); h.code(err) != string(api.CodeForbiddenAgent) {
			h.Errorf("anybody renews: %v", err)
		}
		if _, err := h.Webhook(ctx, who, nil); h.code(err) != string(api.CodeForbiddenAgent) {
			h.Errorf("anybody sees the secret: %v", err)
		}
	})
}
