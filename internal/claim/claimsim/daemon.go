package claimsim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// SyncInterval is how often a daemon is meant to look at the register. The
// Grace of Policy is made for it.
const SyncInterval = 15 * time.Second

// Policy returns the settings that daemons have unless they are told others.
func Policy() claim.Policy {
	return claim.Policy{
		Timeout: 30 * time.Minute, WriteWindow: 2 * time.Second, Settle: 3 * time.Second,
		Grace: 2*SyncInterval + 13*time.Second, MaxLifetime: 24 * time.Hour,
	}
}

// DaemonOptions describe a daemon.
type DaemonOptions struct {
	StoreOptions
	// Policy is that of the function Policy if zero.
	Policy claim.Policy
	// Fault, if set, stands between the claimer and the store.
	Fault Fault
	// Blockers is as in claim.Config.
	Blockers func(context.Context, task.Task) ([]task.ID, error)
	Log      *slog.Logger
}

// Daemon is a claimer with all that belongs to it.
type Daemon struct {
	*claim.Claimer
	Store  *Store
	Ledger *Ledger

	register *Register
	options  DaemonOptions
	life     *life
}

// Daemon starts a daemon on the register. It panics if the policy is invalid.
func (r *Register) Daemon(o DaemonOptions) *Daemon {
	if o.Policy == (claim.Policy{}) {
		o.Policy = Policy()
	}
	o.Policy.NoToken = r.NoToken
	d := &Daemon{Store: r.Store(o.StoreOptions), Ledger: NewLedger(), register: r, options: o}
	d.start()
	return d
}

func (d *Daemon) start() {
	store := claim.Store(d.Store)
	if d.options.Fault != nil {
		store = d.options.Fault(store)
	}
	d.life = new(life)
	c, err := claim.New(claim.Config{
		Store: mortalStore{store, d.life}, Ledger: mortalLedger{d.Ledger, d.life}, Policy: d.options.Policy,
		Blockers: d.options.Blockers, Clocks: d.Store.instant, Log: d.options.Log,
	})
	if err != nil {
		panic(fmt.Sprintf("claimsim: %v", err))
	}
	d.Claimer = c
}

// Restart ends the daemon, as at an orderly stop, and starts it anew on the
// same ledger and store.
func (d *Daemon) Restart(ctx context.Context) error {
	d.Close()
	d.start()
	return d.Recover(ctx)
}

// Kill ends the daemon in the middle of whatever it is doing. What it has sent
// may still take effect; it sends and notes nothing more.
func (d *Daemon) Kill() {
	d.life.over.Store(true)
	d.Close()
}

// Successor starts the daemon anew after Kill, on the same ledger and store.
func (d *Daemon) Successor(ctx context.Context) (*Daemon, error) {
	next := new(*d)
	next.start()
	return next, next.Recover(ctx)
}

// Sync is what a daemon does once every sync interval: it looks at all tasks,
// sees to the claims held here and to the steps that are owed, and writes the
// leases that are due.
func (d *Daemon) Sync(ctx context.Context) error {
	d.Store.hear() // as the answer to a query says
	rows := make(map[task.ID]*task.Task)
	var errs []error
	for _, t := range d.register.Tasks() {
		rows[t.ID] = &t
		_, err := d.Sighted(ctx, t.Token)
		errs = append(errs, err)
	}
	live, err := d.Ledger.Live(ctx)
	errs = append(errs, err)
	for _, c := range live {
		if c.State == claim.Held {
			errs = append(errs, d.Guard(ctx, c.ID, rows[c.Task.ID]))
		}
	}
	_, err = d.RunDue(ctx)
	return errors.Join(append(errs, err, d.KeepAlive(ctx))...)
}
