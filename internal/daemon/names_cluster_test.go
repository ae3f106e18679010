package daemon_test

import (
	"errors"
	"strings"
	"testing"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// A name that one member has given no other one gives; a session keeps its name without etcd,
// and no new one is given then.
func TestMintInACluster(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		way := arbitertest.NewWay(t, etcd.URL())
		a, b := w.member("north", way.URL()), w.member("south", etcd.URL())
		mint := func(n *node, session string) api.Minted {
			t.Helper()
			m, err := n.Mint(t.Context(), api.MintRequest{Session: session}, "")
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		first := mint(a, "one")
		if !first.Minted || !etcd.Has("/names/"+first.Agent) {
			t.Errorf("minted %+v, which etcd knows: %v", first, etcd.Has("/names/"+first.Agent))
		}
		if again := mint(a, "one"); again.Minted || again.Agent != first.Agent {
			t.Errorf("the same session: %+v", again)
		}
		if other := mint(b, "one"); !other.Minted || other.Agent == first.Agent {
			t.Errorf("a session of another machine: %+v", other)
		}
		way.Cut()
		if again := mint(a, "one"); again.Agent != first.Agent {
			t.Errorf("the same session without etcd: %+v", again)
		}
		if _, err := a.Mint(t.Context(), api.MintRequest{Session: "two"}, ""); code(err) != denied(claim.CodeArbiterUnavailable) {
			t.Errorf("a new name without etcd: %v", err)
		}
		way.Mend()
		eventually(t, "names are minted again", func() bool {
			_, err := a.Mint(t.Context(), api.MintRequest{Session: "two"}, "")
			return err == nil
		})
	})
}

// A name stays its member's when an emptied etcd is adopted.
func TestNameInAnEmptiedCluster(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		n := w.member("north", etcd.URL())
		m, err := n.Mint(t.Context(), api.MintRequest{Session: "one"}, "")
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "it has looked after its names", func() bool { return etcd.Has("/members/") })
		etcd.Stop()
		etcd.Empty()
		etcd.Begin()
		eventually(t, "it is adopted", func() bool {
			_, err := n.AdoptCluster(t.Context(), "")
			return err == nil
		})
		if !etcd.Has("/names/" + m.Agent) {
			t.Errorf("another member could mint %s, which one has here", m.Agent)
		}
	})
}

// How many tasks an agent has counts over all members, by the limit of its own entry or of
// the pattern that covers it; and it is told which it has elsewhere.
func TestLimitInACluster(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		titles := []string{"Mend the roof", "Paint the door", "Oil the hinge"}
		var ids []string
		for _, title := range titles {
			ids = append(ids, w.add(title, nil))
		}
		var nodes []*node
		for _, name := range []string{"north", "south"} {
			o := w.memberOptions(name, etcd.URL())
			o.Config.Agents = []config.Agent{{Name: "Sandman"}, {Name: "agent-*", MaxPerAgent: new(2)}}
			o.Config.Claim.MaxPerAgent = 1
			n := w.start(o)
			w.Cleanup(n.stop)
			nodes = append(nodes, n)
		}
		a, b := nodes[0], nodes[1]
		a.mustClaim("agent-7K9X", ids[0])
		held := b.mustClaim("agent-7K9X", ids[1])
		for _, n := range nodes {
			_, err := n.claim("agent-7K9X", ids[2])
			var p *api.Problem
			if !errors.As(err, &p) || p.Code != api.Code(claim.CodeLimitReached) || len(p.Claims) != 2 {
				t.Fatalf("a third task: %+v", err)
			}
			if elsewhere := p.Claims[1]; elsewhere.ID == p.Claims[0].ID || !strings.Contains(p.Detail, "at other members of the cluster: “"+elsewhere.Task.Title+"” (at "+elsewhere.Member+")") {
				t.Errorf("it has %+v: %s", p.Claims, p.Detail)
			}
			for _, c := range p.Claims {
				if c.Fence == 0 || c.Task.Status != task.InProgress {
					t.Errorf("it has %+v", c)
				}
			}
		}
		if err := b.complete(held); err != nil {
			t.Fatal(err)
		}
		a.mustClaim("agent-7K9X", ids[2])
	})
}
