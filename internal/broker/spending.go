package broker

import (
	"context"
	"fmt"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/history"
	"dibs/internal/task"
)

// Spend notes what was used for a claim so far, see claim.Claimer.Spend.
func (b *Broker) Spend(ctx context.Context, id claim.ID, used claim.Usage) error {
	if used.None() {
		return nil
	}
	_, err := b.claimer.Spend(ctx, id, used)
	return err
}

// today returns when the day of this machine began, and when it ends, in Notion's time.
func (b *Broker) today() (from, to time.Time) {
	now, here := b.now(), time.Now()
	year, month, day := here.Date()
	midnight := time.Date(year, month, day, 0, 0, 0, 0, here.Location())
	return now.Add(midnight.Sub(here)), now.Add(midnight.AddDate(0, 0, 1).Sub(here))
}

// spent returns what the agents that a name or a pattern covers used in a stretch of time.
func (b *Broker) spent(ctx context.Context, agents string, from, to time.Time) (claim.Usage, error) {
	spent, err := b.past.Spent(ctx, history.Spending{Agent: agents, From: from, To: to})
	return history.Total(spent), err
}

// overspent returns why an agent gets no more tasks today because of what was spent; nil if it does.
// Every entry that covers its name counts, with all that the agents of that entry spent together.
func (b *Broker) overspent(ctx context.Context, agent string) (*claim.Barred, error) {
	for _, a := range b.configured() {
		if a.Budget == 0 || !task.MatchAgent(a.Name, agent) {
			continue
		}
		from, to := b.today()
		spent, err := b.spent(ctx, a.Name, from, to)
		if err != nil {
			return nil, err
		}
		if spent.Micros >= a.Budget {
			whose := agent
			if a.Name != agent {
				whose = "the agents " + a.Name + " together"
			}
			return &claim.Barred{Code: claim.CodeLimitReached, Until: to, Detail: fmt.Sprintf(
				"%s may spend %s a day (max_usd_per_day), and %s are spent until %s; go on with what you hold",
				whose, api.Dollars(api.USD(a.Budget)), api.Dollars(api.USD(spent.Micros)), b.Local(to).Round(time.Minute).Format("2006-01-02 15:04 MST"))}, nil
		}
	}
	return nil, nil
}
