package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/user"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/door/server"
	"dibs/internal/reserve"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

const claimBody = `{"agent":"Sandman"}`

var withKey = []string{"Idempotency-Key", "k 1"}

func denial(code claim.Code) error { return &claim.Denied{Code: code, Detail: "because"} }

// refused has every claim end with an error.
func refused(err error) func(context.Context, broker.Caller, api.ClaimRequest) (api.Claim, error) {
	return func(context.Context, broker.Caller, api.ClaimRequest) (api.Claim, error) { return api.Claim{}, err }
}

// slowly has a claim take a while.
func slowly(took time.Duration, err error) func(context.Context, broker.Caller, api.ClaimRequest) (api.Claim, error) {
	return func(context.Context, broker.Caller, api.ClaimRequest) (api.Claim, error) {
		time.Sleep(took)
		return held(), err
	}
}

// TestRepeated repeats requests under their key. What is remembered is answered
// alike without another call of the broker, what is not is tried again.
func TestRepeated(t *testing.T) {
	finishing := held()
	finishing.State, finishing.Pending = claim.Finishing, true
	for _, tt := range []struct {
		name, path, body string
		claim            error // how it ends
		lookup, act      error
		forbidden        bool
		status           int
		again            bool
	}{
		{name: "granted", path: "/v1/claims", body: claimBody, status: 201},
		{name: "denied", path: "/v1/claims", body: claimBody, claim: denial(claim.CodeHeld), status: 409},
		{name: "no such task", path: "/v1/claims", body: claimBody, claim: denial(claim.CodeNotFound), status: 404},
		{name: "Notion away", path: "/v1/claims", body: claimBody, claim: denial(claim.CodeNotionUnavailable), status: 503, again: true},
		{name: "failed", path: "/v1/claims", body: claimBody, claim: errors.New("disk full"), status: 500, again: true},
		{name: "forbidden", path: "/v1/claims", body: claimBody, forbidden: true, status: 403, again: true},
		{name: "invalid", path: "/v1/claims", body: `{"agent":"Sandman","taks":"x"}`, status: 422, again: true},
		{name: "accepted", path: "/v1/claims/" + string(claimID) + "/complete", status: 202},
		{name: "lost", path: "/v1/claims/" + string(claimID) + "/renew", act: &claim.Lost{Detail: "gone"}, status: 409},
		{name: "no such claim", path: "/v1/claims/" + string(claimID) + "/renew", lookup: claim.ErrUnknownClaim, status: 404, again: true},
		{name: "sweep", path: "/v1/sweep", status: 200},
	} {
		served(t, tt.name, func(t *testing.T, f *fixture) {
			if tt.forbidden {
				f.broker.only("Oracle")
			}
			asked := 0
			f.broker.claim = func(_ context.Context, who broker.Caller, _ api.ClaimRequest) (api.Claim, error) {
				if asked++; who.Key != "k 1" || who.UID != -1 {
					t.Errorf("%+v asks the broker", who)
				}
				return held(), tt.claim
			}
			f.broker.lookup = func(string, string) (api.Claim, error) {
				asked++
				return held(), tt.lookup
			}
			f.broker.act = func(string, string, any) (api.Claim, error) { return finishing, tt.act }
			f.broker.sweep = func(context.Context, broker.Caller) (api.Sweep, error) {
				asked++
				return api.Sweep{}, nil
			}
			first := f.must("POST", tt.path, tt.body, withKey...)
			once := asked
			second := f.must("POST", tt.path, tt.body, withKey...)
			testkit.Check(t, first.status == tt.status && second.status == tt.status && first.body == second.body,
				"answered %d %s, then %d %s; want %d twice", first.status, first.body, second.status, second.body, tt.status)
			testkit.Check(t, asked == once+map[bool]int{true: once}[tt.again], "the broker was asked %d times, then %d", once, asked-once)
			testkit.Check(t, second.header.Get("Content-Type") == first.header.Get("Content-Type"), "of another type: %v", second.header)
			was, is := first.header.Get("Idempotency-Replayed"), second.header.Get("Idempotency-Replayed")
			testkit.Check(t, was == "" && (is == "true") != tt.again, "the answers say Idempotency-Replayed: %q, %q", was, is)
			testkit.Check(t, f.keys.Has("k 1") != tt.again, "the key is remembered: %v", !tt.again)
		})
	}
}

