package server

import (
	"context"
	"fmt"
	"net/http"

	"dibs/internal/api"
	"dibs/internal/claim"

	"github.com/danielgtaylor/huma/v2"
)

type (
	sweepOutput  struct{ Body api.Sweep }
	syncOutput   struct{ Body api.Sync }
	statusOutput struct{ Body api.Status }
	logOutput    struct{ Body api.Log }
)

func (s *Server) daemonRoutes(o operations) {
	add(o, huma.Operation{
		OperationID: "sweep", Method: http.MethodPost, Path: "/v1/sweep",
		Summary: "Put tasks whose claim is stale back to OPEN, now",
	}, s.sweep)
	add(o, huma.Operation{
		OperationID: "sync", Method: http.MethodPost, Path: "/v1/sync",
		Summary: "Bring the daemon's copy of the tasks up to date, now",
	}, s.sync)
	add(o, huma.Operation{
		OperationID: "status", Method: http.MethodGet, Path: "/v1/status",
		Summary: "The state of the daemon",
	}, s.status)
	add(o, huma.Operation{
		OperationID: "log", Method: http.MethodGet, Path: "/v1/log",
		Summary: "The newest entries of the local record",
	}, s.logEntries)
}

func (s *Server) sweep(ctx context.Context, in *struct {
	Key  string `header:"Idempotency-Key" doc:"A repeated request with the same key gets the same answer"`
	Body *api.SweepRequest
}) (*sweepOutput, error) {
	swept, err := s.broker.Sweep(ctx, orZero(in.Body).Note, signature(ctx, ""))
	if err != nil {
		return nil, err
	}
	return &sweepOutput{api.Sweep{Swept: orEmpty(swept)}}, nil
}

func (s *Server) sync(ctx context.Context, in *struct {
	Key  string `header:"Idempotency-Key" doc:"A repeated request with the same key gets the same answer"`
	Body *api.SyncRequest
}) (*syncOutput, error) {
	if err := s.unreached(); err != nil { // before Notion is asked for what could not be saved
		return nil, err
	}
	done, err := s.broker.Sync(ctx, orZero(in.Body).Full)
	if err != nil {
		return nil, err
	}
	done.Age = s.localAge(done.Age)
	return &syncOutput{done}, nil
}

func (s *Server) status(ctx context.Context, _ *struct{}) (*statusOutput, error) {
	status, err := s.broker.Status(ctx)
	if err != nil {
		return nil, err
	}
	if status.Cluster != nil {
		status.Cluster.Name = guest(ctx).Member
	}
	return &statusOutput{s.localStatus(status)}, nil
}

func (s *Server) logEntries(ctx context.Context, in *struct {
	Agent string `query:"agent" doc:"Only this agent's"`
	Task  string `query:"task" doc:"Only about this task"`
	Claim string `query:"claim" doc:"Only about this claim"`
	After string `query:"after" doc:"Only after the entry with this id; 00000000000000000000000000 stands before the first"`
	Limit int    `query:"limit" minimum:"0" doc:"The newest that many, or with after the first; 0 is a hundred"`
}) (*logOutput, error) {
	filter := api.LogFilter{Agent: in.Agent, After: in.After, Limit: in.Limit}
	var err error
	if in.Task != "" {
		if filter.Task, err = s.named(ctx, "query.task", in.Task); err != nil {
			return nil, err
		}
	}
	if in.Claim != "" {
		var ok bool
		if filter.Claim, ok = claim.ParseID(in.Claim); !ok {
			return nil, invalid("query.claim", fmt.Errorf("%q is not the id of a claim", in.Claim))
		}
	}
	events, err := s.broker.Log(ctx, filter)
	if err != nil {
		return nil, err
	}
	return &logOutput{api.Log{Entries: each(events, s.logEntryOf)}}, nil
}
