package notion

import (
	"context"
	"encoding/json"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/task"
)

// exchange travels in the context of a call of the library. It carries what the
// library has no words for: some of it along with the request, the rest back from the
// answer. It serves one request, and one goroutine.
type exchange struct {
	// only lists the ids of the properties that a query shall answer with; nil for all.
	only []string

	// fields lists the ids of further properties whose values the answer shall show.
	fields []string

	// verbatim is the id of a text that the answer to a page's reading shall give as it
	// is, in spans; empty for none.
	verbatim string

	// spans are those of that text, each as Notion sent it.
	spans []json.RawMessage
	// values are those of the fields, by their pages as the answer names them and by their ids.
	values map[string]map[string]any
	// moment is when the answer was made.
	moment transport.Moment
	// incomplete says why a query's answers end before its results do.
	incomplete string
	// columns is a database's schema, by the properties' names.
	columns map[string]Column
	// sources are a database's data sources, as far as the answer's version knows them.
	sources []Source
	// source is the data source that a page is in, as far as the answer's version knows it.
	source string
	// skipped are the rows of a query that are no pages, or show too little to be read.
	skipped []skipped
	// makers, if it is not nil, takes who made each page.
	makers map[string]string
	// truncated holds the relations of which the answer shows only a part.
	truncated map[relation]bool
}

// relation is one relation property of one page.
type relation struct{ page, property string }

// Column is a property of a database: the part of its schema that is used here.
type Column struct {
	ID   string
	Name string
	Type string
	// Options are the names of the options of a select, multi-select or status.
	Options []string
	// OptionIDs are the ids of options, by their names. Of a status it has those, too, that
	// tasks go by and that are not there any more, as they were known last.
	OptionIDs map[string]string `json:",omitempty"`
	// Database is the database that a relation relates to.
	Database string
}

type exchangeKey struct{}

// in returns a context that carries x.
func (x *exchange) in(ctx context.Context) context.Context {
	return transport.Timed(context.WithValue(ctx, exchangeKey{}, x), &x.moment)
}

// exchangeOf returns what the context carries, or an exchange that nobody reads.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return new(exchange)
}

// reading is a task that the answer showed.
func (x *exchange) reading(t task.Task) claim.Reading {
	return claim.Reading{Task: t, At: x.moment.At, Unsure: !x.moment.Sure}
}
