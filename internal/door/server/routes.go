package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// contract is the handlers of all operations, and the description of them.
type contract struct {
	handlers map[string]http.HandlerFunc // by pattern; they answer for the server in the request's context
	api      huma.API
}

// HandleFunc adds a handler.
func (c *contract) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	c.handlers[pattern] = handler
}

// ServeHTTP makes a contract a mux to huma. The mux of each server is what answers.
func (c *contract) ServeHTTP(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }

// theContract is made once for all servers of the process: it takes longer than everything else at
// the start of a daemon.
var theContract = sync.OnceValue(func() *contract {
	c := &contract{handlers: make(map[string]http.HandlerFunc)}
	schemas := huma.NewMapRegistry("#/components/schemas/", schemaName)
	schemas.RegisterTypeAlias(reflect.TypeFor[api.Time](), reflect.TypeFor[time.Time]())
	format := huma.Format{Marshal: encode, Unmarshal: unmarshal}
	c.api = humago.New(c, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title:       "dibs",
				Description: "The socket of the dibs daemon. Times are RFC 3339 in UTC, by this machine's clock.",
			},
			Components: &huma.Components{Schemas: schemas},
		},
		Formats:                      map[string]huma.Format{"application/json": format, "json": format}, // and every type that ends in +json
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{ownProblems},
	})
	register(operations{
		API: c.api,
		failed: &huma.Response{
			Description: "Refused or failed, see code",
			Content: map[string]*huma.MediaType{
				api.ProblemType: {Schema: schemas.Schema(reflect.TypeFor[api.Problem](), true, "Problem")},
			},
		},
	})

	// Types that huma would use without ownProblems.
	delete(schemas.Map(), "ErrorModel")
	delete(schemas.Map(), "ErrorDetail")
	return c
})

// unmarshal is json.Unmarshal. What huma lets pass may still not fit, such as a number that is too
// large; the error does not name our types.
func unmarshal(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s: the %s does not fit", wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:], wrong.Value)
	}
	return err
}

// describe returns the description of the operations for a version of the program.
func (c *contract) describe(version string) []byte {
	described, info := *c.api.OpenAPI(), *c.api.OpenAPI().Info
	info.Version = version
	described.Info = &info
	text, err := json.Marshal(&described)
	if err != nil {
		panic(err) // constants only
	}
	return text
}

