package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/oklog/ulid/v2"
)

// people edit the board at random.
type people struct {
	*chaos
	random *rand.Rand
}

// gesture is a person's change of a task. After one that takes, the claim on the task may end.
type gesture struct {
	name  string
	takes bool
	do    func(p *people, ctx context.Context, id string) error
}

// set is a gesture that sets properties.
func set(props map[string]any) func(*people, context.Context, string) error {
	return func(p *people, _ context.Context, id string) error { return p.notion.EditPage(id, props) }
}

var (
	nobody = map[string]any{
		"claimed_by": text("rich_text", ""), "claim_token": text("rich_text", ""), "claimed_at": map[string]any{"date": nil},
	}
	opened = map[string]any{
		"status":     option("status", "OPEN"),
		"claimed_by": nobody["claimed_by"], "claim_token": nobody["claim_token"], "claimed_at": nobody["claimed_at"],
	}
)

// gestures are what people do.
var gestures = []gesture{
	{"reopened", true, set(opened)},
	{"set to OPEN", true, set(map[string]any{"status": option("status", "OPEN")})},
	{"set to OPEN", true, set(map[string]any{"status": option("status", "OPEN")})},
	{"blocked", true, set(map[string]any{"status": option("status", "BLOCKED")})},
	{"cancelled", true, set(map[string]any{"status": option("status", "CANCELLED")})},
	{"completed", true, set(map[string]any{"status": option("status", "COMPLETED")})},
	{"taken", true, set(map[string]any{"claimed_by": text("rich_text", "Maria")})},
	{"assigned", true, set(map[string]any{
		"status": option("status", "OPEN"), "claimed_by": text("rich_text", "Maria"),
		"claim_token": nobody["claim_token"], "claimed_at": nobody["claimed_at"],
	})},
	{"token deleted", true, set(map[string]any{"claim_token": nobody["claim_token"]})},
	{"retitled", false, func(p *people, _ context.Context, id string) error {
		return p.notion.EditPage(id, map[string]any{"Name": text("title", fmt.Sprint("Task ", p.random.IntN(1000)))})
	}},
	{"given a priority", false, func(p *people, _ context.Context, id string) error {
		names := []string{"critical", "high", "medium", "low"}
		return p.notion.EditPage(id, map[string]any{"priority": option("select", names[p.random.IntN(len(names))])})
	}},
	{"trashed and restored", true, func(p *people, ctx context.Context, id string) error {
		if err := p.notion.TrashPage(id); err != nil {
			return err
		}
		sleep(ctx, time.Duration(p.random.Int64N(int64(8*time.Second))))
		p.taken(id)
		return p.notion.RestorePage(id)
	}},
	{"left behind", true, leaveBehind},
	{"left behind", true, leaveBehind},
}

// leaveBehind leaves a claim from ten minutes ago, whose daemon is gone for good.
func leaveBehind(p *people, _ context.Context, id string) error {
	at := time.Now().Add(-10 * time.Minute)
	return p.notion.EditPage(id, map[string]any{
		"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Ghost"), "claimed_at": date(at),
		"claim_token": text("rich_text", ulid.MustNew(ulid.Timestamp(at), ulid.DefaultEntropy()).String()),
	})
}

// work edits tasks until ctx ends.
func (p *people) work(ctx context.Context) {
	for sleep(ctx, time.Duration(p.random.Int64N(int64(p.peopleEvery)))) {
		id := p.aTask(p.random)
		g := gestures[p.random.IntN(len(gestures))]
		if g.takes {
			p.taken(id)
		}
		if err := g.do(p, ctx, id); err != nil {
			p.Error(err)
		}
		p.count("edits: " + g.name)
	}
}

// lead reopens tasks that nobody works on, until ctx ends, so that there is work.
func (p *people) lead(ctx context.Context) {
	for sleep(ctx, time.Duration(p.random.Int64N(int64(p.peopleEvery/6)))) {
		page, _ := p.notion.Page(p.aTask(p.random))
		if page.Select("status") == "IN_PROGRESS" || page.Select("status") == "OPEN" && page.Text("claimed_by") != "Maria" {
			continue
		}
		p.taken(page.ID)
		if err := p.notion.EditPage(page.ID, opened); err != nil {
			p.Error(err)
		}
	}
}
