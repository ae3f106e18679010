package notion

import "context"

// Lane is the line in which a request waits for its permit.
type Lane int

// The lanes, the most urgent first.
const (
	LaneClaim Lane = iota // what an agent waits for
	LaneLog               // entries of the log databases
	LaneSync              // the mirror's queries

	lanes = iota
)

func (l Lane) String() string {
	return [lanes]string{"claim", "log", "sync"}[l]
}

// share is how many permits may be handed out, from one that a lane gets to the
// next, while somebody waits in it: of every 4 permits the log lane gets one, of
// every 40 the sync lane.
var share = [lanes]int{LaneLog: 4, LaneSync: 40}

type laneKey struct{}

// InLane returns a context whose requests wait in that lane. Without it, a log's
// requests wait in LaneLog, a query's in LaneSync and all others in LaneClaim.
func InLane(ctx context.Context, l Lane) context.Context {
	return context.WithValue(ctx, laneKey{}, l)
}

func laneOf(ctx context.Context) Lane {
	l, _ := ctx.Value(laneKey{}).(Lane)
	return l
}

// usually puts the context into that lane unless it is in one already.
func usually(ctx context.Context, l Lane) context.Context {
	if _, chosen := ctx.Value(laneKey{}).(Lane); chosen {
		return ctx
	}
	return InLane(ctx, l)
}
