package server

import (
	"context"
	"errors"
	"fmt"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"

	"github.com/danielgtaylor/huma/v2"
)

func (s *Server) keepAlive(ctx context.Context, who broker.Caller, in *api.KeepAliveInput) (*huma.StreamResponse, error) {
	found, err := owned(ctx, s.broker, who, in.ID, in.Agent)
	if err != nil {
		return nil, err
	}
	id := in.ID
	in.ID = string(found.ID)
	out, leave, err := s.broker.KeepAlive(ctx, who, in)
	if lost, ok := errors.AsType[*claim.Lost](err); ok && id == api.OnlyClaim {
		return nil, notMeant(s.broker, in.Agent, lost)
	}
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
			seen, err := s.broker.Watch(ctx, &api.GetClaimInput{ID: string(c.ID), After: after, Wait: heartbeat.String(), Patient: true})
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
