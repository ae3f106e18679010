package server

import (
	"context"
	"fmt"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
)

// Upkeep maintains the daemon.
type Upkeep interface {
	Sweep(ctx context.Context, note, by string) (api.Sweep, error)

	// Sync fails with *claim.StoreError.
	Sync(ctx context.Context, full bool) (api.Sync, error)

	Status(context.Context) (api.Status, error)
	Cluster(context.Context) (api.Cluster, error)

	// AdoptCluster fails with *broker.InvalidError.
	AdoptCluster(ctx context.Context, by string) (api.Cluster, error)

	Webhook() api.Webhook
	RenewWebhook(ctx context.Context, by string) (api.Webhook, error)
}

func (s *Server) sweep(ctx context.Context, in *api.KeyedInput[*api.SweepRequest]) (api.Sweep, error) {
	return s.broker.Sweep(ctx, orZero(in.Body).Note, signature(ctx, ""))
}

func (s *Server) sync(ctx context.Context, in *api.KeyedInput[*api.SyncRequest]) (api.Sync, error) {
	if err := s.journal.Away(); err != nil { // its result could not be saved
		return api.Sync{}, err
	}
	return s.broker.Sync(ctx, orZero(in.Body).Full)
}

func (s *Server) webhook(ctx context.Context, _ *struct{}) (api.Webhook, error) {
	if err := ownersOnly(ctx, "may see the secret of the webhook"); err != nil {
		return api.Webhook{}, err
	}
	return s.broker.Webhook(), nil
}

func (s *Server) renewWebhook(ctx context.Context, _ *api.BareInput) (api.Webhook, error) {
	if err := ownersOnly(ctx, "may replace the secret of the webhook"); err != nil {
		return api.Webhook{}, err
	}
	return s.broker.RenewWebhook(ctx, signature(ctx, ""))
}

// ownersOnly returns an error unless the caller is the daemon's user or root. what is what only they
// may do.
func ownersOnly(ctx context.Context, what string) error {
	if guest(ctx).Own {
		return nil
	}
	return &broker.ForbiddenError{Detail: "only the daemon's user, and root, " + what}
}

func (s *Server) status(ctx context.Context, _ *struct{}) (api.Status, error) {
	status, err := s.broker.Status(ctx)
	if err != nil {
		return api.Status{}, err
	}
	if status.Cluster != nil {
		status.Cluster.Name = guest(ctx).Member
	}
	return status, nil
}

func (s *Server) logEntries(ctx context.Context, in *api.LogInput) (api.Log, error) {
	filter := api.LogFilter{Agent: in.Agent, After: in.After, Seen: in.Seen, Limit: in.Limit}
	var err error
	if in.Task != "" {
		if filter.Task, err = s.named(ctx, "query.task", in.Task); err != nil {
			return api.Log{}, err
		}
	}
	if in.Since != "" {
		if filter.Since, err = time.Parse(time.RFC3339, in.Since); err != nil {
			return api.Log{}, invalid("query.since", fmt.Errorf("%q is no time: want one such as 2026-11-25T15:00:00Z", in.Since))
		}
	}
	if in.Claim != "" {
		var ok bool
		if filter.Claim, ok = claim.ParseID(in.Claim); !ok {
			return api.Log{}, invalid("query.claim", fmt.Errorf("%q is not the id of a claim", in.Claim))
		}
	}
	if in.After != "" {
		if _, ok := claim.ParseID(in.After); !ok { // they have the same form
			return api.Log{}, invalid("query.after", fmt.Errorf("%q is not the id of an entry", in.After))
		}
	}
	return s.broker.Log(ctx, filter)
}
