// Package cluster makes a daemon one of several that share a journal: it is the leader, which does
// the work, or a door to the leader.
//
// The database decides who leads, by its clock: a term ends unless it is renewed. A leader renews
// its term every two seconds. The journal refuses every write of a former leader. So safety does not
// depend on a leader noticing in time that its term is over; it only has to start again.
//
// Members talk to each other over TLS. Each publishes its certificate in the database, and trusts
// those that it finds there. So whoever may write to the database can be a member, and nobody else.
package cluster
