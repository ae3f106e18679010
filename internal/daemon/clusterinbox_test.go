package daemon_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// quick starts a member that looks often.
func (w *world) quick(name, url string, change func(*config.Config)) *node {
	w.Helper()
	n := w.daemon(func(c *config.Config) {
		c.Cluster.Etcd, c.Cluster.Name = []string{url}, name
		c.Notion.Rate, c.Notion.Burst = 500, 500
		c.Sync.Interval, c.Inbox.Comments = 300*time.Millisecond, 300*time.Millisecond
		if change != nil {
			change(c)
		}
	})
	w.Cleanup(n.stop)
	return n
}

// hears polls at one of the members after the other until the agent was told all of that, in
// any order, and then once more at each: it is told nothing else.
func hears(agent string, nodes []*node, want ...string) {
	w := nodes[0].w
	w.Helper()
	var got []string
	for i := 0; len(got) < len(want) && i < 100; i++ {
		got = append(got, nodes[i%len(nodes)].react(agent, 200*time.Millisecond)...)
	}
	for _, n := range nodes {
		got = append(got, n.react(agent, 0)...)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.Errorf("%s is told %q, want %q", agent, got, want)
	}
}

// What is said at one member of a cluster is heard at another, once, also by who waits there.
func TestMessagesInACluster(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		a, b := w.quick("north", etcd.URL(), nil), w.quick("south", etcd.URL(), nil)
		both := []*node{a, b}
		hears("Oracle", both)
		hears("Merlin", both)
		var told []string
		var waiting sync.WaitGroup
		waiting.Go(func() { told = b.react("Oracle", 20*time.Second) })
		say := func(n *node, to, text string) {
			w.Helper()
			if _, err := n.Send(t.Context(), api.MessageRequest{From: "Sandman", To: to, Text: text}, ""); err != nil {
				t.Fatal(err)
			}
		}
		say(a, "Oracle", "hello")
		waiting.Wait()
		if !slices.Equal(told, []string{"message from Sandman: hello"}) {
			t.Errorf("told %q", told)
		}
		say(b, "all", "to everybody")
		eventually(t, "the mesh log has both", func() bool { return len(w.mesh()) == 2 })
		// A person writes there; both members come upon all of the rows.
		if _, err := w.notion.CreatePage(w.notion.Databases().MeshLog, map[string]any{"Name": text("title", "@Oracle look")}); err != nil {
			t.Fatal(err)
		}
		hears("Oracle", both, "message from Sandman: to everybody", "message: @Oracle look")
		hears("Merlin", both, "message from Sandman: to everybody")
	})
}

// A comment on a task is heard where its agent polls, which is not where it holds the task.
func TestCommentsInACluster(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		id := w.add("Alpha", nil)
		a, b := w.quick("north", etcd.URL(), nil), w.quick("south", etcd.URL(), nil)
		cl := a.mustClaim("Oracle", id)
		b.sync() // for which there is nothing to claim then
		hears("Oracle", []*node{b})
		w.post("/v1/comments", map[string]any{
			"parent": map[string]any{"page_id": id}, "rich_text": []any{map[string]any{"text": map[string]any{"content": "look at page 2"}}},
			"display_name": map[string]any{"type": "custom", "custom": map[string]any{"name": "Maria"}},
		})
		hears("Oracle", []*node{b}, "comment Alpha from Maria: look at page 2")
		a.wantInbox("Oracle", time.Second)
		if err := a.complete(cl); err != nil {
			t.Error(err)
		}
	})
}

// An offer that was made at one member is accepted or declined at another.
func TestOffersInACluster(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		first, second := w.add("Alpha", nil), w.add("Beta", nil)
		rare := func(c *config.Config) { c.Sync.Interval = time.Hour } // no mirror hears of it
		a, b := w.quick("north", etcd.URL(), rare), w.quick("south", etcd.URL(), rare)
		hears("Sandman", []*node{b}, "tasks_available one one")
		offer := func(id string) {
			w.Helper()
			if _, err := a.Offer(t.Context(), task.ID(id), api.OfferRequest{Agent: "Sandman", To: "Oracle", Text: "you know this"}, ""); err != nil {
				t.Fatal(err)
			}
		}
		offer(first)
		got := b.react("Oracle", 5*time.Second)
		if !slices.Contains(got, "task_offered Alpha from Sandman: you know this") {
			t.Errorf("told %q", got)
		}
		if cl, err := b.Accept(t.Context(), task.ID(first), api.AcceptRequest{Agent: "Oracle"}, ""); err != nil || cl.Agent != "Oracle" {
			t.Errorf("accepted: %+v, %v", cl, err)
		}
		a.mustClaim("Sandman", second)
		offer(second)
		eventually(t, "it is heard of", func() bool {
			return slices.Contains(b.react("Oracle", 0), "task_offered Beta from Sandman: you know this")
		})
		if _, err := b.Decline(t.Context(), task.ID(second), api.DeclineRequest{Agent: "Merlin"}, ""); err == nil {
			t.Error("somebody else declined it")
		}
		if _, err := b.Decline(t.Context(), task.ID(second), api.DeclineRequest{Agent: "Oracle", Reason: "no time"}, ""); err != nil {
			t.Fatal(err)
		}
		hears("Sandman", []*node{a, b}, "message Beta from Oracle: declined: no time")
		if p := w.page(second); p.Text("claimed_by") != "" {
			t.Errorf("the page shows %q", p.Text("claimed_by"))
		}
	})
}

