package inbox_test

import (
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/journal/news"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// words are triggers in short: type, agent, who caused it, text.
func words(triggers []inbox.Trigger) []string {
	var out []string
	for _, t := range triggers {
		out = append(out, strings.TrimSpace(strings.Join([]string{string(t.Type), t.Agent, t.From, t.Text}, " ")))
	}
	return out
}

func TestNews(t *testing.T) {
	state := func(s task.Status, by string, at time.Time) *news.State {
		return new(news.NewState(task.Task{ID: "a", Title: "Write", Status: s, ClaimedBy: by, ClaimedAt: at}, nil))
	}
	open, held := state(task.Open, "", time.Time{}), state(task.InProgress, "Oracle", noon)
	assigned := state(task.Open, "Oracle", time.Time{})
	event := func(kind claim.Kind, agent, holder string) claim.Fact {
		return claim.Fact{Kind: kind, Task: "a", Agent: agent, Holder: holder, Detail: "why", Summary: "all of it"}
	}
	for name, tt := range map[string]struct {
		news inbox.News
		want []string
	}{
		"claimed":                      {inbox.News{Before: open, After: held, Changed: []claim.Fact{event(claim.KindClaimed, "Oracle", "")}}, nil},
		"lost":                         {inbox.News{Record: []claim.Fact{event(claim.KindLost, "Oracle", "Maria")}}, []string{"claim_lost Oracle Maria why"}},
		"overridden":                   {inbox.News{Record: []claim.Fact{event(claim.KindGranted, "Sandman", "Oracle"), event(claim.KindOverridden, "Sandman", "Oracle")}}, []string{"claim_lost Oracle Sandman its lease ran out, and the task was taken over"}},
		"swept":                        {inbox.News{Record: []claim.Fact{event(claim.KindSwept, "Oracle", "Oracle")}}, []string{"claim_lost Oracle  its lease ran out, and the task was put back to OPEN"}},
		"of a name that none can have": {inbox.News{Record: []claim.Fact{event(claim.KindSwept, " ", "")}}, nil},
		"finished":                     {inbox.News{Leads: []string{"A", "B"}, Changed: []claim.Fact{event(claim.KindCompleted, "Oracle", "")}}, []string{"task_finished A Oracle all of it", "task_finished B Oracle all of it"}},
		"completed on record alone":    {inbox.News{Leads: []string{"A"}, Record: []claim.Fact{event(claim.KindCompleted, "Oracle", "")}}, nil},
		"cancelled":                    {inbox.News{Leads: []string{"A"}, Changed: []claim.Fact{event(claim.KindCancelled, "Oracle", "")}}, nil},
		"assigned":                     {inbox.News{Before: open, After: assigned}, []string{"task_assigned Oracle"}},
		"assigned when it was made":    {inbox.News{After: assigned}, []string{"task_assigned Oracle"}},
		"assigned to another":          {inbox.News{Before: state(task.Open, "Sandman", time.Time{}), After: assigned}, []string{"task_assigned Oracle"}},
		"assigned as before":           {inbox.News{Before: assigned, After: assigned}, nil},
		"unblocked, and assigned":      {inbox.News{Before: state(task.Blocked, "Oracle", time.Time{}), After: assigned}, []string{"task_assigned Oracle"}},
		"offered":                      {inbox.News{Before: held, After: assigned, Offered: "Oracle"}, nil},
	} {
		if diff := cmp.Diff(tt.want, words(inbox.Of(tt.news))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAddressed(t *testing.T) {
	known := []string{"Oracle", "Sandman", "claude chat 7K9X", "Ann, the lead"}
	for name, tt := range map[string]struct {
		row  wording.Row
		want []string
	}{
		"nobody":             {wording.Row{Title: "a note"}, nil},
		"in the title":       {wording.Row{Title: "@Oracle look", From: "Maria"}, []string{"message Oracle Maria @Oracle look"}},
		"behind a bracket":   {wording.Row{Title: "look (@Oracle)."}, []string{"message Oracle  look (@Oracle)."}},
		"at the end":         {wording.Row{Title: "ask @Merlin-2."}, []string{"message Merlin-2  ask @Merlin-2."}},
		"with spaces":        {wording.Row{Title: "@claude chat 7K9X: look"}, []string{"message claude chat 7K9X  @claude chat 7K9X: look"}},
		"a longer name":      {wording.Row{Title: "@Oracles look"}, []string{"message Oracles  @Oracles look"}},
		"an address of mail": {wording.Row{Title: "write to maria@Oracle.com"}, nil},
		"in a column":        {wording.Row{Title: "x", To: "Oracle", Text: "look"}, []string{"message Oracle  look"}},
		"several":            {wording.Row{To: "Oracle; @Merlin,Oracle", Text: "look"}, []string{"message Oracle  look", "message Merlin  look"}},
		"with a comma":       {wording.Row{To: "Ann, the lead", Text: "look"}, []string{"message Ann, the lead  look"}},
		"all":                {wording.Row{To: "All", From: "Oracle", Text: "look"}, []string{"message Sandman Oracle look", "message claude chat 7K9X Oracle look", "message Ann, the lead Oracle look"}},
		"the column first":   {wording.Row{To: "Oracle", Title: "about @Sandman"}, []string{"message Oracle  about @Sandman"}},
		"of a daemon":        {wording.Row{EntryID: "message-01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", To: "Oracle", From: "Ghost", Text: "look"}, []string{"message Oracle Ghost look"}},
		"of a claim":         {wording.Row{EntryID: "01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", To: "Oracle", Title: "claimed “ask @Sandman”"}, nil},
		"from itself":        {wording.Row{To: "Oracle", From: "Oracle", Text: "look"}, nil},
	} {
		if diff := cmp.Diff(tt.want, words(inbox.Messages(tt.row, known))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestOffered(t *testing.T) {
	e := claim.Fact{At: noon, Kind: claim.KindOffered, Task: "a", Agent: "Sandman", Holder: "Oracle", Summary: "yours"}
	if got, ok := inbox.Offered(e, nil); !ok || words([]inbox.Trigger{got})[0] != "task_offered Oracle Sandman yours" || got.Task.ID != "a" {
		t.Errorf("offered = %+v, %v", got, ok)
	}
	e.Kind, e.Holder = claim.KindReleased, ""
	if got, ok := inbox.Offered(e, nil); ok {
		t.Errorf("a release is told as %+v", got)
	}
}

// A question is over when its page is gone, or after two weeks; once its task is open again, claimed or
// finished it has its comments read one last time, and its agent hears that the task is open, once.
func TestQuestions(t *testing.T) {
	if _, ok := inbox.Asked(claim.Fact{Kind: claim.KindBlocked, At: noon}); ok {
		t.Error("a fact that asks nothing asks")
	}
	q, _ := inbox.Asked(claim.Fact{ID: "F", Kind: claim.KindBlocked, Asked: true, Agent: "Oracle", Task: "a", At: noon})
	last := q
	last.Last = true
	for name, tt := range map[string]struct {
		q            inbox.Question
		status       task.Status // none: the task is gone
		trashed      bool
		after        time.Duration
		last, opened bool
		over         bool
	}{
		"unanswered":  {q: q, status: task.Blocked, after: 14 * 24 * time.Hour},
		"open again":  {q: q, status: task.Open, last: true, opened: true},
		"still open":  {q: last, status: task.Open, last: true},
		"claimed":     {q: q, status: task.InProgress, last: true},
		"finished":    {q: q, status: task.Cancelled, last: true},
		"gone":        {q: q, over: true},
		"trashed":     {q: q, status: task.Blocked, trashed: true, over: true},
		"too long":    {q: q, status: task.Blocked, after: 14*24*time.Hour + time.Second, over: true},
		"over at end": {q: last, status: task.Open, after: 15 * 24 * time.Hour, last: true, over: true},
	} {
		next, opened, over := tt.q.See(task.Task{ID: "a", Status: tt.status, Trashed: tt.trashed}, tt.status != "", noon.Add(tt.after))
		if next.Last != tt.last || over != tt.over || (opened != nil) != tt.opened || opened != nil && (opened.Agent != "Oracle" || opened.Key != "reopened F" || opened.Text != "the task is open again" || opened.Type != inbox.Comment) {
			t.Errorf("%s: %+v, %+v, over %v", name, next, opened, over)
		}
	}
}
