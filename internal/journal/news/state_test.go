package news_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal/news"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

const (
	first  = "01KA8XQ5V8ZJ6N3T4R7W9Y2M1D"
	second = "01KA8XQ5V8ZJ6N3T4R7W9Y2M1E"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// The states of one task.
func open() news.State { return state(task.Task{Status: task.Open}) }

func waiting() news.State {
	t := open().Task
	t.DependsOn = []task.ID{"b"}
	return news.NewState(t, t.DependsOn)
}

func held(agent, token string) news.State {
	return state(task.Task{Status: task.InProgress, ClaimedBy: agent, ClaimedAt: noon, Token: token})
}

func in(s task.Status) news.State { return state(task.Task{Status: s}) }

func done() news.State {
	return state(task.Task{Status: task.Completed, ClaimedBy: "Sandman", ClaimedAt: noon, Token: "done " + first})
}

func state(t task.Task) news.State {
	t.ID, t.Title, t.Priority = "a", "Write", task.Low
	return news.NewState(t, nil)
}

func with(s news.State, change func(*news.State)) news.State {
	change(&s)
	return s
}

// words are events in short: kind, agent, holder, claim, what was edited.
func words(events []claim.Fact) []string {
	var out []string
	for _, e := range events {
		word := string(e.Kind)
		if e.Agent != "" {
			word += " " + e.Agent
		}
		if e.Holder != "" {
			word += " > " + e.Holder
		}
		if e.Claim != "" {
			word += fmt.Sprintf(" (%s)", e.Claim[len(e.Claim)-1:])
		}
		if len(e.Changed) > 0 {
			word += ": " + strings.Join(e.Changed, " ")
		}
		out = append(out, word)
	}
	return out
}

func TestDiff(t *testing.T) {
	assigned := func(agent string) news.State {
		return with(open(), func(s *news.State) { s.ClaimedBy, s.Ready = agent, false })
	}
	inColumn := func(s news.State, who string) news.State {
		return with(s, func(s *news.State) { s.Assignee, s.AssigneeIsAgent, s.Ready = who, who == "Sandman", false })
	}
	trashed := func(s news.State) news.State {
		return with(s, func(s *news.State) { s.Trashed, s.Ready = true, false })
	}
	for name, tt := range map[string]struct {
		before *news.State
		after  news.State
		want   []string
	}{
		"new":                  {nil, open(), []string{"created", "ready"}},
		"new and waiting":      {nil, waiting(), []string{"created"}},
		"new and held":         {nil, held("Oracle", second), []string{"created", "claimed Oracle (E)"}},
		"new and blocked":      {nil, in(task.Blocked), []string{"created", "blocked"}},
		"new, of other status": {nil, in(task.Unknown), []string{"created"}},
		"new and done":         {nil, done(), nil},
		"new and cancelled":    {nil, in(task.Cancelled), nil},
		"new and in the trash": {nil, trashed(open()), nil},

		"the same":                 {new(open()), open(), nil},
		"claimed":                  {new(open()), held("Sandman", first), []string{"claimed Sandman (D)"}},
		"claimed for longer":       {new(open()), with(held("Sandman", first), func(s *news.State) { s.Timeout = time.Hour }), []string{"claimed Sandman (D)"}},
		"claimed without a token":  {new(open()), held("Sandman", ""), []string{"claimed Sandman"}},
		"reserved":                 {new(open()), with(open(), func(s *news.State) { s.ClaimedBy, s.Ready = "Maria", false }), []string{"claimed Maria"}},
		"assigned in progress":     {new(open()), with(in(task.InProgress), func(s *news.State) { s.ClaimedBy = "Sandman" }), []string{"claimed Sandman"}},
		"assignment claimed":       {new(assigned("Sandman")), held("Sandman", first), []string{"claimed Sandman (D)"}},
		"claimed without tokens":   {new(assigned("Sandman")), held("Sandman", ""), []string{"claimed Sandman"}},
		"assigned to another":      {new(assigned("Sandman")), assigned("Oracle"), []string{"reassigned Sandman > Oracle"}},
		"assigned to nobody":       {new(assigned("Sandman")), open(), []string{"released Sandman", "ready"}},
		"assignment edited":        {new(assigned("Sandman")), with(assigned("Sandman"), func(s *news.State) { s.Title = "Rewrite" }), []string{"edited Sandman: title"}},
		"renewed":                  {new(held("Sandman", first)), with(held("Sandman", first), func(s *news.State) { s.ClaimedAt = noon.Add(time.Hour); s.Edited = noon.Add(time.Hour) }), nil},
		"released":                 {new(held("Sandman", first)), open(), []string{"released Sandman (D)", "ready"}},
		"released, with its lease": {new(with(held("Sandman", first), func(s *news.State) { s.Timeout = time.Hour })), open(), []string{"released Sandman (D)", "ready"}},
		"released and claimed":     {new(held("Sandman", first)), held("Sandman", second), []string{"claimed Sandman (E)"}},
		"marked by a sweep":        {new(held("Sandman", first)), held("Sandman", "void "+second), []string{"released Sandman (D)"}},
		"reopened by a sweep":      {new(held("Sandman", "void "+second)), open(), []string{"ready"}},
		"marked before it is seen": {new(open()), held("Sandman", "void "+first), nil},
		"claimed over a mark":      {new(held("Sandman", "void "+first)), held("Oracle", second), []string{"claimed Oracle (E)"}},
		"name cleared":             {new(held("Sandman", first)), in(task.InProgress), []string{"released Sandman (D)"}},
		"set to open":              {new(held("Sandman", first)), with(held("Sandman", first), func(s *news.State) { s.Status = task.Open }), []string{"released Sandman (D)"}},
		"then cleared":             {new(with(held("Sandman", first), func(s *news.State) { s.Status = task.Open })), open(), []string{"ready"}},
		"other name":               {new(held("Sandman", first)), held("Oracle", second), []string{"reassigned Sandman > Oracle (D)"}},
		"completed":                {new(held("Sandman", first)), done(), []string{"completed Sandman (D)"}},
		"completed by hand":        {new(open()), in(task.Completed), []string{"completed"}},
		"completed unseen":         {new(open()), done(), []string{"completed Sandman (D)"}},
		"cancelled":                {new(held("Sandman", first)), with(held("Sandman", first), func(s *news.State) { s.Status = task.Cancelled }), []string{"cancelled Sandman (D)"}},
		"blocked":                  {new(held("Sandman", first)), in(task.Blocked), []string{"blocked Sandman (D)"}},
		"unblocked":                {new(in(task.Blocked)), open(), []string{"unblocked", "ready"}},
		"unblocked and taken":      {new(in(task.Blocked)), held("Oracle", second), []string{"unblocked Oracle (E)", "claimed Oracle (E)"}},
		"reopened": {new(done()), with(done(), func(s *news.State) {
			*s = news.NewState(task.Task{ID: "a", Title: "Write", Priority: task.Low, Status: task.Open, ClaimedBy: "Sandman", ClaimedAt: noon, Token: "done " + first}, nil)
		}), []string{"reopened", "ready"}},
		"reopened for another": {new(done()), with(done(), func(s *news.State) {
			*s = news.NewState(task.Task{ID: "a", Title: "Write", Priority: task.Low, Status: task.Open, ClaimedBy: "Maria", ClaimedAt: noon, Token: "done " + first + " Sandman"}, nil)
		}), []string{"reopened Maria", "claimed Maria"}},
		"from done to blocked":                     {new(done()), in(task.Blocked), []string{"blocked"}},
		"cancelled, then done":                     {new(in(task.Cancelled)), in(task.Completed), []string{"completed"}},
		"begun by somebody in the column":          {new(inColumn(open(), "Maria")), inColumn(in(task.InProgress), "Maria"), []string{"edited Maria: status"}},
		"put back by somebody in the column":       {new(inColumn(in(task.InProgress), "Maria")), inColumn(open(), "Maria"), []string{"edited Maria: status"}},
		"new, with somebody in the column":         {nil, inColumn(open(), "Maria"), []string{"created", "claimed Maria"}},
		"renewed by the agent in the column":       {new(inColumn(held("Sandman", first), "Sandman")), with(inColumn(held("Sandman", first), "Sandman"), func(s *news.State) { s.ClaimedAt = noon.Add(time.Hour) }), nil},
		"trashed, while somebody is in the column": {new(inColumn(held("Sandman", first), "Maria")), trashed(inColumn(held("Sandman", first), "Maria")), []string{"trashed Maria"}},
		"begun by hand":                            {new(open()), in(task.InProgress), []string{"edited: status"}},
		"another status":                           {new(open()), in(task.Unknown), []string{"edited: status"}},

		"waits no longer": {new(waiting()), with(waiting(), func(s *news.State) { s.Ready = true }), []string{"ready"}},
		"edited": {new(held("Sandman", first)), with(held("Sandman", first), func(s *news.State) {
			s.Title, s.Priority, s.Timeout, s.DependsOn = "Rewrite", task.High, time.Hour, []task.ID{"b"}
		}), []string{"edited Sandman (D): title priority timeout dependencies"}},
		"same dependencies":  {new(with(open(), func(s *news.State) { s.DependsOn = []task.ID{"b", "c"} })), with(open(), func(s *news.State) { s.DependsOn = []task.ID{"c", "b"} }), nil},
		"claimed and edited": {new(open()), with(held("Sandman", first), func(s *news.State) { s.Title = "Rewrite" }), []string{"claimed Sandman (D)", "edited Sandman (D): title"}},

		"trashed":               {new(held("Sandman", first)), trashed(held("Sandman", first)), []string{"trashed Sandman (D)"}},
		"still in the trash":    {new(trashed(open())), with(trashed(open()), func(s *news.State) { s.Title = "Rewrite" }), nil},
		"restored":              {new(trashed(open())), open(), []string{"restored", "ready"}},
		"restored as it was":    {new(trashed(held("Sandman", first))), held("Sandman", first), []string{"restored Sandman (D)"}},
		"restored and finished": {new(trashed(open())), in(task.Completed), []string{"restored", "completed"}},
	} {
		t.Run(name, func(t *testing.T) {
			events := news.Diff(tt.before, tt.after)
			if diff := cmp.Diff(tt.want, words(events)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			for _, e := range events {
				if e.Task != "a" || e.Title != tt.after.Title || e.Status != tt.after.Status || e.Priority != tt.after.Priority {
					t.Errorf("%s does not show the task as it is: %+v", e.Kind, e)
				}
			}
		})
	}
}

func TestReadiness(t *testing.T) {
	for name, tt := range map[string]struct {
		task     task.Task
		blockers []task.ID
		want     bool
	}{
		"open":              {task.Task{Status: task.Open}, nil, true},
		"waiting":           {task.Task{Status: task.Open}, []task.ID{"b"}, false},
		"with a stale name": {task.Task{Status: task.Open, ClaimedBy: "Sandman", ClaimedAt: noon.Add(-1000 * time.Hour)}, nil, false},
		"stale":             {task.Task{Status: task.InProgress, ClaimedBy: "Sandman", ClaimedAt: noon.Add(-1000 * time.Hour)}, nil, false},
		"reserved":          {task.Task{Status: task.Open, ClaimedBy: "Maria"}, nil, false},
		"blocked":           {task.Task{Status: task.Blocked}, nil, false},
		"trashed":           {task.Task{Status: task.Open, Trashed: true}, nil, false},
	} {
		if got := news.NewState(tt.task, tt.blockers).Ready; got != tt.want {
			t.Errorf("%s: ready = %v, want %v", name, got, tt.want)
		}
	}
}

// tell returns all that agents are told.
func tell(before, after *news.State, record ...claim.Fact) (told []claim.Fact) {
	record, changed := news.Compose(before, after, record)
	for _, f := range record {
		if news.Publishes(f) {
			told = append(told, news.ForAgents(f))
		}
	}
	return append(told, changed...)
}

func TestTell(t *testing.T) {
	event := func(kind claim.Kind, agent, holder string) claim.Fact {
		return claim.Fact{At: noon, Kind: kind, Task: "a", Agent: agent, Holder: holder, Claim: second, Detail: "why"}
	}
	for name, tt := range map[string]struct {
		before, after *news.State
		record        []claim.Fact
		want          []string
	}{
		"granted":                     {new(open()), new(held("Sandman", second)), []claim.Fact{event(claim.KindGranted, "Sandman", "")}, []string{"claimed Sandman (E)"}},
		"denied":                      {new(open()), new(open()), []claim.Fact{event(claim.KindDenied, "Sandman", "")}, nil},
		"lost":                        {new(held("Sandman", second)), new(in(task.Cancelled)), []claim.Fact{event(claim.KindLost, "Sandman", "")}, []string{"lost Sandman (E)", "cancelled Sandman (E)"}},
		"failed, which is BLOCKED":    {new(held("Sandman", second)), new(in(task.Blocked)), []claim.Fact{event(claim.KindFailed, "Sandman", "")}, []string{"failed Sandman (E)"}},
		"swept":                       {new(held("Sandman", second)), new(open()), []claim.Fact{event(claim.KindSwept, "Sandman", "Sandman")}, []string{"swept Sandman (E)", "ready"}},
		"overridden":                  {new(held("Sandman", first)), new(held("Oracle", second)), []claim.Fact{event(claim.KindGranted, "Oracle", "Sandman"), event(claim.KindOverridden, "Oracle", "Sandman")}, []string{"overridden Sandman > Oracle (D)"}},
		"overridden, and nobody knew": {new(open()), new(held("Oracle", second)), []claim.Fact{event(claim.KindOverridden, "Oracle", "Sandman")}, []string{"overridden Sandman > Oracle"}},
		"repaired":                    {new(held("Sandman", second)), new(held("Sandman", second)), []claim.Fact{event(claim.KindConflict, "Sandman", "Oracle")}, []string{"conflict Sandman > Oracle (E)"}},
		"expiring":                    {new(held("Sandman", second)), nil, []claim.Fact{event(claim.KindExpiring, "Sandman", "")}, []string{"expiring Sandman (E)"}},
		"lost, page unknown":          {nil, nil, []claim.Fact{event(claim.KindLost, "Sandman", "")}, []string{"lost Sandman (E)"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, words(tell(tt.before, tt.after, tt.record...))); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
	completed := event(claim.KindCompleted, "Sandman", "")
	completed.Summary = "all of it"
	events := tell(new(held("Sandman", first)), new(done()), completed)
	if len(events) != 1 || events[0].Summary != "all of it" {
		t.Errorf("completion = %+v, want it with the summary", events)
	}
}

func TestSettled(t *testing.T) {
	ours := func(s claim.State) claim.Hold { return claim.Hold{ID: first, Agent: "Sandman", State: s} }
	mark := func(s claim.MarkState) []claim.Mark { return []claim.Mark{{ID: first, Agent: "Sandman", State: s}} }
	page := func(agent, token string) task.Task { return held(agent, token).Task }
	for name, tt := range map[string]struct {
		task task.Task
		live []claim.Hold
		left []claim.Mark
		want bool
	}{
		"nobody's":                   {open().Task, nil, nil, true},
		"another daemon's":           {page("Oracle", second), nil, nil, true},
		"being claimed":              {open().Task, []claim.Hold{ours(claim.Writing)}, nil, true},
		"written":                    {page("Sandman", first), []claim.Hold{ours(claim.Writing)}, nil, false},
		"won by another":             {page("Oracle", second), []claim.Hold{ours(claim.Writing)}, nil, true},
		"abandoned":                  {page("Sandman", first), nil, mark(claim.Abandoned), false},
		"void":                       {page("Sandman", "void "+first), nil, mark(claim.Voided), false},
		"void, and set by a person":  {with(held("Sandman", "void "+first), func(s *news.State) { s.Status = task.Cancelled }).Task, nil, mark(claim.Voided), true},
		"given up, and not seen":     {page("Sandman", ""), nil, mark(claim.Unseen), true},
		"held":                       {page("Sandman", first), []claim.Hold{ours(claim.Held)}, nil, true},
		"held, and the token gone":   {page("Sandman", ""), []claim.Hold{ours(claim.Held)}, nil, false},
		"held, and taken":            {page("Oracle", second), []claim.Hold{ours(claim.Held)}, nil, false},
		"held, and cancelled":        {with(held("Sandman", first), func(s *news.State) { s.Status = task.Cancelled }).Task, []claim.Hold{ours(claim.Held)}, nil, false},
		"held, and trashed":          {with(held("Sandman", first), func(s *news.State) { s.Trashed = true }).Task, []claim.Hold{ours(claim.Held)}, nil, false},
		"held, and voided":           {page("Sandman", "void "+first), []claim.Hold{ours(claim.Held)}, nil, false},
		"finishing, and written":     {done().Task, []claim.Hold{ours(claim.Finishing)}, nil, false},
		"finishing, and not written": {page("Sandman", first), []claim.Hold{ours(claim.Finishing)}, nil, true},
		"held, with an old attempt":  {page("Sandman", first), []claim.Hold{ours(claim.Held)}, []claim.Mark{{ID: second, Agent: "Sandman", State: claim.Abandoned}}, true},
	} {
		if got := news.Stable(tt.task, tt.live, tt.left); got != tt.want {
			t.Errorf("%s: settled = %v, want %v", name, got, tt.want)
		}
	}
}
