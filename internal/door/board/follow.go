package board

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/kit/clock"
	"dibs/internal/task"

	"golang.org/x/sync/errgroup"
)

// How often the daemon is asked. Events of tasks arrive by themselves, and are processed after a
// moment of quiet; leases and the daemon's state have to be polled.
const (
	pollEvery   = 2 * time.Second
	gatherFor   = 300 * time.Millisecond
	againAfter  = time.Second
	askAtMost   = 10 * time.Second
	smallBoard  = 1000 // a board up to this size is read again whole at every change
	maxSingly   = 50   // up to so many tasks of a larger board are read one by one
	reloadSmall = 5 * time.Second
	reloadLarge = time.Minute
)

// errStopped is the error when the daemon shut down normally.
var errStopped = errors.New("it has stopped")

// reason returns why the daemon does not answer, without what the page says anyway.
func reason(err error) string {
	if gone, ok := errors.AsType[*client.UnreachableError](err); ok {
		return fmt.Sprintf("%s: %v", gone.Socket, gone.Err)
	}
	return err.Error()
}

// follower follows the daemon.
type follower struct {
	daemon *client.Client
	state  *state
	next   int64 // the event to continue after

	mu    sync.Mutex
	dirty map[task.ID]bool // tasks that changed
	all   bool             // any task may have changed
	woken clock.Bell
}

func newFollower(daemon *client.Client, s *state) *follower {
	return &follower{daemon: daemon, state: s, next: api.EventsFuture, dirty: make(map[task.ID]bool), woken: clock.NewBell()}
}

// follow keeps the state up to date until ctx ends. While the daemon does not answer, pages say so,
// and it is asked again every second.
func (f *follower) follow(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.run(ctx)
		if ctx.Err() != nil {
			return
		}
		f.state.down(reason(err), time.Now())
		clock.Pause(ctx, againAfter)
	}
}

// run follows the daemon until it fails.
func (f *follower) run(ctx context.Context) error {
	if err := f.begin(ctx); err != nil {
		return err
	}
	if err := f.reload(ctx); err != nil {
		return err
	}
	if err := f.poll(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return f.listen(ctx) })
	group.Go(func() error { return f.watch(ctx) })
	group.Go(func() error { return f.refresh(ctx) })
	return group.Wait()
}

// begin finds the position of the feed. At the first time, or for another feed, it goes back
// maxEvents.
func (f *follower) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askAtMost)
	defer cancel()
	now, err := f.daemon.Events(ctx, api.EventsInput{After: api.EventsFuture}, false, func(api.Event) error { return nil })
	if err != nil {
		return err
	}
	if f.next < 0 || f.next > now {
		f.next = max(0, now-maxEvents)
	}
	f.next, err = f.daemon.Events(ctx, api.EventsInput{After: f.next}, false, f.take)
	return err
}

// listen takes new events.
func (f *follower) listen(ctx context.Context) error {
	next, err := f.daemon.Events(ctx, api.EventsInput{After: f.next, Patient: true}, true, f.take)
	f.next = next
	return cmp.Or(err, errStopped)
}

func (f *follower) take(e api.Event) error {
	f.state.addEvent(eventOf(e))
	if e.Kind == api.Gap {
		f.mu.Lock()
		f.all = true
		f.mu.Unlock()
		f.woken.Ring()
	}
	if e.Task != nil {
		f.invalidate(e.Task.ID)
	}
	return nil
}

// invalidate schedules tasks to be read again.
func (f *follower) invalidate(ids ...task.ID) {
	if len(ids) == 0 {
		return
	}
	f.mu.Lock()
	for _, id := range ids {
		f.dirty[id] = true
	}
	f.mu.Unlock()
	f.woken.Ring()
}

// refresh reads changed tasks again, and everything from time to time.
func (f *follower) refresh(ctx context.Context) error {
	for {
		every := reloadSmall
		if f.state.size() > smallBoard {
			every = reloadLarge
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
			if err := f.reload(ctx); err != nil {
				return err
			}
			continue
		case <-f.woken:
		}
		if err := clock.Pause(ctx, gatherFor); err != nil {
			return err
		}
		f.mu.Lock()
		dirty, all := f.dirty, f.all
		f.dirty, f.all = make(map[task.ID]bool), false
		f.mu.Unlock()
		if err := f.read(ctx, dirty, all || len(dirty) > maxSingly || f.state.size() <= smallBoard); err != nil {
			return err
		}
	}
}

