package wording_test

import (
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox/wording"
)

// A message's entry can be told from what is said of claims, by its id.
func TestMessageEntry(t *testing.T) {
	e := claim.Fact{ID: "01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", At: time.Now(), Kind: claim.KindMessage, Agent: "Sandman", Holder: "Oracle", Detail: "two\nlines"}
	entry := wording.NewEntry(e, claim.MeshLog)
	if event, ok := wording.ParseMessageID(entry.ID); !ok || event != e.ID || !wording.IsEntryID(entry.ID) {
		t.Errorf("entry id %q", entry.ID)
	}
	if want := "Sandman to @Oracle: two lines"; entry.Title != want {
		t.Errorf("title %q, want %q", entry.Title, want)
	}
	said := make(map[string]any)
	for _, f := range entry.Fields {
		said[f.Name] = f.Value
	}
	if said["from"] != "Sandman" || said["to"] != "Oracle" || said["message"] != "two\nlines" || said[wording.EntryID] != entry.ID {
		t.Errorf("fields %v", said)
	}
	e.Agent, e.Holder = "", "all"
	if got := wording.NewEntry(e, claim.MeshLog).Title; got != "to all: two lines" {
		t.Errorf("title %q", got)
	}
	e.Kind = claim.KindReleased
	if _, ok := wording.ParseMessageID(wording.NewEntry(e, claim.MeshLog).ID); ok {
		t.Error("the entry of a claim counts as a message")
	}
	for _, text := range []string{"", "message-", "draft", "message-draft"} {
		if wording.IsEntryID(text) {
			t.Errorf("%q counts as the id of an entry", text)
		}
	}
}
