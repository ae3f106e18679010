package broker_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/claim/brake"
	"dibs/internal/claim/keepers"
	"dibs/internal/claim/sim"
	"dibs/internal/journal"
	"dibs/internal/journal/journaltest"
	"dibs/internal/mirror"
	"dibs/internal/reserve"
	"dibs/internal/task"
)

// house is a broker with a claimer and a journal that are the real ones, on a simulated board
// that its mirror shows as it is. It lives in a bubble.
type house struct {
	*testing.T
	*broker.Broker
	board   *sim.Register
	store   *sim.Store
	claimer *claim.Claimer
	path    string // of the journal
	feeds   bool   // the journal has the tasks, see publish
	// old are tasks that the mirror shows as they were.
	old     map[task.ID]task.Task
	config  broker.Config
	policy  claim.Policy
	bounds  brake.Bounds
	journal *journal.Journal
	stop    func() // what runs until the end
}

// inHouse runs a test in a house with those tasks, which change may furnish otherwise.
func inHouse(t *testing.T, change func(*house), tasks []task.Task, test func(h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &house{T: t, board: sim.NewRegister(tasks...), path: filepath.Join(t.TempDir(), journal.FileName), policy: sim.Policy(), old: make(map[task.ID]task.Task)}
		h.config = broker.Config{
			Inbox: broker.InboxConfig{
				Listen:     func(context.Context, string) (int, time.Duration) { return 0, time.Minute },
				Visibility: 30 * time.Minute, Offer: time.Hour,
			},
			Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		}
		if change != nil {
			change(h)
		}
		h.open()
		defer func() { h.close() }()
		test(h)
	})
}

// open makes all that is made anew when a daemon starts.
func (h *house) open() {
	h.Helper()
	var err error
	if h.journal, err = journaltest.Open(h.Context(), h.path); err != nil {
		h.Fatal(err)
	}
	led, c := h.journal, h.config
	if err := led.SetBounds(h.Context(), h.bounds); err != nil {
		h.Fatal(err)
	}
	h.store = h.board.Store(sim.StoreOptions{Name: "here"})
	h.claimer, err = claim.New(claim.Config{
		Store: h.store, Ledger: led, Policy: h.policy, Board: shown{h.board, h.old}, Watcher: watcher{h: h}, Log: c.Log,
	})
	if err == nil {
		err = h.claimer.Recover(h.Context())
	}
	if err != nil {
		h.Fatal(err)
	}
	c.Claimer, c.Mirror, c.Journal, c.Feed, c.Names, c.Past, c.Clock = h.claimer, shown{h.board, h.old}, led, led, led, led, h.store
	c.Inbox.Inbox = led
	if c.Alive, err = keepers.New(h.Context(), keepers.Config{Storage: h.journal, Claims: h.claimer, Log: c.Log}); err != nil {
		h.Fatal(err)
	}
	reserved, err := reserve.NewBook(h.Context(), reserve.Config{
		Storage: led, Claims: h.claimer, Processes: keepers.Here{}, Clock: h.store, Log: c.Log,
	})
	if err != nil {
		h.Fatal(err)
	}
	c.Reserved = reserved
	h.Broker = broker.New(c)
	ctx, cancel := context.WithCancel(h.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		reserved.Run(ctx)
	}()
	h.stop = func() {
		cancel()
		<-done
	}
}

func (h *house) close() {
	h.Close()
	h.stop()
	if err := h.journal.Close(); err != nil {
		h.Error(err)
	}
}

// restart is what a restart of the daemon leaves.
func (h *house) restart() {
	h.Helper()
	h.close()
	h.open()
}

// edit is a person's edit, which the mirror shows at once.
func (h *house) edit(id task.ID, change func(*task.Task)) {
	h.board.Edit(id, change)
	h.Changed(id)
}

// ask asks for a claim, as nobody known.
func (h *house) ask(r api.ClaimRequest) (api.Claim, error) {
	return h.Claim(h.Context(), nobody, &api.KeyedInput[api.ClaimRequest]{Body: r})
}

