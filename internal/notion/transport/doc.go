// Package transport carries requests to Notion, and answers back. It knows how to
// reach Notion, how fast it may be asked, and what its failures mean. It does not know
// what the requests are about.
//
// It is a chain of small http.RoundTrippers. A request passes them in this order, and
// its answer in the reverse one:
//
//	retry     sends a failed read again, each time with its whole body; and what Making says
//	breaker   sends nothing while Notion is down
//	pace      waits for a permit; pauses everything when Notion asks for it
//	measured  counts and logs every request that is sent
//	typed     turns whatever is not a good answer into a typed error
//	hear      learns Notion's time from the Date header
//	baseURL   points the request at the configured server
//	redact    takes the token out of what comes back
//	send      one request, one whole answer, within the time limit
//
// The order has reasons:
//
//   - Retry lies outside pace, so that every sending takes a permit of its own and waits
//     for the end of a pause like any other request.
//   - The breaker lies between the two. It sees every sending, and what it refuses
//     takes no permit.
//   - The time limit of send lies inside pace. Waiting in line does not count against it.
//   - Everything outside typed sees good answers and typed errors only, never a status
//     code.
//   - The clock lies inside typed, because failed answers tell the time, too.
//
// Writes are sent at most once, unless Notion answered that it would not take one for now,
// see Making. Every error says whether the write that failed may have
// taken effect all the same, see claim.Landed.
//
// # Permits
//
// Notion allows a number of requests in a minute. A request waits for a permit in one
// of three lanes, see Lane. Requests that belong together take their permits together,
// see Transport.Permit.
//
// When Notion asks for a pause, nothing is sent until it ends. How long a request waits
// for that end depends on who made it:
//
//   - A write does not wait. A claim's write must follow its read at once, so whoever
//     made it has to start over with the read. Nothing has to come before the entry of a
//     log, which waits, nor before a task that is made, which waits like a read, see Making.
//   - A read waits for the end of every pause, unless its context says otherwise, see
//     Patient.
//   - Reads with permits taken together wait for a few seconds at most, because an
//     agent is waiting for them.
//
// That time counts from the moment the caller asks until the last sending, over all
// tries and all pauses: whoever has waited for the end of one pause and then meets
// another is not made to wait as long again.
package transport
