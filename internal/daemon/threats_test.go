package daemon_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// setsRow is a row of the table of requests that set tasks to another status.
var setsRow = regexp.MustCompile("(?m)^\\| (`[A-Z]+ /v1/.*`) \\|([A-Z_ ]*)\\|([A-Z_ ]*)\\|$")

var inWhoseName = []string{" in an agent's name", " in nobody's"}

// Every request sets tasks to those statuses that docs/threats.md says, in an agent's name and in
// nobody's, whatever status it asks for. It goes through all operations that there are.
func TestWhoSetsWhat(t *testing.T) {
	testkit.RacedElsewhere(t)
	testkit.TakesSeconds(t)
	t.Parallel()
	doc, err := os.ReadFile("../../docs/threats.md")
	if err != nil {
		t.Fatal(err)
	}
	want, got := make(map[string][]string), make(map[string][]string)
	for _, row := range setsRow.FindAllStringSubmatch(string(doc), -1) {
		for _, request := range strings.Split(strings.Trim(row[1], "`"), "`, `") {
			for i, whose := range inWhoseName {
				if sets := strings.Fields(row[2+i]); len(sets) > 0 {
					want[request+whose] = sets
				}
			}
		}
	}
	for _, review := range []config.Review{config.ReviewAsked, config.ReviewAlways} {
		inWorld(t, 0, func(w *world) {
			for _, name := range []string{"REVIEW", "FAILED"} {
				mustDo(w, w.notion.AddOption(w.tasks, "status", name))
			}
			n := w.daemon(func(c *config.Config) {
				c.Tasks.Statuses.Review, c.Tasks.Statuses.Failed, c.Claim.Review, c.Claim.MaxAttempts = "REVIEW", "FAILED", review, 2
				c.Schedule.Sweep = "@every 1000h"
			})
			for _, op := range api.Operations() {
				// What writes nothing sets nothing; and the answer of a stream does not end.
				if op.Meter == "" || op.Sends != "" || review == config.ReviewAlways && op != api.OpComplete.Operation {
					continue
				}
				for i, whose := range inWhoseName {
					for _, to := range n.tries(op, i == 0) {
						if is := got[op.Pattern()+whose]; !slices.Contains(is, to) {
							got[op.Pattern()+whose] = append(is, to)
						}
					}
				}
			}
		})
	}
	if diff := cmp.Diff(want, got, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("what requests set tasks to (-docs/threats.md +here):\n%s", diff)
	}
}

// tries requests op of tasks in all states that matter to it, in Sandman's name or in nobody's, and
// returns the statuses that they get.
func (n *node) tries(op *api.Operation, asAgent bool) (sets []string) {
	w := n.w
	w.Helper()
	states, bodies := []string{"held"}, []string{`{}`}
	switch op {
	case api.OpClaim.Operation:
		states, bodies = []string{"OPEN"}, []string{`{"agent":"Sandman","task":"{id}"}`}
	case api.OpAccept.Operation, api.OpDecline.Operation:
		states, bodies = []string{"offered"}, []string{`{"agent":"Sandman"}`}
	case api.OpFail.Operation:
		states, bodies = []string{"held", "tried"}, []string{`{}`, `{"reopen":true}`}
	case api.OpAsk.Operation:
		bodies = []string{`{"text":"so?"}`}
	case api.OpOffer.Operation:
		states, bodies = []string{"OPEN", "held"}, []string{`{"agent":"Sandman","to":"Oracle"}`}
	case api.OpComment.Operation:
		bodies = []string{`{"agent":"Sandman","text":"so"}`, `{"text":"so"}`}
	case api.OpAddTask.Operation:
		bodies = []string{`{"agent":"Sandman","title":"more"}`, `{"title":"more"}`}
	case api.OpSend.Operation:
		bodies = []string{`{"from":"Sandman","to":"Oracle","text":"hello"}`, `{"to":"Oracle","text":"hello"}`}
	case api.OpAck.Operation, api.OpAckAny.Operation:
		bodies = []string{`{"ids":["x"]}`}
	case api.OpReserve.Operation:
		bodies = []string{`{"agent":"Sandman","targets":[{"pattern":"name:db","at":[{"in":"names","path":"/db"}]}]}`}
	case api.OpPause.Operation:
		bodies = []string{`{"agent":"Merlin"}`}
	case api.OpSweep.Operation:
		states = []string{"stale", "tried and stale"}
	case api.OpUnreserve.Operation, api.OpRenewWebhook.Operation, api.OpAdoptCluster.Operation:
		bodies = []string{``}
	case api.OpReopen.Operation:
		states, bodies = []string{"FAILED", "held"}, nil
		for _, s := range task.AllStatuses() {
			asks := `"was":"{was}","status":"` + string(s) + `"}`
			bodies = append(bodies, `{"agent":"Sandman",`+asks, `{`+asks)
		}
	}
	for _, state := range states {
		for _, body := range bodies {
			// A claim is its agent's, whether the request names it or not.
			if asAgent != (strings.Contains(body, "Sandman") || strings.HasPrefix(op.Path, "/v1/claims/")) {
				continue
			}
			id := n.in(state)
			was := w.page(id).Select("status")
			path := strings.NewReplacer("{id}", id, "{name}", "Sandman").Replace(op.Path)
			n.request(op.Method, path, strings.NewReplacer("{id}", id, "{was}", was).Replace(body), "")
			time.Sleep(5 * time.Second)
			if is := w.page(id).Select("status"); is != was {
				sets = append(sets, is)
			}
		}
	}
	return sets
}

// in makes a task that is in that state: held by Sandman, who has failed once at one that was tried,
// offered to Sandman, stale, or of a status that nobody has.
func (n *node) in(state string) (id string) {
	w := n.w
	w.Helper()
	fails := func() {
		_, err := n.Fail(w.Context(), string(n.mustClaim("Sandman", id).ID), api.FailRequest{Reopen: true}, "")
		mustDo(w, err)
	}
	id = w.add(state, nil)
	switch state {
	case "held":
		n.mustClaim("Sandman", id)
	case "tried":
		fails()
		n.mustClaim("Sandman", id)
	case "offered":
		_, err := n.Offer(w.Context(), task.ID(id), api.OfferRequest{Agent: "Oracle", To: "Sandman"}, "")
		mustDo(w, err)
	case "stale", "tried and stale":
		if state != "stale" {
			fails()
		}
		w.edit(id, map[string]any{"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Ghost"), "claimed_at": date(time.Now().Add(-5 * time.Hour))})
	default:
		w.edit(id, map[string]any{"status": option("status", state)})
	}
	time.Sleep(5 * time.Second)
	n.sync()
	return id
}
