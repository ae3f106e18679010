package broker

import (
	"context"
	"fmt"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// Sync brings the mirror up to date, with the whole board if the request says so. The error is a
// *claim.StoreError, or the journal's.
func (b *Broker) Sync(ctx context.Context, _ Caller, in *api.KeyedInput[*api.SyncRequest]) (api.Sync, error) {
	if err := b.journal.Away(); err != nil { // its result could not be saved
		return api.Sync{}, err
	}
	r, err := b.mirror.Sync(ctx, orZero(in.Body).Full)
	done := api.Sync{Full: r.Full, Read: r.Read, Changed: len(r.Changed), Gone: len(r.Gone), Age: b.age(ageOf(b.mirror.Standing()))}
	done.Tasks = b.mirror.Len()
	return done, err
}

// Webhook returns the address for Notion's webhooks, with its secret. The error is a *ForbiddenError.
func (b *Broker) Webhook(_ context.Context, who Caller, _ *struct{}) (api.Webhook, error) {
	if err := who.owner("may see the secret of the webhook"); err != nil {
		return api.Webhook{}, err
	}
	return b.daemon.Webhook(), nil
}

// RenewWebhook forgets the secret of the webhooks, so that Notion may send another. The error is a
// *ForbiddenError, or the journal's.
func (b *Broker) RenewWebhook(ctx context.Context, who Caller, _ *api.BareInput) (api.Webhook, error) {
	if err := who.owner("may replace the secret of the webhook"); err != nil {
		return api.Webhook{}, err
	}
	if err := b.daemon.RenewWebhook(ctx, who.User); err != nil {
		return api.Webhook{}, err
	}
	return b.daemon.Webhook(), nil
}

// Status returns the state of the daemon. While the journal cannot be reached, it is without the
// pauses, and the outbox's error says so. Its member is the one at which the caller came in.
func (b *Broker) Status(ctx context.Context, who Caller, _ *struct{}) (api.Status, error) {
	standing := b.mirror.Standing()
	p := b.claimer.Policy()
	s := api.Status{
		Mirror:   api.MirrorStatus{Age: b.age(ageOf(standing))},
		Policy:   policyStatus(p),
		Warnings: []string{},
		Words:    &api.Words{Statuses: b.words.ByStatus(), Priorities: b.words.Priorities()},
	}
	if p := standing.Progress; p != nil {
		s.Mirror.Syncing = api.NewSyncProgress(p.Read, p.Of)
	}
	if err := b.mirror.Closed(); err != nil {
		s.Warnings = append(s.Warnings, "no task can be claimed: "+err.Error())
	}
	s.Warnings = append(s.Warnings, b.troubles.warnings()...)
	for _, t := range b.claimer.AllLeftAlone() {
		s.Warnings = append(s.Warnings, fmt.Sprintf("task %q (%s) is %s", t.Title, t.ID, leftAlone(b.claimer.LeftAlone(t.ID))))
	}
	s.Mirror.Tasks, s.Mirror.Ready = b.mirror.Len(), b.ready.Len()
	if stuck := b.sum(task.Filter{}).stuck; stuck.Count > 0 {
		s.Mirror.Stuck = &stuck
		s.Warnings = append(s.Warnings, fmt.Sprintf("%v; dibs ready --why says what to do about each", stuck))
	}
	s.ClaimsHeld = b.claimer.Holding()
	s.Reservations = each(b.reserved.List(ctx, ""), b.reservation)
	paused, err := b.journal.Brake(ctx)
	if err != nil && !unreachable(err) {
		return s, err
	}
	s.Pauses = b.pauses(paused)
	b.daemon.Report(ctx, &s)
	s.Outbox.Oldest = b.time(s.Outbox.Oldest.Time)
	if s.Cluster != nil {
		s.Cluster.Name = who.Member
	}
	return s, nil
}

func policyStatus(p claim.Policy) api.PolicyStatus {
	override := "any"
	if p.OpenOnly {
		override = "open_only"
	}
	return api.PolicyStatus{
		TimeoutSeconds: p.Timeout.Seconds(), WriteWindowSeconds: p.WriteWindow.Seconds(),
		SettleSeconds: p.Settle.Seconds(), Override: override, Exclusive: p.Exclusive,
		MaxPerAgent: new(p.MaxPerAgent), MaxLifetimeSeconds: new(p.MaxLifetime.Seconds()),
		MaxAttempts: new(p.MaxAttempts),
	}
}

// Cluster returns the members of the cluster, as the one sees them at which the caller came in;
// without a cluster, none.
func (b *Broker) Cluster(ctx context.Context, who Caller, _ *struct{}) (api.Cluster, error) {
	if b.cluster == nil {
		return api.Cluster{Members: []api.Member{}}, nil
	}
	c, err := b.cluster.Members(ctx)
	return b.members(who, c, err)
}

// AdoptCluster accepts the journal as it is now. The error is a *ForbiddenError, or, without a
// cluster, an *InvalidError.
func (b *Broker) AdoptCluster(ctx context.Context, who Caller, _ *api.BareInput) (api.Cluster, error) {
	if err := who.owner("may say that the journal is right"); err != nil {
		return api.Cluster{}, err
	}
	if b.cluster == nil {
		return api.Cluster{}, &InvalidError{Detail: "this daemon is in no cluster: set journal.postgres in its configuration, and restart it"}
	}
	c, err := b.cluster.Adopt(ctx, who.User)
	return b.members(who, c, err)
}

func (b *Broker) members(who Caller, c api.Cluster, err error) (api.Cluster, error) {
	if err != nil {
		return api.Cluster{}, err
	}
	c.Members = orEmpty(c.Members)
	if len(c.Members) > 0 {
		c.Name = who.Member
	}
	for i, m := range c.Members {
		c.Members[i].SeenAt, c.Members[i].Self = b.time(m.SeenAt.Time), m.Name == who.Member
	}
	return c, nil
}