// did asks for one of the broker's operations as nobody known, and returns the code of its error, too.
func did[In, Out any](h *house, do func(context.Context, broker.Caller, In) (Out, error), in In) (Out, string) {
	out, err := do(h.Context(), nobody, in)
	return out, h.code(err)
}

// must is did for what has to succeed.
func must[In, Out any](h *house, do func(context.Context, broker.Caller, In) (Out, error), in In) Out {
	h.Helper()
	out, err := do(h.Context(), nobody, in)
	if err != nil {
		h.Fatal(err)
	}
	return out
}

// keyed is a request with that body, and no key.
func keyed[T any](body T) *api.KeyedInput[T] { return &api.KeyedInput[T]{Body: body} }

// wantTold takes an agent's triggers, acknowledges them, and compares them, as "type title from sender: text", with a
// 1 for each task that is available.
func (h *house) wantTold(agent string, want ...string) {
	h.Helper()
	triggers, err := h.poll(h.Context(), agent, "", 0)
	if err != nil {
		h.Fatal(err)
	}
	var told, ids []string
	for _, t := range triggers {
		ids = append(ids, t.ID)
		line := string(t.Type)
		if t.Task != nil {
			line += " " + t.Task.Title
		}
		if t.From != "" {
			line += " from " + t.From
		}
		if t.Text != "" {
			line += ": " + t.Text
		}
		told = append(told, line+strings.Repeat(" 1", t.Count))
	}
	must(h, h.Ack, &api.AckInput{Name: agent, Body: api.AckRequest{IDs: ids}})
	if !slices.Equal(told, want) {
		h.Errorf("%s is told %q, want %q", agent, told, want)
	}
}

// publish has the journal tell agents what happened to tasks since the last time. The first time
// nothing is news.
func (h *house) publish() {
	h.Helper()
	tasks := h.board.Tasks()
	err := h.journal.PutTasks(h.Context(), tasks)
	tell := func() {
		for _, t := range tasks {
			_, perr := h.journal.Publish(h.Context(), h.store.Now(), []task.ID{t.ID})
			err = errors.Join(err, perr)
		}
	}
	if !h.feeds {
		tell()
		h.feeds, err = true, errors.Join(err, h.journal.BeginFeed(h.Context()))
	}
	if tell(); err != nil {
		h.Fatal(err)
	}
	h.Published()
}

// costs counts what is asked of Notion meanwhile.
func (h *house) costs(do func()) (reads, writes int) {
	before := len(h.store.Calls())
	do()
	for _, c := range h.store.Calls()[before:] {
		if c.Write == nil {
			reads++
		} else {
			writes++
		}
	}
	return reads, writes
}

// records are the facts on record of those kinds, as "kind agent holder".
func (h *house) records(kinds ...claim.Kind) (all []string) {
	h.Helper()
	facts, err := h.journal.Facts(h.Context(), journal.FactFilter{})
	if err != nil {
		h.Fatal(err)
	}
	for _, f := range facts {
		if slices.Contains(kinds, f.Kind) {
			all = append(all, strings.TrimSpace(fmt.Sprint(f.Kind, " ", f.Agent, " ", f.Holder)))
		}
	}
	return all
}

// send sends a message, in the name of a user if it has no sender.
func (h *house) send(m api.MessageRequest) error {
	_, err := h.Send(h.Context(), broker.Caller{UID: -1, User: "user 1000"}, &api.KeyedInput[api.MessageRequest]{Body: m})
	return err
}

// poll takes an agent's triggers, and waits for so many seconds.
func (h *house) poll(ctx context.Context, agent, key string, wait float64) ([]api.Trigger, error) {
	got, err := h.Poll(ctx, broker.Caller{UID: -1, Key: key}, &api.PollInput{Name: agent, Body: &api.PollRequest{WaitSeconds: wait}})
	return got.Triggers, err
}

// renew renews a claim, the only one of the agent if id is empty.
func (h *house) renew(agent, id string) error {
	in := api.On(cmp.Or(id, api.OnlyClaim), "", api.RenewRequest{Agent: agent})
	_, err := h.Renew(h.Context(), nobody, &in)
	return err
}