// TestSameMeaning repeats a request in other words.
func TestSameMeaning(t *testing.T) {
	for _, again := range []string{
		`{"agent":"J\u00f6rg","text":"new","timeout_minutes":45}`,
		`{"timeout_minutes":45, "text":"new", "agent":"J\u00f6rg"}`,
		`{"agent":" Jo\u0308rg","text":"new ","timeout_minutes":"45.0","wait_seconds":0,"except":null}`,
	} {
		served(t, again, func(t *testing.T, f *fixture) {
			f.must("POST", "/v1/claims", `{"agent":"Jörg","text":"new","timeout_minutes":45}`, withKey...)
			if got := f.must("POST", "/v1/claims", again, withKey...); got.header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("answered %d %s, want the first answer", got.status, got.body)
			}
		})
	}
}

// A key on a question changes nothing: it is answered anew each time.
func TestKeyOnQuestions(t *testing.T) {
	served(t, "GET", func(t *testing.T, f *fixture) {
		for range 2 {
			got := f.must("GET", "/v1/status", "", withKey...)
			testkit.Check(t, got.status == 200 && got.header.Get(api.ReplayedHeader) == "" && !f.keys.Has("k 1"), "answered %d %v", got.status, got.header)
		}
	})
}

func TestKeyReused(t *testing.T) {
	for _, tt := range []struct{ name, path, body string }{
		{"for another body", "/v1/claims", `{"agent":"Oracle"}`},
		{"for another operation", "/v1/sweep", claimBody},
		{"for what will be refused", "/v1/claims", `{"agent":"Sandman","taks":"x"}`},
	} {
		served(t, tt.name, func(t *testing.T, f *fixture) {
			f.must("POST", "/v1/claims", claimBody, withKey...)
			got := f.must("POST", tt.path, tt.body, withKey...)
			p := problemIn(t, got)
			testkit.Check(t, got.status == 422 && p.Code == api.CodeKeyReused, "answered %d %s, want 422 key_reused", got.status, got.body)
		})
	}
	served(t, "while the first is worked on", func(t *testing.T, f *fixture) {
		release := make(chan struct{})
		f.broker.claim = func(context.Context, broker.Caller, api.ClaimRequest) (api.Claim, error) {
			<-release
			return held(), nil
		}
		first := make(chan answer, 1)
		go func() { first <- f.must("POST", "/v1/claims", claimBody, withKey...) }()
		synctest.Wait()
		got := f.must("POST", "/v1/claims", `{"agent":"Oracle"}`, withKey...)
		p := problemIn(t, got)
		testkit.Check(t, p.Code == api.CodeKeyReused, "answered %d %s, want key_reused at once", got.status, got.body)
		close(release)
		if got := <-first; got.status != 201 {
			t.Errorf("the first was answered %d", got.status)
		}
	})
}

// A request that the journal keeps waiting is refused within a second. It goes on, as one whose
// caller has gone, and what has a key is answered when it comes again.
func TestJournalSilent(t *testing.T) {
	for _, crashed := range []bool{false, true} {
		served(t, fmt.Sprintf("crashed %v", crashed), func(t *testing.T, f *fixture) {
			gone := make(chan error, 2)
			f.broker.claim = func(ctx context.Context, _ broker.Caller, _ api.ClaimRequest) (api.Claim, error) {
				time.Sleep(10 * time.Second) // for Notion
				for range 2 {
					end := claim.Waiting(ctx)
					time.Sleep(claim.Silence - time.Millisecond)
					end()
				}
				defer claim.Waiting(ctx)()
				time.Sleep(5 * time.Second)
				gone <- ctx.Err()
				if crashed {
					panic("it crashed")
				}
				return held(), nil
			}
			begun := time.Now()
			got := f.must("POST", "/v1/claims", claimBody, withKey...)
			if p := problemIn(t, got); got.status != 503 || p.Code != api.CodeJournalUnavailable || got.header.Get("Retry-After") == "" {
				t.Errorf("answered %d %s, want 503 journal_unavailable, and when to ask again", got.status, got.body)
			}
			took := time.Since(begun)
			testkit.Check(t, took == 10*time.Second+3*claim.Silence-2*time.Millisecond, "answered after %v", took)
			begun = time.Now()
			got = f.must("POST", "/v1/claims", claimBody, withKey...)
			if p := problemIn(t, got); p.Code != api.CodeJournalUnavailable || time.Since(begun) != 0 {
				t.Errorf("the repetition was answered %d %s after %v", got.status, got.body, time.Since(begun))
			}
			time.Sleep(10 * time.Second)
			got = f.must("POST", "/v1/claims", claimBody, withKey...)
			replayed := got.header.Get("Idempotency-Replayed") == "true"
			testkit.Check(t, replayed != crashed, "the repetition was answered %d %v", got.status, got.header)
			err := <-gone
			testkit.Check(t, err != nil, "the handler takes the caller for waiting")
			testkit.Check(t, crashed == strings.Contains(f.logged(), "it crashed"), "the log: %s", f.log)
		})
	}
}

