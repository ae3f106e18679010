package notion

import (
	"context"
	"encoding/json"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// exchange travels in the context of a library call. It carries what the library cannot express:
// some with the request, the rest back from the answer. It serves one request and one goroutine.
type exchange struct {
	// only lists the properties, by id, that a query shall return; nil for all.
	only []string

	// fields lists further properties, by id, whose values shall be returned.
	fields []string

	// verbatim is the id of a text property that a page's answer shall return unchanged, in spans;
	// empty for none.
	verbatim string

	// spans are the spans of that text, each as Notion sent it.
	spans []json.RawMessage
	// values are the values of fields, by the page's id in the answer and the property's id.
	values map[string]map[string]any
	// moment is when the answer was made.
	moment transport.Moment
	// properties are the properties of each page in the answer, by the page's id there. See complete.
	properties map[string]notionapi.Properties
	// incomplete says why a query's results are incomplete.
	incomplete string
	// columns is a database's schema, by the properties' names.
	columns map[string]Column
	// sources are a database's data sources, if the answer's version has them.
	sources []Source
	// source is a page's data source, if the answer's version has it.
	source string
	// skipped are rows of a query that are no pages, or lack too much to be read.
	skipped []skipped
	// makers, if not nil, collects the creator of each page.
	makers map[string]string
	// truncated lists the relations that the answer shows incompletely.
	truncated map[relation]bool
}

// relation is one relation property of one page.
type relation struct{ page, property string }

// Column is a property of a database, with the part of its schema that is used here.
type Column struct {
	ID   string
	Name string
	Type string
	// Options are the names of the options of a select, multi-select or status.
	Options []string
	// OptionIDs are the ids of options, by their names. For a status they include former options
	// that tasks still use, as last known.
	OptionIDs map[string]string `json:",omitempty"`
	// Database is the database that a relation relates to.
	Database string
}

type exchangeKey struct{}

// in returns a context that carries x.
func (x *exchange) in(ctx context.Context) context.Context {
	return transport.Timed(context.WithValue(ctx, exchangeKey{}, x), &x.moment)
}

// exchangeOf returns the exchange in a context, or one that nobody reads.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return new(exchange)
}

// complete gives a page of the answer its properties, which the library does not get.
func (x *exchange) complete(page *notionapi.Page) { page.Properties = x.properties[page.ID.String()] }

// completeAll is complete for all pages of the answer to a query.
func (x *exchange) completeAll(answer *notionapi.DatabaseQueryResponse) {
	for i := range answer.Results {
		x.complete(&answer.Results[i])
	}
}

// reading returns a task of the answer with the answer's time.
func (x *exchange) reading(t task.Task) claim.Reading {
	return claim.Reading{Task: t, At: x.moment.At, Unsure: !x.moment.Sure}
}
