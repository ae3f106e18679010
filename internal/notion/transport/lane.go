package transport

import "context"

// Lane is the line in which a request waits for its permit.
type Lane int

// The lanes, the most urgent first.
const (
	LaneClaim Lane = iota // what an agent waits for
	LaneLog               // entries of the log databases, and pages that are read to agents
	LaneSync              // the mirror's queries

	lanes = iota
)

func (l Lane) String() string {
	return [lanes]string{"claim", "log", "sync"}[l]
}

// share makes sure that a lower lane is never shut out: while somebody waits in the log
// lane, it gets one of every 4 permits, and the sync lane one of every 40.
var share = [lanes]int{LaneLog: 4, LaneSync: 40}

type laneKey struct{}

// InLane returns a context whose requests wait in that lane. Without it, they wait in
// LaneClaim.
func InLane(ctx context.Context, l Lane) context.Context {
	return context.WithValue(ctx, laneKey{}, l)
}

func laneOf(ctx context.Context) Lane {
	l, _ := ctx.Value(laneKey{}).(Lane)
	return l
}

// InLaneUnlessChosen puts the context into that lane unless it is in one already.
func InLaneUnlessChosen(ctx context.Context, l Lane) context.Context {
	if _, chosen := ctx.Value(laneKey{}).(Lane); chosen {
		return ctx
	}
	return InLane(ctx, l)
}
