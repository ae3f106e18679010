package server

import (
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
			Formats:                      map[string]huma.Format{"application/json": format, "json": format}, // and what ends in +json
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
	s.claimRoutes(own)
	s.aliveRoutes(own)
	s.taskRoutes(own)
	s.reopenRoutes(own)
	s.daemonRoutes(own)
	s.clusterRoutes(own)
	s.eventRoutes(own)
	s.inboxRoutes(own)
	s.nameRoutes(own)
	s.historyRoutes(own)
	s.reservationRoutes(own)
	s.addRoutes(own)

	// What huma would have answered with, had it not been for ownProblems.
	delete(schemas.Map(), "ErrorModel")
	delete(schemas.Map(), "ErrorDetail")
	// Written down when somebody first asks: that takes as long as all the rest here.
	description := sync.OnceValue(func() []byte {
		description, err := json.Marshal(own.OpenAPI())
		if err != nil {
			panic(err) // it is made of constants
		}
		return description
	})
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		w.Write(description())
	})
}

// published are the names of schemas that differ from those of the types. They are
// part of the contract.
var published = map[reflect.Type]string{
	reflect.TypeFor[api.Event]():    "FeedEvent",
	reflect.TypeFor[api.LogEntry](): "Event",
	reflect.TypeFor[api.Log]():      "Events",
}

func schemaName(t reflect.Type, hint string) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name, ok := published[t]; ok {
		return name
	}
	return huma.DefaultSchemaNamer(t, hint)
}

// operations is where operations are added.
type operations struct {
	huma.API
	server *Server
	failed *huma.Response
}

// add adds an operation. Its errors become problems. huma's limits are off,
// because withBody has read the body already; its time limit for that would cut
// off an operation that takes long.
func add[I, O any](o operations, op huma.Operation, handle func(context.Context, *I) (*O, error)) {
	op.BodyReadTimeout = -1
	op.MaxBodyBytes = -1
	if op.Responses == nil {
		op.Responses = make(map[string]*huma.Response)
	}
	op.Responses["default"] = o.failed
	counted := owing[op.Method+" "+op.Path]
	huma.Register(o.API, op, func(ctx context.Context, in *I) (*O, error) {
		if counted {
			if err := o.server.owe(ctx); err != nil {
				return nil, failure{o.server.problem(ctx, err)}
			}
		}
		out, err := handle(ctx, in)
		if err != nil {
			return nil, failure{o.server.problem(ctx, err)}
		}
		return out, nil
	})
}