// A grant of which nobody was told, and for which nobody can ask again, is given back.
func TestUnheardGrant(t *testing.T) {
	served(t, "without a key", func(t *testing.T, f *fixture) {
		f.broker.claim = func(ctx context.Context, _ broker.Caller, _ api.ClaimRequest) (api.Claim, error) {
			defer claim.Waiting(ctx)()
			time.Sleep(5 * time.Second)
			return held(), nil
		}
		var ended []api.StopRequest
		f.broker.act = func(_, id string, with any) (api.Claim, error) {
			if finish, ok := with.(api.StopRequest); ok && id == string(claimID) {
				ended = append(ended, finish)
			}
			return held(), nil
		}
		got := f.must("POST", "/v1/claims", claimBody)
		testkit.Check(t, got.status == 503, "answered %d %s", got.status, got.body)
		time.Sleep(5 * time.Second)
		if f.logged(); len(ended) != 1 || !ended[0].Unheard {
			t.Errorf("ended %+v, want it given back", ended)
		}
	})
}

// TestRepeatedInFlight repeats a request while it is being worked on.
func TestRepeatedInFlight(t *testing.T) {
	const others = 5
	for _, tt := range []struct {
		name  string
		first error // how the first attempt ends
	}{
		{"granted", nil},
		{"failed, and tried again by the next", errors.New("disk full")},
	} {
		served(t, tt.name, func(t *testing.T, f *fixture) {
			f.broker.claim = func(context.Context, broker.Caller, api.ClaimRequest) (api.Claim, error) {
				if f.broker.claimed.Load() > 1 {
					return held(), nil
				}
				time.Sleep(time.Minute)
				return held(), tt.first
			}
			answers := make(chan answer, 1+others)
			for range 1 + others {
				go func() { answers <- f.must("POST", "/v1/claims", claimBody, withKey...) }()
			}
			byStatus := make(map[int]int)
			replayed := 0
			for range 1 + others {
				a := <-answers
				byStatus[a.status]++
				if a.header.Get("Idempotency-Replayed") == "true" {
					replayed++
				}
			}
			wantFailed := 0
			if tt.first != nil {
				wantFailed = 1
			}
			n := int(f.broker.claimed.Load())
			testkit.Check(t, n == 1+wantFailed, "the broker was asked %d times", n)
			testkit.Check(t, byStatus[500] == wantFailed && byStatus[201] == 1+others-wantFailed && replayed == others-wantFailed,
				"answers by status %v, %d of them replayed", byStatus, replayed)
		})
	}
}

