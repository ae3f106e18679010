package daemon

import (
	"context"
	"fmt"
	"net"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/daemon/metrics"
	"dibs/internal/journal"
)

// measured is the broker with counts and durations of the requests for claims.
type measured struct {
	*broker.Broker
	metrics *metrics.Metrics
}

func (m measured) Claim(ctx context.Context, r broker.Request) (api.Claim, error) {
	begin := time.Now()
	cl, err := m.Broker.Claim(ctx, r)
	m.metrics.Claimed(r.Agent, err, time.Since(begin))
	return cl, err
}

// listenForScrapes listens at metrics.listen, if set. It refuses an address that other machines can
// reach, whatever its name.
func (d *works) listenForScrapes(ctx context.Context) error {
	address := d.config.Metrics.Listen
	if address == "" {
		return nil
	}
	var network net.ListenConfig
	l, err := network.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("metrics.listen: %w: set another port, or none", err)
	}
	d.cleanup = append(d.cleanup, func() error { return closeOnce(l) })
	if at, ok := l.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		return fmt.Errorf("metrics.listen: %s means %s, which other machines can reach: want a loopback address such as 127.0.0.1:9464", address, l.Addr())
	}
	d.scrapes = l
	d.log.Info("metrics can be read by every user of this machine", "url", "http://"+l.Addr().String()+"/metrics")
	return nil
}

// standing returns the gauges, read anew for every scrape.
func (d *works) standing(ctx context.Context) (metrics.State, error) {
	status, err := d.broker.Status(ctx)
	if err != nil {
		return metrics.State{}, err
	}
	sent := d.notion.Stats()
	state := metrics.State{
		Waiting: make(map[string]int, len(sent.Waiting)), Permits: sent.Permits, Burst: sent.Burst,
		Paused:    time.Until(sent.PausedUntil),
		ClockSkew: time.Until(d.notion.Now()),
		Mirror:    status.Mirror, Held: make(map[string]int), Reservations: len(status.Reservations),
	}
	if d.shared != nil {
		state.Cluster = d.shared.state()
		state.Cluster.Doubted = d.doubt.Why() != nil
	}
	for _, c := range sent.Requests {
		state.Requests = append(state.Requests, metrics.Requests(c))
	}
	for lane, n := range sent.Waiting {
		state.Waiting[lane.String()] = n
	}
	for _, c := range d.broker.Claims("").Claims {
		if c.State == claim.Held {
			state.Held[c.Agent]++
		}
	}
	for _, q := range d.queues {
		if to, t := q.Tally(); to != "" {
			state.Notices = append(state.Notices, metrics.Notices{Receiver: to, Sent: t.Sent, Failed: t.Failed, GivenUp: t.GivenUp})
		}
	}
	owed, err := d.owed(ctx)
	if err != nil { // not known
		return state, nil
	}
	for _, log := range []claim.Log{journal.Finishes, claim.MeshLog, claim.TaskLog, claim.Comments} { // an empty log is reported as 0
		backlog := metrics.Backlog{Log: string(log)}
		for _, b := range owed {
			if b.Log == log {
				backlog.Depth, backlog.InDoubt, backlog.Age = b.Depth, b.InDoubt, max(0, d.notion.Now().Sub(b.Oldest))
			}
		}
		state.Outbox = append(state.Outbox, backlog)
	}
	return state, nil
}
