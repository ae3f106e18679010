package chaos_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/notion/emulator"
)

// trialAgent is an agent that claims and finishes tasks as fast as it can.
type trialAgent struct {
	*chaosAgent
	trial *trial
}

// hot is how many tasks are wanted by many agents of all daemons at once.
const hot = 4

func (a *trialAgent) work(ctx context.Context) {
	for ctx.Err() == nil {
		body := api.ClaimRequest{Agent: a.name}
		contested := a.stranger() || a.chance(20)
		if contested {
			body.Task = a.trial.ids[a.random.IntN(min(hot, len(a.trial.ids)))]
		}
		cl, ok := a.ask(ctx, body)
		if !ok {
			sleep(ctx, a.upTo(time.Second)) // every failure takes time
			continue
		}
		if a.stranger() {
			a.count("grants of the stranger")
		} else {
			a.trial.made.Add(1)
		}
		switch {
		case contested || a.chance(a.trial.holding):
			a.workOn(ctx, cl)
		default:
			sleep(ctx, a.upTo(20*time.Millisecond))
		}
		if a.chance(10) {
			a.tell()
		}
		a.end(cl)
	}
}

// stranger reports whether the agent's daemon has a journal of its own.
func (a *trialAgent) stranger() bool { return !a.daemon.shares() }

// compete lets the stranger's agents compete with the others from half of the grants on. Before that,
// one of them has a task that nobody else may take, until the shared journal has that there is a
// stranger: from then on the others' claims are settled. The stranger takes its time between a read and
// its write.
func (tr *trial) compete(ctx context.Context) {
	for int(tr.made.Load()) < tr.claims/2 {
		if !sleep(ctx, 50*time.Millisecond) {
			return
		}
	}
	p := tr.daemons[members]
	first := &trialAgent{newAgent(tr.chaos, p, 0), tr}
	id, err := tr.notion.CreatePage(tr.chaos.tasks, map[string]any{"Name": text("title", "Strange"), "claimed_by": text("rich_text", first.name)})
	if err != nil {
		tr.Error(err)
	}
	began := tr.now()
	for seen := false; !seen && ctx.Err() == nil; tr.turning.Unlock() {
		if tr.now()-began > comesUp {
			tr.complain("in %v nobody has seen that there is a stranger", comesUp)
		}
		tr.turning.Lock() // what is seen now is not lost
		cl, ok := first.ask(ctx, api.ClaimRequest{Agent: first.name, Task: id})
		for ok && !seen && first.trusted(cl.ID) && sleep(ctx, 100*time.Millisecond) {
			_ = ask(tr.database, fmt.Sprintf("SELECT EXISTS (SELECT FROM %s.meta WHERE key = 'stranger')", tr.space()), &seen) // it may be down
		}
	}
	tr.notion.Inject(emulator.Fault{Kind: emulator.DelayAnswer, Delay: tr.window / 5, Match: func(r *http.Request, _ []byte) bool {
		return r.Host == p.host && r.Method == http.MethodGet
	}})
	var all sync.WaitGroup
	all.Go(func() { first.work(ctx) })
	for n := range 3 {
		a := &trialAgent{newAgent(tr.chaos, p, n+1), tr}
		all.Go(func() { a.work(ctx) })
	}
	all.Wait()
}

// tell lets the agent send a message, whose text is its key, too.
func (a *trialAgent) tell() {
	key, call := a.key(), a.now()
	_, err := persist(a.chaosAgent, func(ctx context.Context) (api.Claim, error) {
		_, err := a.client.Send(ctx, api.MessageRequest{From: a.name, To: "Bob", Text: key}, key)
		return api.Claim{}, err
	}, nil)
	if err == nil {
		a.accepted(key, call)
		a.count("messages")
	} else {
		a.count("messages given up")
	}
}

// reopen lets a person reopen finished tasks until ctx ends.
func (tr *trial) reopen(ctx context.Context) {
	for sleep(ctx, time.Second) {
		for _, page := range tr.notion.Pages(tr.chaos.tasks) {
			if s := page.Select("status"); s == "OPEN" || s == "IN_PROGRESS" {
				continue
			}
			if err := tr.notion.EditPage(page.ID, opened); err != nil {
				tr.Error(err)
			}
		}
	}
}
