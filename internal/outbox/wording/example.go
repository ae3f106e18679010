package wording

import (
	"time"

	"dibs/internal/claim"
)

// Example returns an entry with every field that an entry of that log can have. A database
// needs a property for each.
func Example(log claim.Log) Entry {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	kind := claim.KindContested
	if log == claim.TaskLog {
		kind = claim.KindCompleted
	}
	return NewEntry(claim.Fact{
		ID: "01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", At: at, Kind: kind, Agent: "Sandman",
		Title: "A task", Task: "11111111-2222-3333-4444-555555555555", URL: "https://www.notion.so/11111111222233334444555555555555",
		Claim: "01KA8XQ5V8ZJ6N3T4R7W9Y2M1E", Code: claim.CodeHeld, Holder: "Oracle", Count: 1, Names: []string{"Oracle"},
		Started: at, Finished: at.Add(time.Minute), Summary: "a summary", Evidence: []string{"a commit"}, Detail: "a detail",
		Used: claim.Usage{Tokens: 12000, Micros: 420000},
	}, log)
}

// MessageExample returns a message as an entry of the mesh log.
func MessageExample() Entry {
	return NewEntry(claim.Fact{
		ID: "01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Kind: claim.KindMessage,
		Agent: "Sandman", Holder: "Oracle", Detail: "a message",
	}, claim.MeshLog)
}
