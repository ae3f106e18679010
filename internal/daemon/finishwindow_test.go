package daemon_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

// finishVerbs are the ways to finish a claim, and the status that each sets.
var finishVerbs = map[string]struct {
	status string
	do     func(n *node, cl api.Claim) error
}{
	"complete": {"COMPLETED", func(n *node, cl api.Claim) error {
		_, err := n.Complete(n.w.Context(), string(cl.ID), api.CompleteRequest{Agent: cl.Agent, Summary: "done"}, "")
		return err
	}},
	"release": {"OPEN", func(n *node, cl api.Claim) error {
		_, err := n.Release(n.w.Context(), string(cl.ID), api.StopRequest{Agent: cl.Agent, Reason: "no time"}, "")
		return err
	}},
	"block": {"BLOCKED", func(n *node, cl api.Claim) error {
		_, err := n.Block(n.w.Context(), string(cl.ID), api.BlockRequest{Agent: cl.Agent, Reason: "no access"}, "")
		return err
	}},
	"fail": {"OPEN", func(n *node, cl api.Claim) error {
		_, err := n.Fail(n.w.Context(), string(cl.ID), api.FailRequest{Agent: cl.Agent, Reason: "it does not build", Reopen: true}, "")
		return err
	}},
}

// personEdits are a person's edits, and whether a card still shows them.
var personEdits = map[string]struct {
	do    func(w *world, id string)
	kept  func(p emulator.Page) bool
	after string // the status after a finish alone, which looks the same
}{
	"CANCELLED": {
		func(w *world, id string) { w.edit(id, map[string]any{"status": option("status", "CANCELLED")}) },
		func(p emulator.Page) bool { return p.Select("status") == "CANCELLED" }, "",
	},
	"OPEN": {
		func(w *world, id string) { w.edit(id, map[string]any{"status": option("status", "OPEN")}) },
		func(p emulator.Page) bool { return p.Select("status") == "OPEN" }, "OPEN",
	},
	"another name": {
		func(w *world, id string) { w.edit(id, map[string]any{"claimed_by": text("rich_text", "Anna")}) },
		func(p emulator.Page) bool { return p.Text("claimed_by") == "Anna" }, "",
	},
	"note": {
		func(w *world, id string) { w.edit(id, map[string]any{"note": text("rich_text", "ask Anna first")}) },
		func(p emulator.Page) bool { return strings.Contains(p.Text("note"), "ask Anna first") }, "",
	},
	"lease": {
		func(w *world, id string) { w.edit(id, map[string]any{"claim_timeout_minutes": number(45)}) },
		func(p emulator.Page) bool { return p.Number("claim_timeout_minutes") == 45 }, "",
	},
	"title": {
		func(w *world, id string) { w.edit(id, map[string]any{"Name": text("title", "another title")}) },
		func(p emulator.Page) bool { return p.Text("Name") == "another title" }, "",
	},
}

// finishWays are the circumstances of a finish. The edits land that long after it began.
var finishWays = map[string]struct {
	fault emulator.FaultKind // for its first write
	lease time.Duration      // how much of the lease is left; negative once it is over
	edits []time.Duration
}{
	"at once":        {"", 6 * time.Minute, around(0, 20*time.Millisecond)},
	"answer lost":    {emulator.DropAnswer, 6 * time.Minute, around(0, 20*time.Millisecond)},
	"saved, and 503": {emulator.SavedBut503, 6 * time.Minute, around(0, 20*time.Millisecond)},
	"write lost":     {emulator.DropRequest, 6 * time.Minute, slices.Concat(around(0, 20*time.Millisecond), around(config.Default().Claim.Settle+finishWay*3, 20*time.Millisecond))},
	"lease over": {"", -3 * time.Second, slices.Concat(around(0, 20*time.Millisecond), around(finishWay*2, 20*time.Millisecond),
		around(config.Default().Claim.Settle+finishWay*6, 20*time.Millisecond))},
}

// finishWay is how long a request takes to Notion, and its answer back.
const finishWay = 20 * time.Millisecond

