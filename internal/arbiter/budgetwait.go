package arbiter

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Wait looks after the share until there is one, or ctx ends: then the error says why there is
// none.
func (b *Budget) Wait(ctx context.Context) error {
	again := time.NewTicker(budgetSoon)
	defer again.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, askTime)
		err := b.Round(asking)
		cancel()
		if b.Share() > 0 {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return b.lacking(ctx, err)
		}
	}
}

// lacking says why there is no share when ctx has ended, after a round that came to err.
func (b *Budget) lacking(ctx context.Context, err error) error {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	if left := slotUse + slotRest - b.Clocks().Since(b.rested); b.resting && left > 0 {
		return fmt.Errorf("its slots may have been another daemon's, and rest for %v more", left.Round(time.Second))
	}
	others := make(map[string]bool)
	for _, s := range b.had.Slots {
		others[s.Run] = s.Run != b.run
	}
	if len(others) > 0 {
		return fmt.Errorf("all of its %d slots are with other daemons (%d), which have given none back yet", len(b.had.Slots), len(others))
	}
	return cmp.Or(err, context.Cause(ctx))
}
