package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"

	"github.com/danielgtaylor/huma/v2"
)

// contract is the handlers of all operations, and the description of them.
type contract struct {
	handlers map[string]http.HandlerFunc // by pattern; they answer for the server in the request's context
	*huma.OpenAPI
	failed *huma.Response
}

// theContract is made once for all servers of the process: it takes longer than everything else at
// the start of a daemon.
var theContract = sync.OnceValue(func() *contract {
	schemas := huma.NewMapRegistry("#/components/schemas/", schemaName)
	schemas.RegisterTypeAlias(reflect.TypeFor[api.Time](), reflect.TypeFor[time.Time]())
	c := &contract{
		handlers: make(map[string]http.HandlerFunc),
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title:       "dibs",
				Description: "The socket of the dibs daemon. Times are RFC 3339 in UTC, by this machine's clock.",
			},
			Components: &huma.Components{Schemas: schemas},
		},
	}
	c.failed = c.response("Refused or failed, see code", api.ProblemType, reflect.TypeFor[api.Problem]())
	register(c)
	return c
})

// describe returns the description of the operations for a version of the program.
func (c *contract) describe(version string) []byte {
	described, info := *c.OpenAPI, *c.Info
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
func register(c *contract) {
	serve(c, api.OpClaim, Broker.Claim)
	serve(c, api.OpListClaims, Broker.ListClaims)
	serve(c, api.OpGetClaim, Broker.GetClaim)
	stream(c, api.OpKeepAlive, (*Server).keepAlive)
	change(c, api.OpRenew, Broker.Renew)
	change(c, api.OpComplete, Broker.Complete)
	change(c, api.OpReview, Broker.Review)
	change(c, api.OpRelease, Broker.Release)
	change(c, api.OpBlock, Broker.Block)
	change(c, api.OpFail, Broker.Fail)
	change(c, api.OpAsk, Broker.Ask)

	serve(c, api.OpListTasks, Broker.ListTasks)
	serve(c, api.OpGetTask, Broker.GetTask)
	serve(c, api.OpGetTaskContent, Broker.GetTaskContent)
	serve(c, api.OpAddTask, Broker.AddTask)
	serve(c, api.OpComment, Broker.Comment)
	serve(c, api.OpOffer, Broker.Offer)
	serve(c, api.OpAccept, Broker.Accept)
	serve(c, api.OpDecline, Broker.Decline)
	serve(c, api.OpReopen, Broker.Reopen)
	serve(c, api.OpReopenFailed, Broker.ReopenFailed)

	serve(c, api.OpPoll, Broker.Poll)
	serve(c, api.OpAck, Broker.Ack)
	serve(c, api.OpAckAny, Broker.AckAny)
	serve(c, api.OpSend, Broker.Send)
	serve(c, api.OpMint, Broker.Mint)
	serve(c, api.OpGetAgent, Broker.GetAgent)
	serve(c, api.OpListAgents, Broker.ListAgents)

	serve(c, api.OpReserve, Broker.Reserve)
	serve(c, api.OpReservations, Broker.Reservations)
	serve(c, api.OpUnreserve, Broker.Unreserve)
	serve(c, api.OpCheck, Broker.Check)

	stream(c, api.OpEvents, (*Server).stream)
	serve(c, api.OpLog, Broker.Log)
	serve(c, api.OpStory, Broker.Story)
	serve(c, api.OpReport, Broker.Report)
	serve(c, api.OpPause, Broker.Pause)
	serve(c, api.OpResume, Broker.Resume)
	serve(c, api.OpSweep, Broker.Sweep)
	serve(c, api.OpSync, Broker.Sync)
	serve(c, api.OpStatus, Broker.Status)
	serve(c, api.OpWebhook, Broker.Webhook)
	serve(c, api.OpRenewWebhook, Broker.RenewWebhook)
	serve(c, api.OpCluster, Broker.Cluster)
	serve(c, api.OpAdoptCluster, Broker.AdoptCluster)
	serve(c, api.OpAccess, Broker.Access)
	serve(c, api.OpNewToken, Broker.NewToken)
	serve(c, api.OpTokens, Broker.Tokens)
	serve(c, api.OpRevokeToken, Broker.RevokeToken)
}

// serve answers an operation with the result of a method of the broker.
func serve[In, Out any](c *contract, op api.Op[In, Out], answer func(Broker, context.Context, broker.Caller, *In) (Out, error)) {
	usual := cmp.Or(op.Status, http.StatusOK)
	responses := map[string]*huma.Response{strconv.Itoa(usual): c.response(http.StatusText(usual), "application/json", op.Answer())}
	if op.Found != "" {
		responses["200"] = c.response(op.Found, "application/json", op.Answer())
	}
	if op.Owed {
		responses["202"] = c.response("Accepted, and owed to Notion", "application/json", op.Answer())
	}
	c.add(op.Operation, reflect.TypeFor[In](), responses, func(s *Server, ctx context.Context, who broker.Caller, in any) (http.HandlerFunc, error) {
		out, err := answer(s.broker, ctx, who, in.(*In))
		if err != nil {
			return nil, err
		}
		status := usual
		if so, ok := any(out).(api.Outcome); ok {
			status = cmp.Or(so.StatusOf(op.Operation), usual)
		}
		return func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, status, out) }, nil
	})
}

