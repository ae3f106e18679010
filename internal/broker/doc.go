// Package broker answers the requests of agents and people at this machine: it gets and ends
// claims, and shows tasks, inboxes and the state of the queue. It joins the claim protocol, the
// mirror and the journal. Requests bear Notion's time. Answers are in the types of package api,
// with this machine's time; Problem converts errors. Questions and waiting cost no requests to
// Notion, except for a page's text.
//
// Where it is decided: who may act under a name, Broker.Authorize (names.go); what a waiting claim
// waits for and for how long, Broker.get (claim.go); which task is next, Broker.pick (next.go);
// which tasks are ready, package ready; what an agent is not offered again, losses.go.
package broker