// TestWaiterGivesUp lets a repetition go away before the first is answered.
func TestWaiterGivesUp(t *testing.T) {
	served(t, "gone", func(t *testing.T, f *fixture) {
		f.broker.claim = slowly(time.Hour, nil)
		first := make(chan answer, 1)
		go func() { first <- f.must("POST", "/v1/claims", claimBody, withKey...) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := f.ask(ctx, "POST", "/v1/claims", claimBody, withKey...)
		testkit.Check(t, errors.Is(err, context.DeadlineExceeded), "the second got %v, want its own deadline", err)
		n := strings.Count(f.logged(), "path=/v1/claims")
		testkit.Check(t, n == 1, "%d requests have ended, want the second alone", n)
		got := <-first
		testkit.Check(t, got.status == 201, "the first was answered %d", got.status)
	})
}

// TestCallerComesBack grants a claim to a caller that went away meanwhile.
func TestCallerComesBack(t *testing.T) {
	served(t, "back", func(t *testing.T, f *fixture) {
		f.broker.claim = slowly(time.Minute, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := f.ask(ctx, "POST", "/v1/claims", claimBody, withKey...)
		testkit.Require(t, err != nil, "the caller was to go away")
		got := f.must("POST", "/v1/claims", claimBody, withKey...)
		testkit.Check(t, got.status == 201 && got.header.Get("Idempotency-Replayed") == "true",
			"answered %d %v, want the 201 of the first", got.status, got.header)
	})
}

// TestInterrupted repeats requests that were cut off by the daemon's end.
func TestInterrupted(t *testing.T) {
	for _, tt := range []struct {
		name   string
		bound  bool
		state  claim.State     // of the claim
		mark   claim.MarkState // of the attempt that left it
		ending claim.Ending
		err    error // of looking it up
		status int
		code   api.Code
		anew   bool // the request is made anew
		stored bool
	}{
		{name: "held", bound: true, state: claim.Held, status: 201, stored: true},
		{name: "not verified yet", bound: true, state: claim.Writing, status: 503, code: api.Code(claim.CodeNotionUnavailable)},
		{name: "completed since", bound: true, state: claim.Ended, ending: claim.EndCompleted, status: 409, code: api.CodeClaimLost, stored: true},
		{name: "completing", bound: true, state: claim.Finishing, status: 409, code: api.CodeClaimLost, stored: true},
		{name: "not granted", bound: true, state: claim.Ended, ending: claim.EndNotGranted, status: 201, anew: true, stored: true},
		{name: "being withdrawn", bound: true, mark: claim.Abandoned, status: 503, code: api.Code(claim.CodeNotionUnavailable)},
		{name: "marked as withdrawn", bound: true, mark: claim.Voided, status: 503, code: api.Code(claim.CodeNotionUnavailable)},
		{name: "written, and not seen", bound: true, mark: claim.Unseen, status: 201, anew: true, stored: true},
		{name: "forgotten", bound: true, err: claim.ErrUnknownClaim, status: 201, anew: true, stored: true},
		{name: "no claim was made", status: 201, anew: true, stored: true},
		{name: "journal broken", bound: true, err: errors.New("disk full"), status: 500, code: api.CodeInternal},
	} {
		served(t, tt.name, func(t *testing.T, f *fixture) {
			f.must("POST", "/v1/claims", claimBody, withKey...)
			if tt.bound {
				f.keys.Bind("k 1", claimID)
			}
			f.keys.Interrupt("k 1")

			f.broker.lookup = func(string, string) (api.Claim, error) {
				c := held()
				c.State, c.Outcome = tt.state, tt.ending
				if m := (claim.Mark{State: tt.mark}); tt.mark != "" {
					c.State, c.Withdrawing = m.Shown(), m.OnPage()
				}
				return c, tt.err
			}
			f.broker.claimed.Store(0)
			got := f.must("POST", "/v1/claims", claimBody, withKey...)
			testkit.Check(t, got.status == tt.status, "answered %d %s, want %d", got.status, got.body, tt.status)
			switch {
			case got.status == http.StatusCreated && got.body != heldJSON+"\n":
				t.Errorf("answered with %s", got.body)
			case got.status != http.StatusCreated:
				p := problemIn(t, got)
				testkit.Check(t, p.Code == tt.code, "answered %s, want %s", got.body, tt.code)
			}
			anew := f.broker.claimed.Load() == 1
			testkit.Check(t, anew == tt.anew, "made anew: %v", anew)
			replayed := got.header.Get("Idempotency-Replayed") == "true"
			testkit.Check(t, replayed == (tt.stored && !tt.anew), "Idempotency-Replayed: %v", replayed)
			if tt.stored { // once more, from memory
				again := f.must("POST", "/v1/claims", claimBody, withKey...)
				testkit.Check(t, again.body == got.body, "the next answer is %s", again.body)
			}
		})
	}
}

// TestFailedAfterGrant fails a request after its claim was made: the claim is
// not forgotten, and is the answer to the next attempt.
func TestFailedAfterGrant(t *testing.T) {
	for _, tt := range []struct {
		name string
		lost error
	}{
		{name: "granted, then failed"},
		{name: "and the claim cannot be looked up at the time", lost: errors.New("database is closed")},
	} {
		served(t, tt.name, func(t *testing.T, f *fixture) {
			f.broker.claim = func(context.Context, broker.Caller, api.ClaimRequest) (api.Claim, error) {
				f.keys.Bind("k 1", claimID)
				f.keys.Lose(tt.lost)
				return api.Claim{}, errors.New("disk full")
			}
			got := f.must("POST", "/v1/claims", claimBody, withKey...)
			testkit.Check(t, got.status == 500, "answered %d, want 500", got.status)
			f.keys.Lose(nil)
			got = f.must("POST", "/v1/claims", claimBody, withKey...)
			testkit.Check(t, got.status == 201 && got.body == heldJSON+"\n", "answered %d %s, want the claim", got.status, got.body)
		})
	}
}

// TestKeyAfterPanic works a request off anew whose first attempt panicked.
func TestKeyAfterPanic(t *testing.T) {
	served(t, "panic", func(t *testing.T, f *fixture) {
		f.broker.sweep = func(context.Context, broker.Caller) (api.Sweep, error) {
			if f.broker.swept.Load() == 1 {
				panic("not a sweep")
			}
			return api.Sweep{}, nil
		}
		got := f.must("POST", "/v1/sweep", "", withKey...)
		testkit.Check(t, got.status == 500, "answered %d, want 500", got.status)
		got = f.must("POST", "/v1/sweep", "", withKey...)
		testkit.Check(t, got.status == 200, "answered %d %s, want 200", got.status, got.body)
	})
}

// TestUnansweredAdd repeats a request that makes a task and was cut off: it is carried out again,
// as what it makes is found by its key, and it keeps the key until it is answered.
func TestUnansweredAdd(t *testing.T) {
	served(t, "add", func(t *testing.T, f *fixture) {
		const body = `{"title":"Write"}`
		failed := errors.New("no answer")
		tries := 0
		f.broker.owing = func(string, caller, any) error {
			f.keys.Bind("k 1", claimID)
			if tries++; tries < 3 {
				return failed
			}
			return nil
		}
		for try, status := range []int{500, 500, 201, 201} {
			got := f.must("POST", "/v1/tasks", body, withKey...)
			testkit.Check(t, got.status == status && (got.header.Get("Idempotency-Replayed") == "true") == (try == 3),
				"try %d: answered %d %s, %v", try, got.status, got.body, got.header)
		}
		testkit.Check(t, tries == 3, "carried out %d times, want 3", tries)
	})
}

// What decides the answer to a request reaches the broker: whose it is, and where it came in. Two users may use one key.
func TestWhatIsAskedArrives(t *testing.T) {
	for _, tt := range []struct{ method, path, body, want string }{
		{"GET", "/v1/claims?agent=Sandman", "", "ListClaims of &{Sandman}, at one, key  of -1"},
		{"GET", "/v1/reservations?agent=Sandman&targets=true", "", "Reservations of &{Sandman true}, at one, key  of -1"},
		{"POST", "/v1/reservations/check", `{"agent":"Sandman","targets":[{"path":"a.go","at":[{"in":"name:x","path":"a.go"}]}]}`, "Check of Sandman, at one, key k of -1"},
		{"POST", "/v1/agents/Sandman/poll", `{}`, "Poll of Sandman, at one, key k of -1"},
		{"POST", "/v1/messages", `{"from":"Sandman","to":"Oracle","text":"hi"}`, "Send of Sandman, at one, key k of -1"},
		{"POST", "/v1/tasks/" + string(taskID) + "/comments", `{"agent":"Sandman","text":"hi"}`, "Comment of Sandman, at one, key k of -1"},
	} {
		testkit.Bubble(t, tt.want, func(t *testing.T) {
			asked := ""
			f := &fixture{t: t, broker: newFake(t), keys: newMemory(t), pipe: server.NewPipe(), log: new(logBuffer)}
			f.broker.anyone = true
			f.broker.owing = func(what string, by caller, in any) error {
				switch i := in.(type) {
				case *api.CheckInput:
					in = i.Body.Agent
				case *api.PollInput:
					in = i.Name
				case *api.KeyedInput[api.MessageRequest]:
					in = i.Body.From
				case *api.TaskInput[api.CommentRequest]:
					in = i.Body.Agent
				}
				asked += fmt.Sprintf("%s of %v, at %s, key %s of %d", what, in, by.Member, by.Key, by.UID)
				return nil
			}
			f.server = server.New(server.Options{Broker: f.broker, Journal: f.keys, Version: "v1.2.3", Log: f.logger()})
			f.serveAt(server.NewFront(f.server, server.FrontOptions{Member: "one", Log: f.logger()}), f.pipe)
			var header []string
			if tt.method == "POST" {
				header = []string{"Idempotency-Key", "k"}
			}
			got := f.must(tt.method, tt.path, tt.body, header...)
			testkit.Check(t, got.status < 300 && asked == tt.want, "answered %d: %s; asked for %q", got.status, got.body, asked)
		})
	}
}

// operation is what the description says of one.
type operation struct {
	RequestBody struct {
		Content map[string]struct{ Schema *schema }
	}
}

// schema is a type, as the description has it.
type schema struct {
	Ref        string `json:"$ref"`
	Type       any
	Properties map[string]*schema
	Required   []string
	Items      *schema
}

// nobodysRow is a row of the table of what is done in nobody's name.
var nobodysRow = regexp.MustCompile("(?m)^\\| `([A-Z]+ /v1/[^`]*)`(?:, `([A-Z]+ /v1/[^`]*)`)? \\|([^|]*)\\|$")

// sandmans are triggers and reservations, all of them Sandman's.
type sandmans struct {
	broker.Inbox
	broker.Reservations
}

func (sandmans) TriggerAgents(_ context.Context, ids []string) (map[string]string, error) {
	of := make(map[string]string)
	for _, id := range ids {
		of[id] = "Sandman"
	}
	return of, nil
}

func (sandmans) Find(context.Context, string) (reserve.Reservation, error) {
	return reserve.Reservation{Agent: "Sandman"}, nil
}

// Every operation that changes something demands an agent's name that the caller may use, or
// stands in the table of docs/threats.md; where that says that it is signed, the broker is
// told which user it was (TestSigned of package broker shows that it signs). It goes through all
// operations that there are.
func TestWhateverIsDoneInNobodysNameIsSigned(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("the kernel does not say who calls")
	}
	me := testkit.Got(user.Current())(t)
	signature := task.UserSignature(me.Username)
	threats := testkit.Got(os.ReadFile("../../../docs/threats.md"))(t)
	rows := make(map[string]string)
	for _, row := range nobodysRow.FindAllStringSubmatch(string(threats), -1) {
		for _, name := range row[1:3] {
			rows[name] = row[3]
		}
	}

	delete(rows, "")
	path := socketPath(t)
	f := start(t)
	f.serve(listen(t, path))
	f.broker.Broker = broker.New(broker.Config{
		Clock: testkit.Clock{}, Log: slog.New(slog.DiscardHandler),
		Agents: []broker.Agent{{Name: "somebody else"}}, Inbox: broker.InboxConfig{Inbox: sandmans{}}, Reserved: sandmans{},
	})
	var acted, signed bool
	f.broker.owing = func(_ string, who caller, _ any) error {
		acted, signed = true, who.User == signature
		return nil
	}
	f.broker.sweep = func(_ context.Context, who broker.Caller) (api.Sweep, error) {
		return api.Sweep{}, f.broker.owing("sweep", who, nil)
	}
	bodies := f.bodies("x")
	var seen []string
	for name, body := range bodies {
		method, address, _ := strings.Cut(name, " ")
		if method == "GET" {
			continue
		}
		seen = append(seen, name)
		about := string(taskID)
		if strings.HasPrefix(address, "/v1/claims/") {
			about = string(claimID)
		}
		acted, signed = false, false
		got := testkit.Got(exchange(t.Context(), dialer(path), method, strings.NewReplacer("{id}", about, "{name}", "Sandman").Replace(address), body))(t)
		row, listed := rows[name]
		switch {
		case !acted && problemIn(t, got).Code == api.CodeForbiddenAgent:
			testkit.Check(t, !listed, "%s demands an agent's name, and stands in the table of what is done in nobody's", name)
		case !acted:
			t.Errorf("%s %s was answered %d %s: it is to be seen whether it demands an agent's name", name, body, got.status, got.body)
		case !listed:
			t.Errorf("%s is done in nobody's name and does not stand in the table of docs/threats.md: have it demand an agent's name, or sign it (see signature), and say so there", name)
		case strings.Contains(row, "signed") && !signed:
			t.Errorf("%s: signed is %v, and docs/threats.md says:%s", name, signed, row)
		}
	}
	for name := range rows {
		testkit.Check(t, slices.Contains(seen, name), "docs/threats.md speaks of %s, which there is not", name)
	}
}

// bodies returns the operations, by method and path, each with the least body that it takes: its texts
// are text.
func (f *fixture) bodies(text string) map[string]string {
	f.t.Helper()
	var doc struct {
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]*schema }
	}
	testkit.Must(f.t, json.Unmarshal([]byte(f.must("GET", "/openapi.json", "").body), &doc))
	var least func(s *schema) any
	least = func(s *schema) any {
		if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
			s = doc.Components.Schemas[name]
		}
		switch {
		case s.Properties != nil:
			made := make(map[string]any)
			for _, name := range s.Required {
				made[name] = least(s.Properties[name])
			}
			return made
		case s.Items != nil:
			return []any{least(s.Items)}
		}
		return text
	}
	bodies := make(map[string]string)
	for address, methods := range doc.Paths {
		for method, op := range methods {
			body := ""
			if content, ok := op.RequestBody.Content["application/json"]; ok {
				body = string(testkit.Got(json.Marshal(least(content.Schema)))(f.t))
			}
			bodies[strings.ToUpper(method)+" "+address] = body
		}
	}
	return bodies
}

