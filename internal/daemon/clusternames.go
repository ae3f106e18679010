package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/names"
)

// mintTries is how many names are tried before it is said that none is free.
const mintTries = 100

// clusterNames are the names that this daemon gives to agents, none of which another member
// of its cluster gives: who has a name is in etcd, for longer than this daemon's journal keeps
// it. A session is one of its machine: what tells it from others may be the same elsewhere.
type clusterNames struct {
	*journal.Journal
	member *member
	keep   func() time.Duration
	log    *slog.Logger
}

// namesOf is where minted names are kept.
func (d *works) namesOf(l ledger) broker.Names {
	if d.member == nil {
		return l
	}
	return d.clusterNames()
}

func (d *works) clusterNames() clusterNames {
	return clusterNames{d.journal, d.member, func() time.Duration { return d.live.Load().Names.Keep }, d.log}
}

// take has this member have a name, unless another one has it.
func (n clusterNames) take(ctx context.Context, name string) (mine bool, err error) {
	err = n.member.ledger.Ask(ctx, func(ctx context.Context) (err error) {
		mine, err = n.member.TakeName(ctx, name, n.keep())
		return err
	})
	return mine, err
}

// drop gives up a name that was not used. If that fails, this member has it for a while.
func (n clusterNames) drop(ctx context.Context, name string) {
	if err := n.member.ledger.Ask(ctx, func(ctx context.Context) error { return n.member.DropName(ctx, name) }); err != nil {
		n.log.Debug("a name that nobody uses stays taken for a while", "name", name, "error", err)
	}
}

// MintName implements broker.Names.
func (n clusterNames) MintName(ctx context.Context, m names.Mint) (name string, minted bool, err error) {
	if m.Session != "" {
		has, _, err := n.SessionName(ctx, m.UID, m.Session, m.Gone)
		if err != nil {
			return "", false, err
		}
		if has != "" && m.Usable(has) {
			mine, err := n.take(ctx, has)
			if mine || err != nil { // etcd may be away: the name was given once
				return n.Journal.MintName(ctx, m)
			}
			n.log.Warn("an agent gets another name, because another member of the cluster has given its name, too", "name", has)
			if err := n.DisownName(ctx, has); err != nil {
				return "", false, err
			}
		}
	}
	for range mintTries {
		candidate := m.Next()
		if !m.Free(candidate) {
			continue
		}
		mine, err := n.take(ctx, candidate)
		if failed, ok := errors.AsType[*claim.ArbiterError](err); ok {
			return "", false, &claim.ArbiterError{RetryAfter: failed.RetryAfter, Err: fmt.Errorf("no name is minted without the cluster's etcd, as another member may mint the same: %w", failed.Err)}
		}
		if err != nil {
			return "", false, err
		}
		if !mine {
			continue
		}
		one := m
		one.Suffix = func() string { return strings.TrimPrefix(candidate, m.Prefix+"-") }
		name, minted, err = n.Journal.MintName(ctx, one)
		if err == nil && name == candidate {
			return name, minted, nil
		}
		n.drop(ctx, candidate)
		if _, taken := errors.AsType[*names.TakenError](err); !taken {
			return name, minted, err // the session has got another one meanwhile
		}
	}
	return "", false, fmt.Errorf("minting a name that begins with %s: %w", m.Prefix, &names.TakenError{Tried: mintTries})
}

// tend keeps the names that the journal has.
func (n clusterNames) tend(ctx context.Context) error {
	return n.member.ledger.Ask(ctx, func(ctx context.Context) error {
		bound, err := n.member.KeepNames(ctx)
		if bound || err != nil {
			return err
		}
		all, err := n.MintedNames(ctx)
		if err != nil {
			return err
		}
		_, err = n.member.BindNames(ctx, all, n.keep())
		return err
	})
}

var _ broker.Names = clusterNames{}

// namesEvery is how often names are kept: they last for an hour at least.
const namesEvery = 10 * time.Minute

// keepNames keeps the names that the journal has, now and then.
func (d *works) keepNames(ctx context.Context) {
	if m := d.member; time.Since(m.namesKept) >= namesEvery {
		if err := d.clusterNames().tend(ctx); err != nil {
			d.log.Debug("names could not be kept in the cluster; it is tried again", "error", err)
			return
		}
		m.namesKept = time.Now()
	}
}
