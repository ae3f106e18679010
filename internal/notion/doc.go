// Package notion keeps claims, tasks and logs in Notion. It implements
// [dibs/internal/claim.Store] over the pages of a tasks database, reads that
// database for the local mirror, creates the entries of the log databases, and
// makes the databases themselves or adds what they lack.
//
// It speaks version 2022-06-28 of the API through github.com/jomei/notionapi, and of
// data sources, which that version does not know, version 2025-09-03.
// What that library gets wrong, or cannot do, is mended from outside, by a chain
// of http.RoundTrippers below it. A request passes them in this order, and its
// answer in the reverse one:
//
//	repair    shapes requests and answers so that the library can carry them
//	source    asks a data source where one stands for its database
//	retry     sends a failed read again, each time with its whole body
//	breaker   sends nothing while Notion is down
//	pace      waits for a permit; pauses everything when Notion asks for it
//	meter     counts and logs every request that is sent
//	typed     turns whatever is not a good answer into a typed error
//	clock     learns Notion's time from the Date header
//	baseURL   points the request at the configured server
//	redact    takes the token out of what comes back
//	send      one request, one whole answer, within the time limit
//
// The order follows from who needs to know what. Repair is outermost because it
// works once on a request, not once on each sending, and only on good answers; source
// lies right below it because everything above, the library included, knows of databases only.
// Retry lies outside pace so that every sending has a permit of its own and waits
// for a pause like any other request; the breaker lies between them so that it
// counts every sending, and what it refuses takes no permit. The time limit lies inside pace so that
// waiting in line does not count against it. Everything above typed sees good
// answers and typed errors only, and never a status code. The clock lies below
// typed because failed answers tell the time, too.
//
// Writes are sent at most once. Every error says whether the write that it ends
// may have taken effect all the same, see claim.Landed.
//
// Properties are addressed by id, in the URL-encoded form in which Notion gives
// it: an id survives when somebody renames the property.
package notion
