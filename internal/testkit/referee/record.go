package referee

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox/wording"

	"github.com/oklog/ulid/v2"
)

// CheckRecord compares what agents were told with what is on record: each grant once, each finish once or
// that the claim was lost, and the work in any case.
func (b *Book) CheckRecord(facts []claim.Fact) {
	kinds, grants := make(map[claim.ID]map[claim.Kind]int), make(map[claim.ID]int)
	for _, f := range facts {
		if f.Kind.Grants() {
			grants[f.Claim]++
		}
		if kinds[f.Claim] == nil {
			kinds[f.Claim] = make(map[claim.Kind]int)
		}
		if f.Told == 0 || f.Agent != "" {
			kinds[f.Claim][f.Kind]++
		}
	}
	holds := b.Holds()
	b.mu.Lock()
	defer b.mu.Unlock()
	// once reports whether something happened once, or never, and may be lost.
	once := func(n int, at Span) bool { return n == 1 || n == 0 && b.mayBeLost(at) }
	for _, h := range holds {
		k := kinds[h.ID]
		if n := grants[h.ID]; !once(n, Span{h.Call, h.Told}) {
			b.fault("claim %s was granted to %s, and is on record %d times", h.ID, h.Agent, n)
		}
		delivered, lost := k[h.Finished], k[claim.KindLost]
		if h.Finished == claim.KindLost {
			delivered = 0
		}
		if h.Finished != "" && !once(delivered+lost, h.Finish) {
			b.fault("claim %s of %s was %s: %d facts say so, and %d that it was lost", h.ID, h.Agent, h.Finished, delivered, lost)
		}
		work := h.Finished == claim.KindCompleted || h.Finished == claim.KindReview || h.Finished == claim.KindFailed
		if n := delivered + k[claim.KindOrphaned]; work && !once(n, h.Finish) {
			b.fault("the work of %s under %s, %s, is on record %d times", h.Agent, h.ID, h.Finished, n)
		}
	}
}

// Page is a page of Notion, such as an emulator.Page.
type Page interface {
	Title() string
	Text(property string) string
	Select(property string) string
	Date(property string) string
}

// Shows is what a task's page shows.
func Shows(p Page) string {
	return fmt.Sprintf("%s, by %q since %s, with the token %q", p.Select("status"), p.Text("claimed_by"), p.Date("claimed_at"), p.Text("claim_token"))
}

// Left reports whether a task's page shows work of somebody other than a person, who has a name alone.
func Left(p Page) bool {
	person := p.Text("claimed_by") != "" && p.Date("claimed_at") == "" && p.Text("claim_token") == ""
	return p.Select("status") == "IN_PROGRESS" && !person
}

// CheckLogs looks whether each entry that a journal has is in Notion once, and nothing else: no claim's
// grant twice nor its work, and each accepted message once. The rows are those of both logs.
func CheckLogs[P Page](b *Book, facts []claim.Fact, rows map[claim.Log][]P, created func(P) time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	want := make(map[string]claim.Fact)
	for _, f := range facts {
		for _, log := range f.Logs() {
			if log != claim.Comments {
				want[fmt.Sprint(log, " ", wording.NewEntry(f, log).ID)] = f
			}
		}
	}
	seen := make(map[string]int)
	again := func(what string) bool { seen[what]++; return seen[what] == 2 }
	for log, of := range rows {
		for _, row := range of {
			entry := row.Text("entry_id")
			key := fmt.Sprint(log, " ", entry)
			made, message := b.accepted[row.Text("message")]
			if !message {
				id, _ := ulid.Parse(strings.TrimPrefix(entry, wording.MessagePrefix))
				made = Span{ulid.Time(id.Time()).Add(-time.Second), created(row)} // whose clock tells seconds
			}
			if again(key) {
				b.fault("the %s log has an entry twice: %q, claim %s", log, row.Title(), row.Text("claim_id"))
			}
			if _, ok := want[key]; !ok && !b.mayBeLost(made) {
				b.fault("the %s log has an entry that no journal has: %q, claim %s", log, row.Title(), row.Text("claim_id"))
			}
			switch kind := claim.Kind(row.Select("event")); {
			case message:
				again("message " + row.Text("message"))
			case (log == claim.TaskLog || kind.Grants()) && again(fmt.Sprint("claim in the ", log, " log ", row.Text("claim_id"))):
				b.fault("the %s log has two entries of one claim: %q, claim %s", log, row.Title(), row.Text("claim_id"))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if f := want[key]; seen[key] == 0 {
			b.fault("the log has no entry %s: %s of %s, claim %s", key, f.Kind, f.Agent, f.Claim)
		}
	}
	for text, accepted := range b.accepted {
		if n := seen["message "+text]; n != 1 && (n > 1 || !b.mayBeLost(accepted)) {
			b.fault("the message %q has %d entries in the mesh log", text, n)
		}
	}
}
