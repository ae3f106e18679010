package webhook_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"dibs/internal/mirror/webhook"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

func uid(n int) task.ID { return task.ID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)) }

// The things of the tests' workspace.
var (
	tasks, source, bot, person = uid(1), uid(2), uid(3), uid(4)
	known, fresh               = uid(5), uid(6) // pages of the board; the daemon does not know the second
	elsewhere                  = uid(7)
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// knows is a daemon that wrote the known page at noon. Now it is a while later.
type knows struct {
	bot   task.ID
	later time.Duration
}

func (k knows) Now() time.Time                        { return noon.Add(k.later) }
func (k knows) Bot() string                           { return string(k.bot) }
func (k knows) Wrote(page task.ID, at time.Time) bool { return page == known && !noon.Before(at) }
func (k knows) Board(database, from task.ID) bool     { return database == tasks || from == source }
func (k knows) Knows(page task.ID) bool               { return page == known }

// event is one of a page, or of what else is given, by those authors.
func event(kind string, of, parent task.ID, sent time.Duration, authors ...task.ID) (e webhook.Event) {
	var by []any
	for _, a := range authors {
		by = append(by, map[string]any{"id": a})
	}
	body := map[string]any{
		"type": kind, "timestamp": noon.Add(sent), "authors": by, "entity": map[string]any{"id": of, "type": "page"},
		"data": map[string]any{"parent": map[string]any{"id": parent, "data_source_id": parent}},
	}
	switch kind[:4] {
	case "comm":
		body["entity"], body["data"] = map[string]any{"id": uid(9), "type": "comment"}, map[string]any{"page_id": of}
	case "data", "view":
		body["entity"] = map[string]any{"id": of, "type": kind[:4]}
	}
	data, err := json.Marshal(body)
	if err == nil {
		err = json.Unmarshal(data, &e)
	}
	if err != nil {
		panic(err)
	}
	return e
}

func set(pages ...task.ID) map[task.ID]bool {
	all := make(map[task.ID]bool)
	for _, p := range pages {
		all[p] = true
	}
	return all
}

// An event wakes the reading of what it names, and of nothing else.
func TestWhatIsWorthReading(t *testing.T) {
	for name, tt := range map[string]struct {
		event webhook.Event
		knows knows
		kind  webhook.Kind
		batch webhook.Batch
	}{
		"an edit":                      {event("page.properties_updated", fresh, tasks, 0, person), knows{bot: bot}, webhook.Heard, webhook.Batch{Changed: set(fresh), First: noon}},
		"a page of its data source":    {event("page.created", fresh, source, 0, person), knows{}, webhook.Heard, webhook.Batch{Changed: set(fresh), First: noon}},
		"a task that has been moved":   {event("page.moved", known, elsewhere, 0, person), knows{}, webhook.Heard, webhook.Batch{Changed: set(known), First: noon}},
		"a page of another database":   {event("page.created", fresh, elsewhere, 0, person), knows{}, webhook.Elsewhere, webhook.Batch{}},
		"no page":                      {event("page.created", "", tasks, 0, person), knows{}, webhook.Elsewhere, webhook.Batch{}},
		"a task in the trash":          {event("page.deleted", known, tasks, 0, person), knows{}, webhook.Heard, webhook.Batch{Gone: set(known), First: noon}},
		"a comment":                    {event("comment.created", known, "", 0, person), knows{}, webhook.Heard, webhook.Batch{Commented: set(known), First: noon}},
		"a comment that is taken back": {event("comment.deleted", known, "", 0, person), knows{}, webhook.Elsewhere, webhook.Batch{}},
		"a comment on another page":    {event("comment.created", fresh, "", 0, person), knows{}, webhook.Elsewhere, webhook.Batch{}},
		"the board's properties":       {event("database.schema_updated", tasks, "", 0, person), knows{}, webhook.Heard, webhook.Batch{All: true, First: noon}},
		"those of its data source":     {event("data_source.schema_updated", source, "", 0, person), knows{}, webhook.Heard, webhook.Batch{All: true, First: noon}},
		"those of another database":    {event("database.schema_updated", elsewhere, "", 0, person), knows{}, webhook.Elsewhere, webhook.Batch{}},
		"something else of the board":  {event("database.content_updated", tasks, "", 0, person), knows{}, webhook.Elsewhere, webhook.Batch{}},
		"a view":                       {event("view.created", known, "", 0, person), knows{}, webhook.Elsewhere, webhook.Batch{}},
		"an echo":                      {event("page.properties_updated", known, tasks, time.Minute, bot), knows{bot, time.Minute}, webhook.Echo, webhook.Batch{}},
		"an echo that comes late":      {event("page.properties_updated", known, tasks, time.Second, bot), knows{bot, time.Hour}, webhook.Echo, webhook.Batch{}},
		"our connection's, not ours":   {event("page.properties_updated", known, tasks, 2*time.Minute, bot), knows{bot, 2 * time.Minute}, webhook.Heard, webhook.Batch{Changed: set(known), First: noon.Add(2 * time.Minute)}},
		"ours and a person's":          {event("page.properties_updated", known, tasks, 0, bot, person), knows{bot: bot}, webhook.Heard, webhook.Batch{Changed: set(known), First: noon}},
		"by nobody":                    {event("page.properties_updated", known, tasks, 0), knows{bot: bot}, webhook.Heard, webhook.Batch{Changed: set(known), First: noon}},
		"who we are is not known":      {event("page.properties_updated", known, tasks, 0, bot), knows{}, webhook.Heard, webhook.Batch{Changed: set(known), First: noon}},
	} {
		h := webhook.NewHints(tt.knows)
		if got := h.Add(tt.event); got != tt.kind {
			t.Errorf("%s is %s, want %s", name, got, tt.kind)
		}
		got := h.Take()
		if diff := cmp.Diff(tt.batch, got); diff != "" || got.Empty() != (tt.kind != webhook.Heard) || !h.Take().Empty() {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A page is in a batch once, as the last event says. What could not be read is put back, unless more
// has been heard of it since. Beyond a thousand pages the whole board is read.
func TestBatches(t *testing.T) {
	h := webhook.NewHints(knows{})
	add := func(kind string, page task.ID, sent time.Duration) {
		if got := h.Add(event(kind, page, tasks, sent, person)); got != webhook.Heard {
			t.Errorf("%s of %s is %s", kind, page, got)
		}
	}
	want := func(what string, want webhook.Batch) webhook.Batch {
		t.Helper()
		got := h.Take()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		return got
	}
	add("page.created", uid(11), time.Second)
	add("page.deleted", uid(11), 2*time.Second)
	add("page.deleted", uid(12), time.Minute)
	add("page.undeleted", uid(12), 0)
	add("page.deleted", uid(13), time.Minute)
	add("comment.created", known, time.Second)
	b := want("in disorder", webhook.Batch{Changed: set(uid(12)), Gone: set(uid(11), uid(13)), Commented: set(known), First: noon})
	if diff := cmp.Diff(webhook.Batch{Changed: set(uid(12)), Gone: set(), First: noon}, b.Only([]task.ID{uid(12)})); diff != "" {
		t.Errorf("one page of it (-want +got):\n%s", diff)
	}
	add("page.created", uid(11), time.Minute)
	add("page.deleted", uid(12), time.Minute)
	h.Return(b)
	want("put back", webhook.Batch{Changed: set(uid(11)), Gone: set(uid(12), uid(13)), Commented: set(known), First: noon})
	h.Return(webhook.Batch{All: true})
	want("nothing but the board is put back", webhook.Batch{All: true})
	for i := range 1000 {
		add("page.created", uid(1000+i), 0)
	}
	if all := h.Take(); all.All || len(all.Changed) != 1000 {
		t.Errorf("%d pages, the whole board: %v; want a thousand", len(all.Changed), all.All)
	}
	for i := range 1001 {
		add("page.created", uid(1000+i), 0)
	}
	if all := h.Take(); !all.All || len(all.Changed) != 1000 {
		t.Errorf("%d pages, the whole board: %v; want a thousand, and the board", len(all.Changed), all.All)
	}
}