// stream is serve for an operation that answers with a stream.
func stream[In, Out any](c *contract, op api.Op[In, Out], answer func(*Server, context.Context, broker.Caller, *In) (http.HandlerFunc, error)) {
	responses := map[string]*huma.Response{"200": c.response(op.Sends, api.EventStream, op.Answer())}
	c.add(op.Operation, reflect.TypeFor[In](), responses, func(s *Server, ctx context.Context, who broker.Caller, in any) (http.HandlerFunc, error) {
		return answer(s, ctx, who, in.(*In))
	})
}

// response describes an answer.
func (c *contract) response(what, media string, body reflect.Type) *huma.Response {
	return &huma.Response{Description: what, Content: map[string]*huma.MediaType{
		media: {Schema: c.Components.Schemas.Schema(body, true, body.Name())},
	}}
}

// add adds an operation with an input of that type. answer returns what writes the answer.
func (c *contract) add(op *api.Operation, of reflect.Type, responses map[string]*huma.Response, answer func(*Server, context.Context, broker.Caller, any) (http.HandlerFunc, error)) {
	input := newInput(of, c.Components.Schemas)
	described := &huma.Operation{OperationID: op.Name, Method: op.Method, Path: op.Path, Summary: op.Summary, RequestBody: input.body, Responses: responses}
	for _, p := range input.parts {
		described.Parameters = append(described.Parameters, p.Param)
	}
	responses["default"] = c.failed
	c.AddOperation(described)
	c.handlers[op.Pattern()] = func(w http.ResponseWriter, r *http.Request) {
		in, wrong := input.read(r)
		if wrong != nil {
			writeProblem(w, wrong)
			return
		}
		ctx := r.Context()
		s := ctx.Value(serving{}).(*Server)
		var who broker.Caller
		var write http.HandlerFunc
		var err error
		if op.Meter == api.ByQuota {
			err = s.charge(ctx)
		}
		if err == nil {
			api.FormC(reflect.ValueOf(in))
			who, err = s.admit(ctx, in)
		}
		if err == nil {
			write, err = answer(s, ctx, who, in)
		}
		if err != nil {
			writeProblem(w, s.problem(ctx, err))
			return
		}
		write(w, r)
	}
}

// spender is the body of a change of a claim.
type spender interface{ Spent() claim.Usage }

// change is serve for a change of a claim: it looks the claim up only once, so that the very claim is
// changed that the caller may change, and notes what was used for it.
func change[Body spender](c *contract, op api.Op[api.ClaimInput[Body], api.Claim], answer func(Broker, context.Context, broker.Caller, *api.ClaimInput[Body]) (api.Claim, error)) {
	serve(c, op, func(b Broker, ctx context.Context, who broker.Caller, in *api.ClaimInput[Body]) (api.Claim, error) {
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
		changed, err := answer(b, ctx, who, in)
		lost, ok := errors.AsType[*claim.Lost](err)
		switch {
		case ok && id == api.OnlyClaim:
			return api.Claim{}, notMeant(b, agent, lost)
		case ok && !spent.None():
			over := *lost
			over.Detail += "; what was used for it is counted"
			err = &over
		}
		return changed, err
	})
}