// around returns times in and around a read and a write that begin then.
func around(began, step time.Duration) (all []time.Duration) {
	for at := -7 * time.Millisecond; at < 6*finishWay; at += step {
		all = append(all, began+at)
	}
	return all
}

// window reports whether something landed between a read of the page and the write that depends on
// it, and describes both. fault struck the first write.
func (w *world) window(id string, began, landed time.Time, fault emulator.FaultKind) (between bool, story string) {
	var read time.Time
	for i, r := range w.notion.Requests() {
		switch {
		case !strings.HasSuffix(r.Path, id):
			continue
		case r.Method == http.MethodGet:
			read = r.Time
		case i > 0 && r.Status == 0 && fault == emulator.DropRequest: // not applied
		default:
			between = between || landed.After(read) && landed.Before(r.Time)
		}
		story += fmt.Sprintf(", %s %v", r.Method, r.Time.Sub(began))
	}
	return between, story
}

// TestEditsAroundAFinish edits a card at every step in and around a finish. An edit survives if it
// lands before the read on which a write of the finish depends, or after that write. Each edit comes
// at each moment of each way, around one of the verbs in turn; with -long around all of them.
func TestEditsAroundAFinish(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	verbs, edits := slices.Sorted(maps.Keys(finishVerbs)), slices.Sorted(maps.Keys(personEdits))
	for way, meets := range finishWays {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				f := &finishing{world: w, fault: meets.fault, lease: meets.lease}
				f.n = w.daemon(func(c *config.Config) {
					quiet(c)
					c.Notion.Rate, c.Notion.Burst, c.Schedule.Sweep = 100, 100, "@every 100h"
				})
				w.notion.SetLatency(func(*http.Request) (before, after time.Duration) { return finishWay, finishWay })
				for m, after := range meets.edits {
					for e, what := range edits {
						for v, verb := range verbs {
							mine := *long || v == (m+e)%len(verbs)
							if mine && finishVerbs[verb].status != personEdits[what].after {
								f.meets(verb, what, after)
							}
						}
					}
				}
				w.Logf("%d edits outside of the window, all kept; %d inside, of which %d were overwritten", f.outside, f.inside, f.lost)
				if f.lost == 0 {
					w.Error("no edit was overwritten inside of the window: the test does not see what it looks for")
				}
			})
		})
	}
}

// finishing counts edits around finishes of one way.
type finishing struct {
	*world
	n                     *node
	fault                 emulator.FaultKind
	lease                 time.Duration
	outside, inside, lost int
}

// meets finishes a new claim, with an edit that long after it began.
func (f *finishing) meets(verb, what string, after time.Duration) {
	w, edit := f.world, personEdits[what]
	id := w.add(what, map[string]any{"claim_timeout_minutes": number(7)})
	cl := f.n.mustClaim("Sandman", id)
	end := cl.ClaimedAt.Truncate(time.Minute).Add(8 * time.Minute)
	time.Sleep(time.Until(end.Add(-f.lease)))
	w.notion.ResetRequests()
	heal := func() {}
	if f.fault != "" {
		heal = w.notion.Inject(emulator.Fault{Kind: f.fault, Method: http.MethodPatch, Path: "/v1/pages/" + id, Times: 1})
	}
	landed := make(chan time.Time)
	go func() {
		time.Sleep(20*time.Millisecond + after)
		edit.do(w, id)
		landed <- time.Now()
	}()
	time.Sleep(20 * time.Millisecond)
	began := time.Now()
	if err := finishVerbs[verb].do(f.n, cl); err != nil && code(err) != string(api.CodeClaimLost) {
		w.Fatal(err)
	}
	at := <-landed
	time.Sleep(time.Minute)
	heal()
	kept := edit.kept(w.page(id))
	between, story := w.window(id, began, at, f.fault)
	switch {
	case between:
		f.inside++
		if !kept {
			f.lost++
		}
	default:
		f.outside++
		if !kept {
			w.Errorf("%s, %s, %v after the beginning, was lost%s", verb, what, at.Sub(began), story)
		}
	}
	w.trash(id) // else every sync reads more
}
