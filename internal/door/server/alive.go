package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/claim/keepers"

	"github.com/danielgtaylor/huma/v2"
)

// keeperOf reads the process that is to keep a claim alive. It must be one of the caller's.
func (s *Server) keeperOf(ctx context.Context, k api.Keeper) (keepers.Keeper, error) {
	keeper := keepers.Keeper{Grace: time.Duration(k.GraceSeconds * float64(time.Second))}
	switch {
	case k.PID == 0 && k.GraceSeconds != 0:
		return keeper, invalid("body.grace_seconds", errors.New("a grace is for the end of a process: name that in pid"))
	case k.PID == 0:
		return keeper, nil
	}
	var err error
	keeper.Process, err = s.ownProcess(ctx, k.PID)
	return keeper, err
}

// longestGrace limits how long a claim waits for its connection to come back.
const longestGrace = time.Hour

func (s *Server) keepAlive(ctx context.Context, in *api.KeepAliveInput) (*huma.StreamResponse, error) {
	grace, err := time.ParseDuration(in.Grace)
	if err != nil || grace < 0 || grace > longestGrace {
		return nil, invalid("query.grace", fmt.Errorf("%q is not a time to wait: want one such as 60s, at most %v", in.Grace, longestGrace))
	}
	var leave func()
	out, err := s.change(ctx, in.ID, in.Agent, api.Used{}, func(ctx context.Context, r broker.Ref) (c api.Claim, err error) {
		c, leave, err = s.broker.Connect(ctx, r, grace)
		return c, err
	})
	if err != nil {
		return nil, err
	}
	if leave == nil { // the renewal is owed
		return nil, api.NewProblem(api.Code(claim.CodeNotionUnavailable), out.Detail)
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer leave()
		ctx, stream := newEventStream(c)
		if err := s.follow(ctx, stream, out); err != nil && ctx.Err() == nil {
			s.log.Info("a connection that kept a claim alive is gone", claim.AttrClaim, out.ID, claim.AttrError, err)
		}
	}}, nil
}

// follow streams the changes of a claim until it has ended, the reader goes or the daemon stops.
func (s *Server) follow(ctx context.Context, out *eventStream, c api.Claim) error {
	_, after, err := s.broker.Events(ctx, api.EventFilter{After: api.EventsFuture}, 0) // so that no event is missed
	if err != nil {
		return err
	}
	for {
		if err := out.claim(c); err != nil || c.State == claim.Ended {
			return err
		}
		for {
			seen, err := s.broker.Watch(ctx, broker.Ref{Claim: string(c.ID)}, after, heartbeat)
			if errors.Is(err, broker.ErrStopping) {
				return nil
			} else if err != nil {
				return err
			}
			c = seen
			if c.Event != nil {
				after = c.Event.ID
			}
			if c.Event != nil || c.State == claim.Ended {
				break
			}
			if err := out.comment("alive"); err != nil {
				return err
			}
		}
	}
}

// claim sends a claim.
func (o *eventStream) claim(c api.Claim) error {
	o.pending.WriteString("event: claim\ndata: ")
	if err := encode(&o.pending, c); err != nil { // one line, with its end
		return err
	}
	o.pending.WriteByte('\n')
	return o.flush()
}

// comment shows that the stream is alive.
func (o *eventStream) comment(text string) error {
	fmt.Fprintf(&o.pending, ": %s\n\n", text)
	return o.flush()
}