// routes adds every operation to the mux, and their description at /openapi.json.
func routes(mux *http.ServeMux, version string) {
	c := theContract()
	for pattern, handler := range c.handlers {
		mux.HandleFunc(pattern, handler)
	}
	// Made at the first request, as it takes long.
	description := sync.OnceValue(func() []byte { return c.describe(version) })
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
func register(o operations) {
	serve(o, api.OpClaim, Broker.Claim)
	serve(o, api.OpListClaims, Broker.ListClaims)
	serve(o, api.OpGetClaim, Broker.GetClaim)
	stream(o, api.OpKeepAlive, (*Server).keepAlive)
	change(o, api.OpRenew, Broker.Renew)
	change(o, api.OpComplete, Broker.Complete)
	change(o, api.OpReview, Broker.Review)
	change(o, api.OpRelease, Broker.Release)
	change(o, api.OpBlock, Broker.Block)
	change(o, api.OpFail, Broker.Fail)
	change(o, api.OpAsk, Broker.Ask)

	serve(o, api.OpListTasks, Broker.ListTasks)
	serve(o, api.OpGetTask, Broker.GetTask)
	serve(o, api.OpGetTaskContent, Broker.GetTaskContent)
	serve(o, api.OpAddTask, Broker.AddTask)
	serve(o, api.OpComment, Broker.Comment)
	serve(o, api.OpOffer, Broker.Offer)
	serve(o, api.OpAccept, Broker.Accept)
	serve(o, api.OpDecline, Broker.Decline)
	serve(o, api.OpReopen, Broker.Reopen)
	serve(o, api.OpReopenFailed, Broker.ReopenFailed)

	serve(o, api.OpPoll, Broker.Poll)
	serve(o, api.OpAck, Broker.Ack)
	serve(o, api.OpAckAny, Broker.AckAny)
	serve(o, api.OpSend, Broker.Send)
	serve(o, api.OpMint, Broker.Mint)
	serve(o, api.OpGetAgent, Broker.GetAgent)
	serve(o, api.OpListAgents, Broker.ListAgents)

	serve(o, api.OpReserve, Broker.Reserve)
	serve(o, api.OpReservations, Broker.Reservations)
	serve(o, api.OpUnreserve, Broker.Unreserve)
	serve(o, api.OpCheck, Broker.Check)

	stream(o, api.OpEvents, (*Server).stream)
	serve(o, api.OpLog, Broker.Log)
	serve(o, api.OpStory, Broker.Story)
	serve(o, api.OpReport, Broker.Report)
	serve(o, api.OpPause, Broker.Pause)
	serve(o, api.OpResume, Broker.Resume)
	serve(o, api.OpSweep, Broker.Sweep)
	serve(o, api.OpSync, Broker.Sync)
	serve(o, api.OpStatus, Broker.Status)
	serve(o, api.OpWebhook, Broker.Webhook)
	serve(o, api.OpRenewWebhook, Broker.RenewWebhook)
	serve(o, api.OpCluster, Broker.Cluster)
	serve(o, api.OpAdoptCluster, Broker.AdoptCluster)
	serve(o, api.OpAccess, Broker.Access)
	serve(o, api.OpNewToken, Broker.NewToken)
	serve(o, api.OpTokens, Broker.Tokens)
	serve(o, api.OpRevokeToken, Broker.RevokeToken)
}

// operations is the API to which operations are added.
type operations struct {
	huma.API
	failed *huma.Response
}

// serve answers an operation with the result of a method of the broker.
func serve[In, Out any](o operations, op api.Op[In, Out], answer func(Broker, context.Context, broker.Caller, *In) (Out, error)) {
	described := o.describe(op.Operation)
	status := cmp.Or(op.Status, http.StatusOK)
	if op.Found != "" {
		described.Responses["200"] = o.response(op.Found, "application/json", op.Answer())
	}
	if op.Owed {
		described.Responses["202"] = o.response("Accepted, and owed to Notion", "application/json", op.Answer())
	}
	add(o, op.Operation, described, func(s *Server, ctx context.Context, who broker.Caller, in *In) (*answered[Out], error) {
		out, err := answer(s.broker, ctx, who, in)
		if err != nil {
			return nil, err
		}
		if so, ok := any(out).(api.Outcome); ok {
			return &answered[Out]{cmp.Or(so.StatusOf(op.Operation), status), out}, nil
		}
		return &answered[Out]{status, out}, nil
	})
}

// answered is the answer to an operation.
type answered[Out any] struct {
	Status int
	Body   Out
}

// stream is serve for an operation that answers with a stream.
func stream[In, Out any](o operations, op api.Op[In, Out], answer func(*Server, context.Context, broker.Caller, *In) (*huma.StreamResponse, error)) {
	described := o.describe(op.Operation)
	described.Responses["200"] = o.response(op.Sends, api.EventStream, op.Answer())
	add(o, op.Operation, described, answer)
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
func add[In, Out any](o operations, op *api.Operation, described huma.Operation, answer func(*Server, context.Context, broker.Caller, *In) (*Out, error)) {
	huma.Register(o.API, described, func(ctx context.Context, in *In) (*Out, error) {
		s := ctx.Value(serving{}).(*Server)
		var who broker.Caller
		var out *Out
		var err error
		if op.Meter == api.ByQuota {
			err = s.charge(ctx)
		}
		if err == nil {
			api.FormC(reflect.ValueOf(in))
			who, err = s.admit(ctx, in)
		}
		if err == nil {
			out, err = answer(s, ctx, who, in)
		}
		if err != nil {
			return nil, failure{s.problem(ctx, err)}
		}
		return out, nil
	})
}

// spender is the body of a change of a claim.
type spender interface{ Spent() claim.Usage }

// change is serve for a change of a claim: it looks the claim up only once, so that the very claim is
// changed that the caller may change, and notes what was used for it.
func change[Body spender](o operations, op api.Op[api.ClaimInput[Body], api.Claim], answer func(Broker, context.Context, broker.Caller, *api.ClaimInput[Body]) (api.Claim, error)) {
	serve(o, op, func(b Broker, ctx context.Context, who broker.Caller, in *api.ClaimInput[Body]) (api.Claim, error) {
		if in.Body == nil {
			in.Body = new(Body)
		}
		id, agent := in.ID, api.PartsOf(in).Owner
		found, err := owned(ctx, b, who, id, agent)
		if err != nil {
			return api.Claim{}, err
		}
		in.ID = string(found.ID)
		spent := (*in.Body).Spent()
		if id == api.OnlyClaim && found.Outcome != "" && len(b.Claims(agent).Claims) > 0 {
			spent = claim.Usage{} // it may be another claim's
		}
		if err := b.Spend(ctx, found.ID, spent); err != nil {
			return api.Claim{}, err
		}
		c, err := answer(b, ctx, who, in)
		lost, ok := errors.AsType[*claim.Lost](err)
		switch {
		case ok && id == api.OnlyClaim:
			return api.Claim{}, notMeant(b, agent, lost)
		case ok && !spent.None():
			over := *lost
			over.Detail += "; what was used for it is counted"
			err = &over
		}
		return c, err
	})
}
