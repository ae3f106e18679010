package claim

import (
	"cmp"
	"time"
)

// Earlier is what became of an earlier claim on a task.
type Earlier struct {
	Claim   ID // empty if it is not known
	Agent   string
	At      time.Time // when it was over, in Notion's time
	Outcome Outcome
	// Text says what was done, or why it ended, in the words of whoever ended it.
	Text string
}

// Outcome is how an earlier claim ended, as agents are told.
type Outcome string

// MostEarlier is how many earlier claims a claim comes with: the newest.
const MostEarlier = 10

// outcomes are the outcomes of the claims whose ends facts record.
var outcomes = map[Kind]Outcome{
	KindCompleted: "completed", KindReview: "completed", KindFailed: "failed", KindBlocked: "blocked",
	KindReleased: "released", KindOffered: "released", KindDeclined: "released", KindLost: "lost", KindOverridden: "stale", KindSwept: "swept",
}

// Precedes reports whether e is earlier than the claim of that id on the same task.
func (e Earlier) Precedes(id ID) bool {
	if e.Claim != "" {
		return e.Claim < id // by the time at which they were made
	}
	made, _ := id.Minted()
	return e.At.Before(made)
}

// Earlier returns the claim whose end the fact records; false if it records none.
func (e Fact) Earlier() (Earlier, bool) {
	f := Earlier{Claim: e.Claim, Agent: e.Agent, At: e.At, Outcome: outcomes[e.Kind], Text: cmp.Or(e.Summary, e.Detail)}
	if e.Kind == KindOverridden {
		f.Claim, f.Agent = e.Former, e.Holder
	}
	if (e.Kind == KindOffered || e.Kind == KindDeclined) && e.Started.IsZero() { // it was claimed to be handed on
		return f, false
	}
	// A sweep without an agent is that of a copied page, to whose claim nothing happened.
	return f, f.Outcome != "" && f.Agent != "" && (e.Claim != "" || e.Kind == KindSwept)
}
