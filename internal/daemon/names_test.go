package daemon_test

import (
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
)

// mint returns the name of a session.
func (n *node) mint(session string) (api.Minted, error) {
	return n.Mint(n.w.Context(), api.MintRequest{Session: session}, "")
}

func (n *node) mustMint(session string) string {
	n.w.Helper()
	got, err := n.mint(session)
	if err != nil {
		n.w.Fatal(err)
	}
	return got.Agent
}

func (n *node) agent(name string) api.Agent {
	n.w.Helper()
	a, err := n.Agent(n.w.Context(), name)
	if err != nil {
		n.w.Fatal(err)
	}
	return a
}

// A session keeps its name across restarts, new names are allowed by the last loaded configuration,
// and none of this costs a request to Notion.
func TestNames(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		for range 3 {
			w.add("work", nil)
		}
		o := w.options(func(c *config.Config) {
			c.Sync.Interval, c.Claim.MaxPerAgent = time.Hour, 1
		})
		n := w.start(o)
		time.Sleep(time.Second)
		w.notion.ResetRequests()
		first := n.mustMint("one")
		if !strings.HasPrefix(first, "agent-") || n.mustMint("one") != first || n.mustMint("") == first {
			w.Errorf("minted %q", first)
		}
		if who := n.agent(first); !who.Allowed || who.MaxPerAgent != 1 {
			w.Errorf("agent %+v", who)
		}
		for name, err := range map[string]error{
			"an agent":       second(n.Agent(w.Context(), "auto")),
			"a claim":        second(n.claim("auto", "")),
			"a message":      second(n.Send(w.Context(), api.MessageRequest{To: "auto", Text: "hello"}, "")),
			"a long session": second(n.mint(strings.Repeat("s", api.MaxSession+1))),
		} {
			if code(err) != "invalid_request" {
				w.Errorf("%s: err = %v", name, err)
			}
		}
		if sent := w.requests(); len(sent) != 0 {
			w.Errorf("it took %q", sent)
		}
		n.stop()

		n = w.start(o)
		if got := n.mustMint("one"); got != first {
			w.Errorf("after a restart %q, want %q", got, first)
		}
		n.mustClaim(first, "")
		if _, err := n.claim(first, ""); code(err) != denied(claim.CodeLimitReached) {
			w.Errorf("beyond the limit: err = %v", err)
		}
		c := o.Config
		c.Agents = []config.Agent{{Name: first, MaxPerAgent: new(2)}, {Name: "Sandman", UIDs: []int{4711}}}
		mustDo(w, n.daemon.Reload(c))
		if got, err := n.mint("two"); code(err) != "forbidden_agent" {
			w.Errorf("after a reload that lists no minted names: %+v, %v", got, err)
		}
		n.mustClaim(first, "")                                                // which has its own limit now
		if _, err := n.claim("Sandman", ""); code(err) != "forbidden_agent" { // the caller of these tests is unknown
			w.Errorf("a name of another user: err = %v", err)
		}
	})
}

// second is the error of a call.
func second[T any](_ T, err error) error { return err }
