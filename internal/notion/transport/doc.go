// Package transport carries requests to Notion, and answers back. It knows how to reach
// Notion, how fast it may be asked, and what its failures mean, but not what the requests
// are about.
//
// It is a chain of small http.RoundTrippers. A request passes them in this order, and
// its answer in the reverse one:
//
//	retry     sends a failed read again, and requests of Making that were refused for now
//	breaker   sends nothing while Notion is down
//	pace      waits for a permit; pauses everything when Notion asks for that
//	measured  counts and logs every request that is sent
//	typed     turns everything but a good answer into a typed error
//	hear      learns Notion's time from the Date header, and when the answer was made
//	baseURL   points the request at the configured server
//	redact    removes the token from everything that comes back
//	send      one request, one whole answer, within the time limit
//
// The order has reasons:
//
//   - Retry lies outside pace, so every sending takes its own permit and waits for the end
//     of a pause like any other request.
//   - The breaker lies between the two. It sees every sending, and what it refuses
//     takes no permit.
//   - The time limit of send lies inside pace. Waiting in line does not count against it.
//   - Everything outside typed sees good answers and typed errors only, never a status
//     code.
//   - The clock lies inside typed, because failed answers tell the time, too.
//
// Writes are sent at most once. The exception is a request of Making that Notion would not
// take for now. Every error says whether the failed write may have taken effect all the
// same, see claim.Landed.
//
// # Permits
//
// Notion limits the requests in a minute. A request waits for a permit in one of three
// lanes, see Lane; permits.first decides who is next. Requests that belong together take their permits together,
// see Transport.Permit.
//
// When Notion asks for a pause, nothing is sent until it ends. How long a request waits
// for that end depends on who made it:
//
//   - A write does not wait. A claim's write must follow its read at once, so its caller
//     must start over with the read. No read precedes a log entry, which waits, or a new
//     task, which waits like a read, see Making.
//   - A read waits for the end of every pause, unless its context says otherwise, see
//     Patient.
//   - Reads with permits taken together wait a few seconds at most, because an agent is
//     waiting for them.
//
// That time runs from the caller's request to the last sending, over all tries and all
// pauses: a caller that waited for one pause and meets another does not wait as long again.
package transport
