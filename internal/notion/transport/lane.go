package transport

import "context"

// Lane is a queue for permits.
type Lane int

// The lanes, the most urgent first.
const (
	LaneClaim Lane = iota // what an agent waits for
	LaneLog               // entries of the log databases, and pages read out to agents
	LaneSync              // the mirror's queries

	lanes = iota
)

func (l Lane) String() string {
	return [lanes]string{"claim", "log", "sync"}[l]
}

// share keeps the lower lanes from starving: while somebody waits in the log lane, it gets one
// of every 4 permits, and the sync lane one of every 40.
var share = [lanes]int{LaneLog: 4, LaneSync: 40}

type laneKey struct{}

// InLane returns a context whose requests wait in lane l. The default is LaneClaim.
func InLane(ctx context.Context, l Lane) context.Context {
	return context.WithValue(ctx, laneKey{}, l)
}

func laneOf(ctx context.Context) Lane {
	l, _ := ctx.Value(laneKey{}).(Lane)
	return l
}

// InLaneUnlessChosen is InLane, unless ctx has a lane already.
func InLaneUnlessChosen(ctx context.Context, l Lane) context.Context {
	if _, chosen := ctx.Value(laneKey{}).(Lane); chosen {
		return ctx
	}
	return InLane(ctx, l)
}