// claim asks for a task, the next ready one if id is empty.
func (h *house) claim(agent string, id task.ID) (api.Claim, error) {
	return h.ask(api.ClaimRequest{Agent: agent, Task: string(id)})
}

// mustClaim fails the test unless the claim is granted.
func (h *house) mustClaim(agent string, id task.ID) api.Claim {
	h.Helper()
	cl, err := h.claim(agent, id)
	if err != nil {
		h.Fatalf("%s: %v", agent, err)
	}
	return cl
}

// finish ends a claim, the only one of the agent if id is empty.
func (h *house) finish(agent, id string, as claim.Ending, summary string) (api.Claim, error) {
	id = cmp.Or(id, api.OnlyClaim)
	switch as {
	case claim.EndCompleted:
		in := api.On(id, "", api.CompleteRequest{Agent: agent, Summary: summary})
		return h.Complete(h.Context(), nobody, &in)
	case claim.EndReleased:
		in := api.On(id, "", api.StopRequest{Agent: agent, Reason: summary})
		return h.Release(h.Context(), nobody, &in)
	case claim.EndFailed:
		in := api.On(id, "", api.FailRequest{Agent: agent, Reason: summary})
		return h.Fail(h.Context(), nobody, &in)
	case claim.EndBlocked:
		in := api.On(id, "", api.BlockRequest{Agent: agent, Reason: summary})
		return h.Block(h.Context(), nobody, &in)
	}
	h.Fatalf("nothing ends as %s", as)
	return api.Claim{}, nil
}

// mustFinish fails the test unless the claim ends so.
func (h *house) mustFinish(agent, id string, as claim.Ending, summary string) api.Claim {
	h.Helper()
	cl, err := h.finish(agent, id, as, summary)
	if err != nil {
		h.Fatal(err)
	}
	return cl
}

// code is the code of the problem that callers are told of, or the error's text.
func (h *house) code(err error) string {
	if err == nil {
		return "<nil>"
	}
	if p := h.Problem(err); p != nil {
		return string(p.Code)
	}
	return err.Error()
}

// watcher tells the broker what the claimer does.
type watcher struct {
	claim.Unwatched
	h *house
}

func (w watcher) Observe(r claim.Reading) {
	if w.h.feeds {
		if err := w.h.journal.PutTasks(w.h.Context(), []task.Task{r.Task}); err != nil {
			w.h.Error(err)
		}
	}
	w.h.Changed(r.Task.ID)
}

func (w watcher) Stored(c claim.Hold) { w.h.Claimed(c) }

func (shown) Knows(task.Task) bool { return true }

func (s shown) Blockers(_ context.Context, t task.Task) (left []task.ID, err error) {
	return task.Unfinished(t, s.Task), nil
}

// shown is a mirror, and a claimer's board, that is behind for the old tasks only.
type shown struct {
	*sim.Register
	old map[task.ID]task.Task
}

func (s shown) Tasks() iter.Seq[task.Task] {
	tasks := s.Register.Tasks()
	for i, t := range tasks {
		if was, ok := s.old[t.ID]; ok {
			tasks[i] = was
		}
	}
	task.Sort(tasks)
	return slices.Values(tasks)
}

func (s shown) Used()               {}
func (s shown) Use(context.Context) {}
func (s shown) Await() func()       { return func() {} }

func (s shown) Len() int { return len(s.Register.Tasks()) }

func (s shown) Absent(id task.ID) bool {
	_, ok := s.Task(id)
	return !ok
}

func (s shown) Task(id task.ID) (task.Task, bool) {
	tasks := slices.Collect(s.Tasks())
	if i := slices.IndexFunc(tasks, func(t task.Task) bool { return t.ID == id }); i >= 0 {
		return tasks[i], true
	}
	return task.Task{}, false
}

func (s shown) Standing() mirror.Standing { return mirror.Standing{SyncedAt: time.Now()} }
func (shown) Closed() error               { return nil }

