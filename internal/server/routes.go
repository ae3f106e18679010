package server

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"sync"
	"time"

	"dibs/internal/api"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// routes adds every operation to the mux, and their description at /openapi.json.
func (s *Server) routes(mux *http.ServeMux, version string) {
	schemas := huma.NewMapRegistry("#/components/schemas/", schemaName)
	schemas.RegisterTypeAlias(reflect.TypeFor[api.Time](), reflect.TypeFor[time.Time]())
	format := huma.Format{Marshal: encode, Unmarshal: json.Unmarshal}
	own := operations{
		API: humago.New(mux, huma.Config{
			OpenAPI: &huma.OpenAPI{
				OpenAPI: "3.1.0",
				Info: &huma.Info{
					Title:       "dibs",
					Version:     version,
					Description: "The socket of the dibs daemon. Times are RFC 3339 in UTC, by this machine's clock.",
				},
				Components: &huma.Components{Schemas: schemas},
			},
			Formats:                      map[string]huma.Format{"application/json": format, "json": format}, // and every type that ends in +json
			DefaultFormat:                "application/json",
			RejectUnknownQueryParameters: true,
			Transformers:                 []huma.Transformer{ownProblems},
		}),
		server: s,
		failed: &huma.Response{
			Description: "Refused or failed, see code",
			Content: map[string]*huma.MediaType{
				api.ProblemType: {Schema: schemas.Schema(reflect.TypeFor[api.Problem](), true, "Problem")},
			},
		},
	}
	s.register(own)

	// Types that huma would use without ownProblems.
	delete(schemas.Map(), "ErrorModel")
	delete(schemas.Map(), "ErrorDetail")
	// Made at the first request, as it takes as long as everything else here.
	description := sync.OnceValue(func() []byte {
		description, err := json.Marshal(own.OpenAPI())
		if err != nil {
			panic(err) // constants only
		}
		return description
	})
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		w.Write(description())
	})
}

// schemaNames are the names of schemas that differ from their types' names. They are part of the
// contract.
var schemaNames = map[reflect.Type]string{
	reflect.TypeFor[api.Event]():    "FeedEvent",
	reflect.TypeFor[api.LogEntry](): "Event",
	reflect.TypeFor[api.Log]():      "Events",
}

func schemaName(t reflect.Type, hint string) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name, ok := schemaNames[t]; ok {
		return name
	}
	return huma.DefaultSchemaNamer(t, hint)
}

// register connects each operation with its handler.
func (s *Server) register(o operations) {
	serve(o, api.OpClaim, s.claim)
	serve(o, api.OpListClaims, s.claims)
	serve(o, api.OpGetClaim, s.lookup)
	stream(o, api.OpKeepAlive, s.keepAlive)
	serve(o, api.OpRenew, s.renew)
	serve(o, api.OpComplete, s.complete)
	serve(o, api.OpReview, s.review)
	serve(o, api.OpRelease, s.release)
	serve(o, api.OpBlock, s.block)
	serve(o, api.OpFail, s.fail)
	serve(o, api.OpAsk, s.ask)

	serve(o, api.OpListTasks, s.tasks)
	serve(o, api.OpGetTask, s.task)
	serve(o, api.OpGetTaskContent, s.content)
	serve(o, api.OpAddTask, s.add)
	serve(o, api.OpComment, s.comment)
	serve(o, api.OpOffer, s.offer)
	serve(o, api.OpAccept, s.accept)
	serve(o, api.OpDecline, s.decline)
	serve(o, api.OpReopen, s.reopen)

	serve(o, api.OpPoll, s.poll)
	serve(o, api.OpAck, s.ack)
	serve(o, api.OpAckAny, s.ackAny)
	serve(o, api.OpSend, s.message)
	serve(o, api.OpMint, s.mint)
	serve(o, api.OpGetAgent, s.agent)
	serve(o, api.OpListAgents, s.agents)

	serve(o, api.OpReserve, s.reserve)
	serve(o, api.OpReservations, s.reservations)
	serve(o, api.OpUnreserve, s.unreserve)
	serve(o, api.OpCheck, s.check)

	stream(o, api.OpEvents, s.stream)
	serve(o, api.OpLog, s.logEntries)
	serve(o, api.OpStory, s.story)
	serve(o, api.OpReport, s.report)
	serve(o, api.OpHistory, s.history)
	serve(o, api.OpPause, s.pause)
	serve(o, api.OpResume, s.endPause)
	serve(o, api.OpSweep, s.sweep)
	serve(o, api.OpSync, s.sync)
	serve(o, api.OpStatus, s.status)
	serve(o, api.OpWebhook, s.webhook)
	serve(o, api.OpRenewWebhook, s.renewWebhook)
	serve(o, api.OpCluster, s.cluster)
	serve(o, api.OpAdoptCluster, s.adoptCluster)
}

// operations is the API to which operations are added.
type operations struct {
	huma.API
	server *Server
	failed *huma.Response
}

// answer is the answer to an operation.
type answer[Out any] struct {
	Status int
	Body   Out
}

// serve answers an operation with the result of handle.
func serve[In, Out any](o operations, op api.Op[In, Out], handle func(context.Context, *In) (Out, error)) {
	described := o.describe(op.Operation)
	status := cmp.Or(op.Status, http.StatusOK)
	if op.Owed {
		described.Responses["202"] = o.response("Accepted, and owed to Notion", "application/json", op.Answer())
	}
	add(o, op.Operation, described, func(ctx context.Context, in *In) (*answer[Out], error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, err
		}
		if so, ok := any(out).(api.Outcome); ok {
			return &answer[Out]{cmp.Or(so.StatusOf(op.Operation), status), out}, nil
		}
		return &answer[Out]{status, out}, nil
	})
}

// stream is serve for an operation that answers with a stream.
func stream[In, Out any](o operations, op api.Op[In, Out], handle func(context.Context, *In) (*huma.StreamResponse, error)) {
	described := o.describe(op.Operation)
	described.Responses["200"] = o.response(op.Sends, api.EventStream, op.Answer())
	add(o, op.Operation, described, handle)
}

// describe describes an operation to huma. Huma's limits are off: withBody has read the body
// already, and huma's time limit would cut off a long operation.
func (o operations) describe(op *api.Operation) huma.Operation {
	return huma.Operation{
		OperationID: op.Name, Method: op.Method, Path: op.Path, Summary: op.Summary, DefaultStatus: op.Status,
		BodyReadTimeout: -1, MaxBodyBytes: -1,
		Responses: map[string]*huma.Response{"default": o.failed},
	}
}

// response describes an answer.
func (o operations) response(what, media string, body reflect.Type) *huma.Response {
	return &huma.Response{Description: what, Content: map[string]*huma.MediaType{
		media: {Schema: o.OpenAPI().Components.Schemas.Schema(body, true, body.Name())},
	}}
}

// add adds an operation. Its errors become problems.
func add[In, Out any](o operations, op *api.Operation, described huma.Operation, handle func(context.Context, *In) (*Out, error)) {
	huma.Register(o.API, described, func(ctx context.Context, in *In) (*Out, error) {
		var out *Out
		var err error
		if op.Metered {
			err = o.server.charge(ctx)
		}
		if err == nil {
			out, err = handle(ctx, in)
		}
		if err != nil {
			return nil, failure{o.server.problem(ctx, err)}
		}
		return out, nil
	})
}