// What a user may ask for without end is bounded, all together: so many at once, then one
// every so often. The refusal says when to go on, and is not remembered under the key. Every
// operation that writes says what meters it.
func TestOwingIsBounded(t *testing.T) {
	requests := []struct{ path, body string }{
		{"/v1/messages", `{"from":"Sandman","to":"Oracle","text":"hello"}`},
		{"/v1/messages", `{"to":"all","text":"hello"}`},
		{"/v1/tasks", `{"title":"Write"}`},
		{"/v1/tasks/" + string(taskID) + "/comments", `{"agent":"Sandman","text":"hello"}`},
		{"/v1/tasks/" + string(taskID) + "/offer", `{"agent":"Sandman","to":"Oracle"}`},
		{"/v1/tasks/" + string(taskID) + "/decline", `{"agent":"Sandman"}`},
		{"/v1/tasks/" + string(taskID) + "/reopen", `{}`},
		{"/v1/reopen", `{"failed_by":"Sandman"}`},
		{"/v1/pause", `{"agent":"Sandman"}`},
	}
	asks := []*api.Operation{api.OpCheck.Operation} // which is no GET, and writes nothing
	for _, op := range api.Operations() {
		if writes := (op.Method != http.MethodGet || op.Changes) && !slices.Contains(asks, op); writes != (op.Meter != "") {
			t.Errorf("%s: that it writes is %v, and what meters it is %q", op.Pattern(), writes, op.Meter)
		}
		asked := slices.ContainsFunc(requests, func(r struct{ path, body string }) bool {
			return api.OperationOf(httptest.NewRequest(http.MethodPost, r.path, nil)) == op
		})
		if metered := op.Meter == api.ByQuota; metered != asked {
			t.Errorf("%s is metered by the user's quota: %v, and asked for here: %v", op.Pattern(), metered, asked)
		}
	}
	served(t, "bounds", func(t *testing.T, f *fixture) {
		done := 0
		f.broker.owing = func(string, caller, any) error {
			done++
			return nil
		}
		for i := range 200 {
			r := requests[i%len(requests)]
			got := f.must("POST", r.path, r.body)
			testkit.Require(t, got.status < 300, "%d, %s: answered %d %s", i, r.path, got.status, got.body)
		}
		for i, r := range requests {
			key := fmt.Sprint("key", i)
			got := f.must("POST", r.path, r.body, api.KeyHeader, key)
			p := problemIn(t, got)
			if got.status != 429 || p.Code != api.Code(claim.CodeLimitReached) || p.RetryAfter != 2 || got.header.Get("Retry-After") != "2" {
				t.Errorf("%s: answered %d %v %s", r.path, got.status, got.header, got.body)
			}
			testkit.Require(t, done == 200+i, "%s: %d were done, want %d", r.path, done, 200+i)
			time.Sleep(time.Duration(p.RetryAfter) * time.Second)
			got = f.must("POST", r.path, r.body, api.KeyHeader, key)
			testkit.Check(t, got.status < 300, "%s, after the wait: answered %d %s", r.path, got.status, got.body)
		}
		// An answer that was given is given again at any time, and counts for nothing.
		got := f.must("POST", requests[0].path, requests[0].body, api.KeyHeader, "key0")
		testkit.Check(t, got.header.Get(api.ReplayedHeader) == "true", "a repetition was answered %d %s", got.status, got.body)
		// Nothing else is held up.
		got = f.must("POST", "/v1/claims/"+string(claimID)+"/release", "")
		testkit.Check(t, got.status < 300, "a release was answered %d %s", got.status, got.body)
	})
}