func (shown) Sync(context.Context, bool) (mirror.Result, error) {
	return mirror.Result{}, errors.New("it is never behind")
}

// nobody is a caller of whom nothing is known.
var nobody = broker.Caller{UID: -1}

// openTask is a task that anybody may claim; those with lower numbers are older.
func openTask(n int, title string) task.Task {
	return task.Task{
		ID: task.ID("11111111-2222-3333-4444-00000000000" + string(rune('0'+n))), Key: "TASK-" + string(rune('0'+n)),
		Title: title, Status: task.Open, Created: began,
	}
}

// take puts Anna's name on the task of a claim, and has the guard see it.
func (h *house) take(cl api.Claim) {
	h.Helper()
	h.edit(cl.Task.ID, func(t *task.Task) { t.ClaimedBy = "Anna" })
	h.guard(cl)
}

// guard has the guard find that a claim is lost.
func (h *house) guard(cl api.Claim) {
	h.Helper()
	err := h.claimer.Guard(h.Context(), cl.ID, nil)
	if _, lost := errors.AsType[*claim.Lost](err); !lost {
		h.Fatalf("the guard says %v, want that the claim is lost", err)
	}
}

// logged returns how many facts of that kind are on record.
func (h *house) logged(kind claim.Kind) (n int) {
	h.Helper()
	facts, err := h.journal.Facts(h.Context(), journal.FactFilter{})
	if err != nil {
		h.Fatal(err)
	}
	for _, f := range facts {
		if f.Kind == kind {
			n++
		}
	}
	return n
}

// skewed is a clock that is ahead of this machine's.
type skewed struct{ by time.Duration }

func (s *skewed) Now() time.Time { return time.Now().Add(s.by) }

// TestLocal has the estimate of Notion's time change between two answers that have
// the same moment.
func TestLocal(t *testing.T) {
	const ms = time.Millisecond
	page := time.Date(2026, 11, 20, 12, 43, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		// ahead is by how much this machine's clock seems to be ahead, and want by how
		// much later what is told is than what Notion shows.
		ahead, want []time.Duration
	}{
		"right":                        {[]time.Duration{0, -time.Microsecond, time.Microsecond, -ms, ms}, []time.Duration{0, 0, 0, 0, 0}},
		"right, for all that is known": {[]time.Duration{0, 700 * ms, -900 * ms, 999 * ms, -time.Second}, []time.Duration{0, 0, 0, 0, 0}},
		"ahead by a minute":            {[]time.Duration{59700 * ms, 60100 * ms, 60999 * ms, 59001 * ms}, []time.Duration{time.Minute, time.Minute, time.Minute, time.Minute}},
		"behind by a minute":           {[]time.Duration{-59700 * ms, -60100 * ms, -60999 * ms}, []time.Duration{-time.Minute, -time.Minute, -time.Minute}},
		"at half a second":             {[]time.Duration{4499 * ms, 4501 * ms, 4499 * ms, 4501 * ms}, []time.Duration{4 * time.Second, 4 * time.Second, 4 * time.Second, 4 * time.Second}},
		"set right":                    {[]time.Duration{0, time.Hour, time.Hour + 800*ms, 200 * ms, 0}, []time.Duration{0, time.Hour, time.Hour, 0, 0}},
		"drifting":                     {[]time.Duration{0, time.Second, 1001 * ms, 2 * time.Second, 2001 * ms, 1 * time.Second}, []time.Duration{0, 0, time.Second, time.Second, 2 * time.Second, 2 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				notion := new(skewed)
				b := broker.New(broker.Config{Clock: notion})
				for i := range tt.ahead {
					notion.by = -tt.ahead[i]
					if got := b.Local(page).Sub(page); got != tt.want[i] {
						t.Errorf("ahead by %v: what Notion shows is told %v later, want %v", tt.ahead[i], got, tt.want[i])
					}
					if !b.Local(time.Time{}).IsZero() {
						t.Error("no time became one")
					}
				}
			})
		})
	}
}