// What agents of two members and people do on the board is told once, wherever it is asked
// for, and also while the member that tells it leaves.
func TestBoardInACluster(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		lead := func(c *config.Config) { c.Agents = []config.Agent{{Name: "Lead", Lead: true}, {Name: "*"}} }
		a, b, c := w.quick("north", etcd.URL(), lead), w.quick("south", etcd.URL(), lead), w.quick("west", etcd.URL(), lead)
		all := []*node{a, b, c}
		hears("Oracle", all)
		hears("Lead", all)
		eventually(t, "the board is taken note of", func() bool {
			return slices.ContainsFunc(etcd.Keys(t, "/dibs/"), func(key string) bool { return strings.HasSuffix(key, "/inbox/now/board") })
		})
		one := w.add("Alpha", nil)
		hears("Oracle", all, "tasks_available one")
		hears("Lead", all, "tasks_available one")
		cl := b.mustClaim("Sandman", one)
		if err := b.complete(cl); err != nil {
			t.Fatal(err)
		}
		hears("Lead", all, "task_finished Alpha from Sandman: done")
		two := w.add("Beta", map[string]any{"claimed_by": text("rich_text", "Oracle")})
		hears("Oracle", all, "task_assigned Beta")
		a.stop() // the one that told
		rest := all[1:]
		w.edit(two, map[string]any{"status": option("status", "COMPLETED")})
		hears("Lead", rest, "task_finished Beta from Oracle")
		w.add("Gamma", map[string]any{"claimed_by": text("rich_text", "Oracle")})
		hears("Oracle", rest, "task_assigned Gamma")
	})
}

// A claim that another member took over is told as lost once, although both tell.
func TestLossInACluster(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		id := w.add("Alpha", nil)
		a, b := w.quick("north", etcd.URL(), nil), w.quick("south", etcd.URL(), nil)
		hears("Sandman", []*node{b}, "tasks_available one")
		a.mustClaim("Sandman", id)
		w.edit(id, map[string]any{"claimed_by": text("rich_text", "Maria"), "claim_token": text("rich_text", "")})
		var got []string
		eventually(t, "it is told", func() bool {
			got = append(got, b.react("Sandman", 0)...)
			return len(got) > 0
		})
		time.Sleep(time.Second)
		if got = append(got, a.react("Sandman", 0)...); len(got) != 1 || !strings.HasPrefix(got[0], "claim_lost Alpha from Maria") {
			t.Errorf("told %q", got)
		}
	})
}

// Without etcd a poll says that it is not known what there is, at the end of its wait if it
// waits; what is sent and acknowledged meanwhile is passed on later.
func TestInboxInAClusterWithoutEtcd(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		way := arbitertest.NewWay(t, etcd.URL())
		id := w.add("Alpha", map[string]any{"claimed_by": text("rich_text", "Ghost")})
		a, b := w.quick("north", way.URL(), nil), w.quick("south", etcd.URL(), nil)
		hears("Oracle", []*node{a, b})
		say := func(text string) {
			w.Helper()
			if _, err := a.Send(t.Context(), api.MessageRequest{From: "Sandman", To: "Oracle", Text: text}, ""); err != nil {
				t.Fatal(err)
			}
		}
		say("one")
		var taken []api.Trigger
		eventually(t, "the first is there", func() bool { taken = a.poll("Oracle", 0); return len(taken) == 1 })
		way.Cut()
		if _, err := a.claim("Ghost", id); code(err) != denied(claim.CodeArbiterUnavailable) {
			t.Errorf("a claim without etcd: %v", err)
		}
		for _, wait := range []float64{0, 0.5} {
			if _, err := a.Poll(t.Context(), "Oracle", api.PollRequest{WaitSeconds: wait}, ""); code(err) != denied(claim.CodeArbiterUnavailable) {
				t.Errorf("a poll without etcd: %v", err)
			}
		}
		if acked, err := a.Ack(t.Context(), "", api.AckRequest{IDs: []string{taken[0].ID}}, ""); err != nil || len(acked.Acknowledged) != 1 {
			t.Errorf("ack: %+v, %v", acked, err)
		}
		say("two")
		var told []string
		var waiting sync.WaitGroup
		waiting.Go(func() { told = a.react("Oracle", 20*time.Second) })
		way.Mend()
		waiting.Wait()
		if !slices.Equal(told, []string{"message from Sandman: two"}) {
			t.Errorf("who waited is told %q", told)
		}
		hears("Oracle", []*node{a, b})
	})
}

// Twenty agents' processes poll under one name at four members, while a member leaves and
// another one comes: each message is told once.
func TestManyPollersInACluster(t *testing.T) {
	const messages = 40
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		var nodes []*node
		for i := range 4 {
			nodes = append(nodes, w.quick(fmt.Sprint("m", i), etcd.URL(), nil))
		}
		hears("Oracle", nodes)
		var mu sync.Mutex
		told := make(map[string]int)
		enough := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(told) == messages || t.Failed()
		}
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				for n := i; !enough(); n++ {
					for _, line := range nodes[n%3].react("Oracle", 100*time.Millisecond) {
						mu.Lock()
						told[line]++
						mu.Unlock()
					}
				}
			})
		}
		for i := range messages {
			from := nodes[i%4]
			if i > messages/2 {
				from = nodes[i%3]
			}
			if _, err := from.Send(t.Context(), api.MessageRequest{To: "Oracle", Text: fmt.Sprint(i)}, ""); err != nil {
				t.Fatal(err)
			}
			if i == messages/2 {
				nodes[3].stop()
			}
		}
		all.Wait()
		for line, n := range told {
			if n != 1 {
				t.Errorf("%q was told %d times", line, n)
			}
		}
	})
}
