package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/server"
	"dibs/internal/journal"
	members "dibs/internal/member"
	"dibs/internal/task"
)

// shared is what a daemon has whose journal lies in a database, which other daemons may
// share: one of them leads, and does all the work; the others stand by.
type shared struct {
	member *members.Member
	turns  *server.Turns // of the socket: who stands by answers, and then who leads
}

// share finds the database.
func (d *Daemon) share(ctx context.Context) error {
	c := d.live.Load()
	name, err := memberName(c.Cluster)
	if err != nil {
		return err
	}
	where, err := Place(*c, d.log)
	if err != nil {
		return err
	}
	database, err := journal.Dial(ctx, where)
	if err != nil {
		return err
	}
	d.shared = &shared{members.New(database, name, d.log), server.TakeTurns(d.listen)}
	d.cleanup = append(d.cleanup, database.Close, d.shared.turns.Close)
	return nil
}

// Place says in which database a configuration has the journal lie, if it is to be shared.
func Place(c config.Config, log *slog.Logger) (journal.Postgres, error) {
	if c.Cluster.Set() {
		return journal.Postgres{}, errors.New("journal.postgres and cluster.etcd are two ways to share a board between machines: set one of them")
	}
	if err := c.Databases.Named(); err != nil {
		return journal.Postgres{}, err
	}
	board, err := task.ParseID(c.Databases.Tasks)
	if err != nil {
		return journal.Postgres{}, fmt.Errorf("databases.tasks: %w", err)
	}
	where, err := c.Journal.ReadPostgres(log)
	return journal.Postgres{URL: string(where), Schema: c.Journal.Schema, Board: string(board)}, err
}

// memberName is what this daemon is called among those of other machines.
func memberName(c config.Cluster) (string, error) {
	if c.Name != "" {
		return c.Name, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("cluster.name: this machine has no name to take (%w): set one", err)
	}
	return name, nil
}

// takeTurns stands by and leads in turn until ctx ends. It returns nil after an orderly stop.
func (d *Daemon) takeTurns(ctx context.Context) error {
	for deposed := false; ; deposed = true {
		err := d.turn(ctx, deposed)
		if ctx.Err() != nil && (err == nil || errors.Is(err, context.Cause(ctx))) {
			return nil
		}
		if !errors.Is(err, journal.ErrDeposed) {
			return err
		}
	}
}

// turn stands by until the daemon leads, and then leads until ctx ends or its term does.
func (d *Daemon) turn(ctx context.Context, deposed bool) error {
	term, err := d.standBy(ctx, deposed)
	if err != nil {
		return err
	}
	leading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var kept sync.WaitGroup
	defer kept.Wait()
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx)) // also while it stops
	defer stopRenewing()
	kept.Go(func() { term.Keep(renewing) })
	kept.Go(func() {
		<-term.Over()
		stop(journal.ErrDeposed)
	})
	w, err := d.begin(leading, term.Open)
	if err == nil {
		d.log.Info("this daemon leads", "epoch", term.Epoch())
		d.works.Store(w)
		err = w.run(ctx, d.shared.turns.Turn(), term.Over())
		d.works.Store(nil)
		err = errors.Join(err, w.cleanup.run())
	}
	select {
	case <-term.Over():
		if err != nil {
			d.log.Debug("the end of a term", "error", err)
		}
		return journal.ErrDeposed
	default:
	}
	stopRenewing()
	if rerr := term.Resign(context.WithoutCancel(ctx)); rerr != nil {
		d.log.Warn("another daemon leads only once the term of this one is over", "error", rerr)
	}
	return err
}

// standBy answers on the socket why this daemon does not lead, until it does.
func (d *Daemon) standBy(ctx context.Context, deposed bool) (term *members.Term, err error) {
	waiting, lead := context.WithCancelCause(ctx)
	var answering sync.WaitGroup
	defer answering.Wait()
	defer lead(nil)
	answering.Go(func() {
		if err := server.StandBy(waiting, d.shared.turns.Turn(), d.log, d.shared); err != nil {
			lead(fmt.Errorf("the socket failed: %w: start dibs serve again", err))
		}
	})
	return d.shared.member.Lead(waiting, deposed)
}

// Why says why a daemon that stands by does not lead.
func (s *shared) Why() string {
	now := s.member.Standing()
	switch {
	case now.Away != nil:
		return fmt.Sprintf("whether this daemon may lead cannot be asked: %v", now.Away)
	case now.Leader != "":
		return fmt.Sprintf("this daemon stands by: %s leads since %s (epoch %d): ask there, or wait until this one leads", now.Leader, now.Since.Local().Format(time.DateTime), now.Epoch)
	}
	return "this daemon stands by, and is about to lead: ask again"
}

// Members says who shares the journal. Its times are the database's.
func (s *shared) Members(ctx context.Context) (api.Cluster, error) {
	all, err := s.member.All(ctx)
	if err != nil {
		return api.Cluster{}, err
	}
	out := api.Cluster{Members: []api.Member{}, Epoch: all.Epoch, Since: api.Time{Time: all.Since}}
	out.Name = s.member.Name()
	for _, m := range all.Members {
		leads := m.Name == all.Leader && !all.Over
		if leads {
			out.Leader = m.Name
		}
		out.Members = append(out.Members, api.Member{Name: m.Name, Leader: leads, SeenAt: api.Time{Time: m.Seen}, Self: m.Name == out.Name})
	}
	return out, nil
}
