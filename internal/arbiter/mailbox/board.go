package mailbox

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"sync"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/claim"
	"dibs/internal/feed"
	"dibs/internal/inbox"
	"dibs/internal/task"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Board is a copy of the tasks database, to be told of.
type Board struct {
	// Tasks yields all tasks.
	Tasks func() iter.Seq[task.Task]
	// Ready reports whether anybody could claim a task.
	Ready func(task.Task) bool
	// Now is Notion's time.
	Now time.Time
}

// teller is what is known of what was told of the board.
type teller struct {
	mu     sync.Mutex // one look at the board at a time
	loaded bool
	tasks  map[task.ID]entry
	state  state
}

// entry is what was told of a task last, and at which revision that was put.
type entry struct {
	inbox.Told
	revision int64
	// ends is set if it is forgotten after a while.
	ends bool
}

// state is what was told of the whole board.
type state struct {
	// Ready says that there were tasks to be claimed.
	Ready    bool `json:"ready"`
	revision int64
}

// errStale says that somebody else has told.
var errStale = errors.New("somebody else has told of the board")

// TellNoMore forgets what was told of the board, which another member may go on with.
func (in *Inbox) TellNoMore() {
	in.board.mu.Lock()
	defer in.board.mu.Unlock()
	in.board.loaded = false
}

// TellBoard compares the board with what was told of it last, and tells of the difference. Only
// one member is to do that at a time, the one whose copy of the board is ahead; that two do it
// for a while does no more harm than that something is told twice which one of them has not
// seen yet. It passes over tasks that somebody is at work on, and reports busy if there are any
// with something to tell. The first time nothing is told: the tasks were like that before.
func (in *Inbox) TellBoard(ctx context.Context, b Board) (busy bool, err error) {
	t := &in.board
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.loaded {
		if err := in.load(ctx); err != nil {
			return false, err
		}
		t.loaded = true
	}
	first := t.state.revision == 0
	ready := false
	for each := range b.Tasks() {
		ready = ready || b.Ready(each)
		known, told := t.tasks[each.ID]
		var was *inbox.Told
		if told {
			was = &known.Told
		}
		offered := in.offeredTo(each.ID)
		is, news := inbox.Board(was, each, offered, b.Now)
		if is == nil || was != nil && is.Same(*was) && (!known.ends || ends(each, *is)) {
			continue
		}
		if first {
			news = nil
		}
		at, err := in.tellTask(ctx, each, known.revision, *is, news)
		switch {
		case errors.Is(err, errStale):
			t.loaded = false
			return true, nil
		case err != nil:
			t.loaded = false
			return false, err
		case at == 0:
			busy = true
		default:
			t.tasks[each.ID] = entry{*is, at, ends(each, *is)}
		}
	}
	if err := in.endLeft(ctx, b); err != nil {
		t.loaded = false
		return busy, err
	}
	if first || ready != t.state.Ready {
		if err := in.tellReady(ctx, ready, !first, b.Now); err != nil {
			t.loaded = false
			return errors.Is(err, errStale), ignore(err, errStale)
		}
	}
	return busy, nil
}

func ignore(err, that error) error {
	if errors.Is(err, that) {
		return nil
	}
	return err
}

func (in *Inbox) offeredTo(id task.ID) string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.offers[id].To
}

// load reads what was told of the board.
func (in *Inbox) load(ctx context.Context) error {
	t := &in.board
	t.tasks, t.state = make(map[task.ID]entry), state{}
	return in.ask(ctx, func(ctx context.Context) error {
		resp, err := in.box.commit(ctx, nil, []clientv3.Op{in.box.all(false, "board"), clientv3.OpGet(in.box.key("now", "board"))}, nil)
		if err != nil {
			return err
		}
		for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
			told, err := decode[inbox.Told](kv)
			if err != nil {
				return err
			}
			t.tasks[task.ID(in.box.part(kv.Key, 1))] = entry{told, kv.ModRevision, kv.Lease != 0}
		}
		for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
			if t.state, err = decode[state](kv); err != nil {
				return err
			}
			t.state.revision = kv.ModRevision
		}
		return nil
	})
}

// tellTask stores what is told of a task, and tells. at is 0 if the protocol is at work on it.
func (in *Inbox) tellTask(ctx context.Context, t task.Task, seen int64, is inbox.Told, news []inbox.Trigger) (at int64, err error) {
	body, err := json.Marshal(is)
	if err != nil {
		return 0, err
	}
	key, row := in.box.key("board", string(t.ID)), in.Etcd.Key("tasks", string(t.ID))
	var fresh []inbox.Trigger
	err = in.ask(ctx, func(ctx context.Context) error {
		resp, err := in.box.commit(ctx, nil, []clientv3.Op{clientv3.OpGet(row)}, nil)
		if err != nil {
			return err
		}
		var revision int64
		for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
			r, err := decode[arbiter.Row](kv)
			if err != nil {
				return err
			}
			if !feed.Settled(t, []claim.Claim{r.Claim}) || r.Claim.State == claim.Reserved || r.Claim.Sweep != nil {
				return nil
			}
			revision = kv.ModRevision
		}
		all, err := in.addressed(ctx, news)
		if err != nil {
			return err
		}
		lease := clientv3.LeaseID(0) // what goes on is remembered for as long as it does
		if ends(t, is) {
			if lease, err = in.box.kept(ctx); err != nil {
				return err
			}
		}
		when := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", seen), clientv3.Compare(clientv3.ModRevision(row), "=", revision)}
		put := clientv3.OpPut(key, string(body), clientv3.WithLease(lease))
		if fresh, at, err = in.box.put(ctx, when, all, put); err == nil && at == 0 {
			return errStale
		}
		return err
	})
	if err == nil && len(fresh) > 0 {
		err = in.Journal.KeepShared(ctx, time.Now(), fresh...)
	}
	return at, err
}

// ends reports whether what was told of a task is to be forgotten after a while: what goes on
// is remembered for as long as it does.
func ends(t task.Task, is inbox.Told) bool {
	return is.Completed || t.Trashed || t.Status.Finished()
}

// endLeft has what was told of tasks that are not on the board any more be forgotten after a
// while in etcd, and here at once: they may come back, which is found out when it is told of them.
func (in *Inbox) endLeft(ctx context.Context, b Board) error {
	t := &in.board
	left := maps.Clone(t.tasks)
	for each := range b.Tasks() {
		delete(left, each.ID)
	}
	for id, e := range left {
		if e.ends {
			delete(t.tasks, id)
			continue
		}
		body, err := json.Marshal(e.Told)
		if err != nil {
			return err
		}
		key := in.box.key("board", string(id))
		err = in.ask(ctx, func(ctx context.Context) error {
			lease, err := in.box.kept(ctx)
			if err != nil {
				return err
			}
			_, err = in.box.commit(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", e.revision)},
				[]clientv3.Op{clientv3.OpPut(key, string(body), clientv3.WithLease(lease))}, nil)
			return err // if it is another one by now, somebody else has told, and sees to it
		})
		if err != nil {
			return err
		}
		delete(t.tasks, id)
	}
	return nil
}

// addressed puts one trigger for each lead in the place of one for all of them, and gives each
// an id.
func (in *Inbox) addressed(ctx context.Context, news []inbox.Trigger) (all []inbox.Trigger, err error) {
	for _, t := range news {
		to := []string{t.Agent}
		if t.Agent == inbox.Leads {
			if to, err = in.leadsNow(ctx); err != nil {
				return nil, err
			}
		}
		for _, t.Agent = range to {
			t.ID = inbox.NewID(t.At)
			all = append(all, t)
		}
	}
	return all, nil
}
