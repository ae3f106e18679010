package server_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/door/server"
)

// noting is a broker that notes what it is asked, and answers nothing.
type noting struct {
	*fake
	asked []string
}

func (n *noting) note(format string, args ...any) {
	n.asked = append(n.asked, fmt.Sprintf(format, args...))
}

func (n *noting) Authorize(string, broker.Caller) error { return nil }

func (n *noting) ListClaims(_ context.Context, _ broker.Caller, in *api.AgentFilter) (api.Claims, error) {
	n.note("claims of %s", in.Agent)
	return api.Claims{}, nil
}

func (n *noting) Reservations(_ context.Context, who broker.Caller, in *api.ListReservationsInput) (api.Reservations, error) {
	n.note("reservations of %s, compared %v, at %s", in.Agent, in.Targets, who.Member)
	return api.Reservations{}, nil
}

func (n *noting) Check(_ context.Context, who broker.Caller, in *api.CheckInput) (api.Checked, error) {
	n.note("whether %s may, at %s", in.Body.Agent, who.Member)
	return api.Checked{}, nil
}

func (n *noting) Poll(_ context.Context, who broker.Caller, in *api.PollInput) (api.Triggers, error) {
	n.note("poll of %s, key %s of %d", in.Name, who.Key, who.UID)
	return api.Triggers{}, nil
}

func (n *noting) Send(_ context.Context, who broker.Caller, in *api.KeyedInput[api.MessageRequest]) (api.Message, error) {
	n.note("message of %s, key %s of %d", in.Body.From, who.Key, who.UID)
	return api.Message{}, nil
}

func (n *noting) Comment(_ context.Context, who broker.Caller, in *api.TaskInput[api.CommentRequest]) (api.Commented, error) {
	n.note("comment of %s, key %s of %d", in.Body.Agent, who.Key, who.UID)
	return api.Commented{}, nil
}

// What decides the answer to a request reaches the broker: whose it is, and where it came in. Two
// users may use one key.
func TestWhatIsAskedArrives(t *testing.T) {
	const id = "11111111-1111-1111-1111-111111111111"
	for _, tt := range []struct{ method, path, body, want string }{
		{"GET", "/v1/claims?agent=Sandman", "", "claims of Sandman"},
		{"GET", "/v1/reservations?agent=Sandman", "", "reservations of Sandman, compared false, at one"},
		{"GET", "/v1/reservations?agent=Sandman&targets=true", "", "reservations of Sandman, compared true, at one"},
		{"POST", "/v1/reservations/check", `{"agent":"Sandman","targets":[{"path":"a.go","at":[{"in":"name:x","path":"a.go"}]}]}`, "whether Sandman may, at one"},
		{"POST", "/v1/agents/Sandman/poll", `{}`, "poll of Sandman, key k of -1"},
		{"POST", "/v1/messages", `{"from":"Sandman","to":"Oracle","text":"hi"}`, "message of Sandman, key k of -1"},
		{"POST", "/v1/tasks/" + id + "/comments", `{"agent":"Sandman","text":"hi"}`, "comment of Sandman, key k of -1"},
	} {
		inBubble(t, tt.want, func(t *testing.T) {
			n := &noting{fake: newFake(t)}
			f := &fixture{t: t, broker: n.fake, keys: newMemory(t), pipe: server.NewPipe(), log: new(logBuffer)}
			f.server = server.New(server.Options{Broker: n, Journal: f.keys, Version: "v1.2.3", Log: f.logger()})
			front := server.NewFront(f.server, server.FrontOptions{Member: "one", Log: f.logger()})
			f.serveAt(front, f.pipe)
			var header []string
			if tt.method == "POST" {
				header = []string{"Idempotency-Key", "k"}
			}
			if got := f.must(tt.method, tt.path, tt.body, header...); got.status >= 300 {
				t.Errorf("answered %d: %s\n%s", got.status, got.body, f.log)
			}
			if !slices.Equal(n.asked, []string{tt.want}) {
				t.Errorf("the broker was asked for %q, want %q", n.asked, tt.want)
			}
		})
	}
}
