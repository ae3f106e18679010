// Package notion keeps claims, tasks and logs in Notion. It implements
// [dibs/internal/claim.Store] over the pages of a tasks database, reads that
// database for the local mirror, creates the entries of the log databases, and
// makes the databases themselves or adds what they lack.
//
// It speaks version 2022-06-28 of the API through github.com/jomei/notionapi. That
// version does not know of data sources; what concerns them is asked in version
// 2025-09-03. A server that does not take the old version is asked in that one, or in
// 2026-03-11. What the library gets wrong, or cannot do, is mended from outside, by two
// http.RoundTrippers below it. A request passes them in this order, and its answer in
// the reverse one:
//
//	repair     shapes requests and answers so that the library can carry them
//	source     asks a data source where one stands for its database, in the version that the
//	           server understands
//	transport  carries the request, see [dibs/internal/notion/transport]
//
// Repair and source lie outside the transport because they work once on a request, not
// once on each sending, and only on good answers. Source lies inside repair because
// repair, like the library, knows of databases only.
//
// Writes are sent at most once. Every error says whether the write that failed may have
// taken effect all the same, see claim.Landed.
//
// Properties are addressed by id, in the URL-encoded form in which Notion gives
// it. An id stays the same when somebody renames the property.
package notion
