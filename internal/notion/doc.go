// Package notion keeps claims, tasks and logs in Notion. It implements
// [dibs/internal/claim.Store] over the pages of a tasks database, reads that
// database for the local mirror, creates the entries of the log databases, and
// makes the databases themselves or adds what they lack.
//
// It speaks one version of the API, [dibs/internal/notion/transport.Version], through
// github.com/jomei/notionapi, which knows an older one. Each call has a client of the library to
// itself, whose http.RoundTripper is a tap (call.go). The tap turns the request into one of today's
// version, in which a data source has the schema and the rows of a database. It decodes the answer in
// the library's place, straight into the value that the caller gave: properties never pass through
// the library, nor through a context. Below it, the transport carries all requests, see
// [dibs/internal/notion/transport].
//
// A database's data source is found once, see Client.Sources: the one that the configuration names,
// or else the only one.
//
// Writes are sent at most once. Every error says whether the write that failed may have
// taken effect all the same, see claim.Landed.
//
// Properties are addressed by id, in the URL-encoded form in which Notion gives
// it. An id stays the same when somebody renames the property.
package notion
