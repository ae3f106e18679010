package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
)

// heartbeat is how long a stream of events is silent at most.
const heartbeat = 15 * time.Second

func (s *Server) stream(ctx context.Context, _ broker.Caller, in *api.EventsInput) (http.HandlerFunc, error) {
	if err := s.journal.Away(); err != nil { // a stream can no longer fail with a status
		return nil, err
	}
	f := *in
	f.LastEventID, f.Follow = "", false // which are the door's
	var err error
	if in.LastEventID != "" {
		if f.After, err = strconv.ParseInt(in.LastEventID, 10, 64); err != nil || f.After < 0 {
			return nil, api.Invalid("header."+api.LastEventID, fmt.Errorf("%q is not the id of an event", in.LastEventID))
		}
	}
	if f.After == api.EventsFuture {
		if _, f.After, err = s.broker.Events(ctx, f, 0); err != nil {
			return nil, err
		}
	}
	wait := time.Duration(0)
	if in.Follow {
		wait = heartbeat
	}
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, out := newEventStream(w, r)
		if err := s.send(ctx, out, f, wait); err != nil && ctx.Err() == nil {
			s.log.Info("a reader of events was cut off", claim.AttrError, err)
		}
	}, nil
}

// send streams the events that f selects until the reader goes, the daemon stops or, without a
// wait, there are no more. A slow reader is cut off like any other caller, and can continue later
// where it stopped.
func (s *Server) send(ctx context.Context, out *eventStream, f api.EventsInput, wait time.Duration) error {
	if err := out.beat(f.After); err != nil {
		return err
	}
	for {
		events, next, err := s.broker.Events(ctx, f, wait)
		if errors.Is(err, broker.ErrStopping) {
			return nil
		} else if err != nil {
			return err
		}
		f.After = next
		for _, e := range events {
			if err := out.event(e); err != nil {
				return err
			}
		}
		if len(events) == 0 {
			if wait == 0 {
				return nil
			}
			// The id moves on although nothing was selected, so that a reader that connects again
			// does not start too far back.
			if err := out.beat(next); err != nil {
				return err
			}
		} else if err := out.flush(); err != nil {
			return err
		}
	}
}

// eventStream writes server-sent events.
type eventStream struct {
	w          http.ResponseWriter
	connection *http.ResponseController
	pending    bytes.Buffer
}

// newEventStream begins an answer that is a stream. It ends with the returned context, the
// request's.
func newEventStream(w http.ResponseWriter, r *http.Request) (context.Context, *eventStream) {
	w.Header().Set("Content-Type", api.EventStream)
	w.Header().Set("Cache-Control", "no-store")
	return r.Context(), &eventStream{w: w, connection: http.NewResponseController(w)}
}

// event buffers an event.
func (o *eventStream) event(e api.Event) error {
	fmt.Fprintf(&o.pending, "id: %d\nevent: %s\ndata: ", e.ID, e.Kind)
	if err := encode(&o.pending, e); err != nil { // one line, with its end
		return err
	}
	o.pending.WriteByte('\n')
	return nil
}

// beat shows that the stream is alive, and sends the position.
func (o *eventStream) beat(id int64) error {
	fmt.Fprintf(&o.pending, ": alive\nid: %d\n\n", id)
	return o.flush()
}

func (o *eventStream) flush() error {
	if _, err := o.pending.WriteTo(o.w); err != nil {
		return err
	}
	return o.connection.Flush()
}

func (s *Server) keepAlive(ctx context.Context, who broker.Caller, in *api.KeepAliveInput) (http.HandlerFunc, error) {
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
	return func(w http.ResponseWriter, r *http.Request) {
		defer leave()
		ctx, stream := newEventStream(w, r)
		if err := s.follow(ctx, stream, out); err != nil && ctx.Err() == nil {
			s.log.Info("a connection that kept a claim alive is gone", claim.AttrClaim, out.ID, claim.AttrError, err)
		}
	}, nil
}

// follow streams the changes of a claim until it has ended, the reader goes or the daemon stops.
func (s *Server) follow(ctx context.Context, out *eventStream, c api.Claim) error {
	_, after, err := s.broker.Events(ctx, api.EventsInput{After: api.EventsFuture}, 0) // so that no event is missed
	if err != nil {
		return err
	}
	for {
		if err := out.claim(c); err != nil || c.State == claim.Ended {
			return err
		}
		for {
			now, err := s.broker.Watch(ctx, &api.GetClaimInput{ID: string(c.ID), After: after, Wait: heartbeat.String(), Patient: true})
			if errors.Is(err, broker.ErrStopping) {
				return nil
			} else if err != nil {
				return err
			}
			c = now
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
