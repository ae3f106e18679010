package referee_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/testkit/referee"
)

type (
	book  = *referee.Book
	inbox = *referee.Inbox
)

// row is a row of a log in Notion.
type row map[string]string

func (r row) Title() string             { return r["title"] }
func (r row) Text(name string) string   { return r[name] }
func (r row) Select(name string) string { return r[name] }
func (r row) Date(name string) string   { return r[name] }

// The referee complains about each of these, in those words, and about nothing if there are none.
func TestComplaints(t *testing.T) {
	const minute = time.Minute
	grant := func(b book, id claim.ID, agent string, fence int64) {
		b.Granted(referee.Hold{ID: id, Task: "a", Agent: agent, Daemon: 1, Fence: fence, Call: time.Now(), Expires: time.Now().Add(10 * minute)})
		time.Sleep(minute)
	}
	end := func(b book, id claim.ID) { b.Ended(id, time.Now(), "it is done"); time.Sleep(minute) }
	logs := func(b book, facts []claim.Fact, rows ...row) {
		referee.CheckLogs(b, facts, map[claim.Log][]row{claim.MeshLog: rows}, func(row) time.Time { return time.Now() })
	}
	granted := claim.Fact{ID: "1", Claim: "x", Kind: claim.KindGranted, Agent: "Ada"}
	entry := row{"entry_id": "1", "event": "granted", "claim_id": "x"}
	for name, test := range map[string]struct {
		happens func(b book, in inbox)
		want    string
	}{
		"one after the other": {func(b book, _ inbox) { grant(b, "x", "Ada", 1); end(b, "x"); grant(b, "y", "Bob", 2) }, ""},
		"two at once":         {func(b book, _ inbox) { grant(b, "x", "Ada", 1); grant(b, "y", "Bob", 2) }, "Bob is told of y"},
		"a smaller fence":     {func(b book, _ inbox) { grant(b, "x", "Ada", 2); end(b, "x"); grant(b, "y", "Bob", 1) }, "Bob is told of y"},
		"a person took it": {func(b book, _ inbox) {
			grant(b, "x", "Ada", 1)
			b.Taken("a")
			grant(b, "y", "Bob", 2)
		}, ""},
		"covered, and its holder was away": {func(b book, _ inbox) {
			from := time.Now()
			grant(b, "x", "Ada", 1)
			b.HeldUp("a")
			time.Sleep(minute)
			b.WasAway(1, from)
			grant(b, "y", "Bob", 2)
		}, ""},
		"one claim for two":     {func(b book, _ inbox) { grant(b, "x", "Ada", 1); grant(b, "x", "Bob", 1) }, "given to Ada and to Bob"},
		"a grant not on record": {func(b book, _ inbox) { grant(b, "x", "Ada", 1); b.CheckRecord(nil) }, "is on record 0 times"},
		"a grant that may be lost": {func(b book, _ inbox) {
			b.Lose(referee.Span{To: time.Now().Add(minute)})
			grant(b, "x", "Ada", 1)
			b.CheckRecord(nil)
		}, ""},
		"a finish not on record": {func(b book, _ inbox) {
			grant(b, "x", "Ada", 1)
			b.Finished("x", claim.KindReleased, time.Now())
			b.CheckRecord([]claim.Fact{granted})
		}, "0 facts say so"},
		"an entry for each":       {func(b book, _ inbox) { logs(b, []claim.Fact{granted}, entry) }, ""},
		"no entry":                {func(b book, _ inbox) { logs(b, []claim.Fact{granted}) }, "has no entry"},
		"an entry twice":          {func(b book, _ inbox) { logs(b, []claim.Fact{granted}, entry, entry) }, "an entry twice"},
		"an entry of nothing":     {func(b book, _ inbox) { logs(b, nil, entry) }, "that no journal has"},
		"a message without a row": {func(b book, _ inbox) { b.Accepted("hello", time.Now()); logs(b, nil) }, "has 0 entries"},
		"what is owed is told once": {func(_ book, in inbox) {
			in.Owe("Bob", "hi")
			in.Show("Bob", "1", "id", "hi", true)
			in.CheckTold()
		}, ""},
		"what is owed is not told": {func(_ book, in inbox) { in.Owe("Bob", "hi"); in.CheckTold() }, "never told"},
		"told twice": {func(_ book, in inbox) {
			in.Show("Bob", "1", "id", "hi", true)
			in.Show("Bob", "1", "other", "hi", true)
		}, "as id and as other"},
		"taken twice": {func(_ book, in inbox) {
			in.Show("Bob", "1", "id", "hi", true)
			in.Show("Bob", "2", "id", "hi", true)
		}, "handed to another poll"},
		"back after its end": {func(_ book, in inbox) {
			in.Show("Bob", "1", "id", "hi", true)
			in.Ack([]string{"id"}, referee.Acked)
			in.Show("Bob", "2", "id", "hi", true)
		}, "after it was acknowledged"},
		"not back": {func(_ book, in inbox) {
			in.Show("Bob", "1", "id", "hi", true)
			time.Sleep(10 * minute)
			in.Open(minute)
		}, "did not come back"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := referee.NewBook()
				test.happens(b, referee.NewInbox(b, 5*minute))
				stories, _ := b.Doubles()
				got := strings.Join(append(b.Wrong(), stories["a"]), "\n")
				if (test.want == "") != (strings.TrimSpace(got) == "") || !strings.Contains(got, test.want) {
					t.Errorf("%q, want %q", got, test.want)
				}
			})
		})
	}
}