func (f *follower) read(ctx context.Context, dirty map[task.ID]bool, all bool) error {
	if all {
		return f.reload(ctx)
	}
	var cards []card
	var gone []task.ID
	for id := range dirty {
		t, err := client.Do(ctx, f.daemon, api.OpGetTask, api.GetTaskInput{ID: string(id)})
		problem, refused := errors.AsType[*api.Problem](err)
		switch {
		case refused && problem.Status == 404, err == nil && t.Trashed:
			gone = append(gone, id)
		case err != nil:
			return err
		default:
			cards = append(cards, cardOf(t))
		}
	}
	f.state.change(cards, gone)
	return nil
}

// reload reads all tasks.
func (f *follower) reload(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*askAtMost, errors.New("it takes too long to answer"))
	defer cancel()
	tasks, err := client.Do(ctx, f.daemon, api.OpListTasks, api.ListTasksInput{})
	if err != nil {
		return err
	}
	cards := make([]card, len(tasks.Tasks))
	for i, t := range tasks.Tasks {
		cards[i] = cardOf(t)
	}
	f.state.put(cards)
	return nil
}

// watch polls what makes no events.
func (f *follower) watch(ctx context.Context) error {
	for {
		if err := clock.Pause(ctx, pollEvery); err != nil {
			return err
		}
		if err := f.poll(ctx); err != nil {
			return err
		}
	}
}

func (f *follower) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, askAtMost, errors.New("it takes too long to answer"))
	defer cancel()
	status, err := client.Do(ctx, f.daemon, api.OpStatus, struct{}{})
	if err != nil {
		return err
	}
	claims, err := client.Do(ctx, f.daemon, api.OpListClaims, api.AgentFilter{})
	if err != nil {
		return err
	}
	f.invalidate(f.state.updateClaims(claims.Claims)...)
	var words map[task.Status]string
	if status.Words != nil {
		words = status.Words.Statuses
	}
	f.state.setStatus(healthOf(status), status.Pauses, words)
	return nil
}

func healthOf(s api.Status) health {
	return health{
		Up: true, Stale: s.Mirror.Stale, Owed: s.Outbox.Depth, OwedSince: milliseconds(s.Outbox.Oldest),
		Trouble: text(cmp.Or(s.Notion.LastError, s.Outbox.LastError), maxLine),
	}
}

func eventOf(e api.Event) event {
	out := event{ID: e.ID, At: milliseconds(e.At), Kind: string(e.Kind), Agent: text(e.Agent, 80), Claimed: e.Claim != ""}
	if e.Task != nil {
		out.Task, out.Title = e.Task.ID, cmp.Or(text(e.Task.Title, maxTitle), "Untitled")
	}
	parts := []string{strings.Join(e.Changed, ", "), strings.Join(e.Patterns, ", "), cmp.Or(e.Summary, e.Detail)}
	if strings.Contains(parts[2], parts[1]) {
		parts[1] = ""
	}
	if e.Holder != "" && !strings.Contains(parts[2], e.Holder) {
		parts = append(parts, fmt.Sprintf("now has it: %s", e.Holder))
	}
	out.Text = text(strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "; "), maxLine)
	return out
}

// attendance counts the pages in front of somebody. While there is one, the daemon is told by an
// impatient reader of its events, which makes it ask Notion more often. The board's own reader is
// patient: it is there all the time.
type attendance struct {
	daemon *client.Client

	mu    sync.Mutex
	pages int
	end   context.CancelFunc
}

// enter counts a page until leave is called.
func (a *attendance) enter() (leave func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pages++; a.pages == 1 {
		var ctx context.Context
		ctx, a.end = context.WithCancel(context.Background())
		go a.hurry(ctx)
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.pages--; a.pages == 0 {
			a.end()
		}
	}
}

// hurry reads events and drops them, until ctx ends.
func (a *attendance) hurry(ctx context.Context) {
	for ctx.Err() == nil {
		// The board's own reader reports errors.
		_, _ = a.daemon.Events(ctx, api.EventsInput{After: api.EventsFuture}, true, func(api.Event) error { return nil })
		_ = clock.Pause(ctx, againAfter)
	}
}
