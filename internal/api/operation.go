package api

import (
	"net/http"
	"reflect"
	"slices"
	"sync"

	"dibs/internal/task"
)

// Operation is what can be asked of the daemon, but for the types of an Op. From the table of them
// come the routes, their description, what a client sends, and what becomes of a request that is
// repeated.
type Operation struct {
	Name, Method, Path, Summary string
	// Status is that of an answer; zero is 200.
	Status int
	// Owed says that an answer may be 202: accepted, and owed to Notion.
	Owed bool
	// Repeat says what a request gets that is repeated under its idempotency key.
	Repeat Repeat
	// Metered operations leave something for Notion, or on the disk, however often they are
	// asked for: how often a user may ask for them is limited. What ends a claim is none of them:
	// a task that is blocked, asked about or failed is claimed again only once it is reopened,
	// which is, and whoever gives tasks back to claim them anew has to wait for Notion's answers
	// each time.
	Metered bool
	// Large says that the request may have the content of a page in it.
	Large bool
	// Changes marks the one GET that changes something.
	Changes bool
	// Sends describes an answer that is a stream of Outs; empty for any other answer.
	Sends string

	out reflect.Type
}

// Repeat says what a request gets that is repeated under its idempotency key.
type Repeat int

const (
	// Same: what was answered, or what became of what it made.
	Same Repeat = iota
	// Made: the same if something was made. One that is refused has made nothing, and what was
	// amiss, such as a dependency that is not known yet, may pass.
	Made
	// Anew: it is carried out again, and knows itself by the key what it did before.
	Anew
)

// Pattern is how an http.ServeMux names the operation.
func (o *Operation) Pattern() string { return o.Method + " " + o.Path }

// Op is an operation that takes an In and answers with an Out. The fields of an In are the parts
// of a request: Body is its body, Key its idempotency key, and of the others the tag says whether
// they stand in the path or in the query.
type Op[In, Out any] struct{ *Operation }

// table has all operations.
var table []*Operation

// op adds an operation to the table.
func op[In, Out any](o Operation) Op[In, Out] {
	o.out = reflect.TypeFor[Out]()
	table = append(table, &o)
	return Op[In, Out]{&o}
}

// Operations returns the table of operations.
func Operations() []*Operation { return slices.Clone(table) }

// routes finds operations.
var routes = sync.OnceValue(func() *http.ServeMux {
	mux := http.NewServeMux()
	for _, o := range table {
		mux.Handle(o.Pattern(), route{o})
	}
	return mux
})

// route is an operation in the place of its handler.
type route struct{ *Operation }

func (route) ServeHTTP(http.ResponseWriter, *http.Request) {}

// OperationOf returns which operation a request asks for; an empty one for none.
func OperationOf(r *http.Request) *Operation {
	h, _ := routes().Handler(r)
	if found, ok := h.(route); ok {
		return found.Operation
	}
	return &Operation{}
}

// Outcome is an answer whose status depends on what it says.
type Outcome interface {
	// StatusOf returns the status of the answer to that operation; zero for the usual one.
	StatusOf(*Operation) int
}

// StatusOf says that what is pending was accepted.
func (o Owed) StatusOf(op *Operation) int {
	if o.Pending && op.Owed {
		return http.StatusAccepted
	}
	return 0
}

// StatusOf says that a comment was accepted which is not on the page yet.
func (c Commented) StatusOf(*Operation) int {
	if c.Owed {
		return http.StatusAccepted
	}
	return 0
}

// StatusOf tells a name that is new from one that the session had.
func (m Minted) StatusOf(*Operation) int {
	if !m.Minted {
		return http.StatusOK
	}
	return 0
}

// On is what is asked of a claim. ID is the id of the claim or of its task, or OnlyClaim.
func On[Body any](id, key string, body Body) ClaimInput[Body] {
	return ClaimInput[Body]{ID: id, Key: key, Body: &body}
}

// OnTask is what is asked of a task.
func OnTask[Body any](id task.ID, key string, body Body) TaskInput[Body] {
	return TaskInput[Body]{ID: string(id), Key: key, Body: body}
}

// Answer is the type of what is answered.
func (o *Operation) Answer() reflect.Type { return o.out }
