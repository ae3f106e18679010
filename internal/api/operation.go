package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"sync"

	"dibs/internal/task"
)

// Operation is an operation of the API, without the types of an Op. The table of operations
// determines the routes, their description, the client's requests, and what happens to a repeated
// request.
type Operation struct {
	Name, Method, Path, Summary string
	// Status is the answer's HTTP status; zero means 200.
	Status int
	// Found describes an answer of 200 instead of Status; empty if there is none.
	Found string
	// Owed says that an answer may be 202: accepted, and owed to Notion.
	Owed bool
	// Repeat says what a request gets that is repeated under its idempotency key.
	Repeat Repeat
	// Meter says what keeps one user's requests from filling the disk, or Notion's time; empty if
	// the operation writes nothing.
	Meter Meter
	// Large allows a request with the content of a page.
	Large bool
	// Changes marks the one GET that changes something.
	Changes bool
	// Sends describes a streamed answer of Outs; empty for any other answer.
	Sends string

	body, out reflect.Type // body is nil if a request has none
}

// Repeat says what a request gets that is repeated under its idempotency key.
type Repeat int

const (
	// Same: the first answer, or the present state of what the first request made.
	Same Repeat = iota
	// Made: Same, if something was made. A refused request made nothing, and its cause, such as an
	// unknown dependency, may pass.
	Made
	// Anew: the request is carried out again, and recognises by the key what it did before.
	Anew
)

// Meter is what bounds the requests of one user for an operation that writes.
type Meter string

const (
	// ByQuota: each request leaves work for Notion, or data on the disk, so each user has a quota
	// of them all.
	ByQuota Meter = "quota"
	// ByNotion: each request that stores something waits for Notion's answers. Refusals that do not
	// are counted in one entry.
	ByNotion Meter = "notion"
	// ByThing: a request changes or ends one thing that is there, such as a claim or a trigger, and
	// what made that is bounded. A task that is blocked, asked about or failed has to be reopened
	// before it is claimed again.
	ByThing Meter = "thing"
	// ByStore: the place where it is kept has a limit for each user: reservations, minted names, and
	// agents that poll, of whom a new one counts with the quota.
	ByStore Meter = "store"
	// ByOwner: only the daemon's user and root may ask.
	ByOwner Meter = "owner"
)

// Pattern returns the operation's pattern for http.ServeMux.
func (o *Operation) Pattern() string { return o.Method + " " + o.Path }

// Op is an operation with input In and answer Out. The fields of In are the parts of a request:
// Body is its body, Key its idempotency key; the others' tags say whether they are in the path or
// the query.
type Op[In, Out any] struct{ *Operation }

// table lists all operations.
var table []*Operation

// op adds an operation to the table.
func op[In, Out any](o Operation) Op[In, Out] {
	o.out = reflect.TypeFor[Out]()
	if in, ok := reflect.TypeFor[In]().FieldByName("Body"); ok {
		o.body = in.Type
	}
	table = append(table, &o)
	return Op[In, Out]{&o}
}

// Operations returns the table of operations.
func Operations() []*Operation { return slices.Clone(table) }

// routes maps requests to operations.
var routes = sync.OnceValue(func() *http.ServeMux {
	mux := http.NewServeMux()
	for _, o := range table {
		mux.Handle(o.Pattern(), route{o})
	}
	return mux
})

// route stands for an operation's handler.
type route struct{ *Operation }

func (route) ServeHTTP(http.ResponseWriter, *http.Request) {}

// OperationOf returns the operation of a request; an empty one if there is none.
func OperationOf(r *http.Request) *Operation {
	h, _ := routes().Handler(r)
	if found, ok := h.(route); ok {
		return found.Operation
	}
	return &Operation{}
}

// Outcome is an answer whose content determines its status.
type Outcome interface {
	// StatusOf returns the status of the answer to that operation; zero for the usual one.
	StatusOf(*Operation) int
}

// StatusOf is 202 for a pending change.
func (o Owed) StatusOf(op *Operation) int {
	if o.Pending && op.Owed {
		return http.StatusAccepted
	}
	return 0
}

// StatusOf is 202 for a comment that is not on the page yet.
func (c Commented) StatusOf(*Operation) int {
	if c.Owed {
		return http.StatusAccepted
	}
	return 0
}

// StatusOf distinguishes a new name from the session's old one.
func (m Minted) StatusOf(*Operation) int {
	if !m.Minted {
		return http.StatusOK
	}
	return 0
}

// On makes the input of an operation on a claim. id is the id of the claim or of its task, or
// OnlyClaim.
func On[Body any](id, key string, body Body) ClaimInput[Body] {
	return ClaimInput[Body]{ID: id, Key: key, Body: &body}
}

// OnTask makes the input of an operation on a task.
func OnTask[Body any](id task.ID, key string, body Body) TaskInput[Body] {
	return TaskInput[Body]{ID: string(id), Key: key, Body: body}
}

// Fit returns the body of a request as the operation wants it, see Fit.
func (o *Operation) Fit(body []byte) []byte { return Fit(body, o.body) }

// Canonical returns the body of a request, which fits, as this program would send it: bodies that
// mean the same are the same then, however their fields are ordered and their names are written.
// A body that the operation will refuse is returned unchanged.
func (o *Operation) Canonical(body []byte) []byte {
	if o.body == nil {
		return body
	}
	read := reflect.New(o.body)
	if decode(body, read.Interface()) != nil {
		return body
	}
	FormC(read)
	canonical, err := json.Marshal(read.Interface())
	if err != nil {
		return body // impossible: it was read
	}
	return canonical
}

// Answer returns the type of the answer.
func (o *Operation) Answer() reflect.Type { return o.out }
