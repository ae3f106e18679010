package arbiter

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// WatchRows calls all with the rows of a table, and from then on changed with each that is
// put, or, with nil, taken off, until ctx ends, which is no error.
func (e *Etcd) WatchRows(ctx context.Context, all func([]Held), changed func(task.ID, *Held)) error {
	resp, err := e.commit(ctx, nil, []clientv3.Op{clientv3.OpGet(e.tasksKey(), clientv3.WithPrefix())}, nil)
	if err != nil {
		return err
	}
	var rows []Held
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		if h, err := e.rowIn(kv); err == nil { // whoever wants that task is told of the others
			rows = append(rows, *h)
		}
	}
	all(rows)
	return e.watch(ctx, e.base()+resp.Header.Revision, e.tasksKey(), []clientv3.OpOption{clientv3.WithPrefix()}, func(_ int64, events []*clientv3.Event) {
		for _, v := range events {
			id := task.ID(strings.TrimPrefix(string(v.Kv.Key), e.tasksKey()))
			if v.Type == clientv3.EventTypeDelete {
				changed(id, nil)
			} else if h, err := e.rowIn(v.Kv); err == nil {
				changed(id, h)
			}
		}
	})
}

// HoldersConfig is what Holders are made of.
type HoldersConfig struct {
	Etcd *Etcd
	// Read reports whether the mirror shows a task as it was at that time of Notion's, or later.
	Read func(id task.ID, at time.Time) bool
	// Changed is called with the tasks of which something else is known.
	Changed func(ids ...task.ID)
	Now     func() time.Time // Notion's time
	Log     *slog.Logger
}

// Holders is what is known here, without asking, of the tasks that other members have. It may
// be behind: the table decides. It is safe for concurrent use.
type Holders struct {
	HoldersConfig
	mu   sync.Mutex
	rows map[task.ID]claim.Claim
	left map[task.ID]claim.Claim // ended, and what became of their tasks was not read yet
	knew map[claim.ID]bool       // all that were made within knewFor, as far as they were told here
}

const (
	// leftFor is for how long that is waited for at most.
	leftFor = 45 * time.Second
	// holdersFor is after how long it is looked whether etcd is still there, and the same.
	holdersFor = time.Minute
	// knewFor is for how long claims are remembered after they were made.
	knewFor = 24 * time.Hour
)

// NewHolders returns holders of nothing.
func NewHolders(c HoldersConfig) *Holders {
	return &Holders{HoldersConfig: c, rows: make(map[task.ID]claim.Claim), left: make(map[task.ID]claim.Claim), knew: make(map[claim.ID]bool)}
}

// On returns the claim of another member on a task, if there is one. If it has just ended, and
// the mirror has not read what became of the task, it is returned for a while as Ended, and
// has a StaleAt after which it will not be.
func (h *Holders) On(id task.ID) (claim.Claim, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c, ok := h.rows[id]; ok {
		return c, true
	}
	c, ok := h.left[id]
	if ok && !h.Now().Before(c.StaleAt) {
		delete(h.left, id)
		ok = false
	}
	return c, ok
}

// Of returns the claims that an agent holds at other members, or all agents do if it is empty,
// and those with which they are done while Notion has yet to be told, oldest first.
func (h *Holders) Of(agent string) []claim.Claim {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []claim.Claim
	for _, c := range h.rows {
		if (agent == "" || c.Agent == agent) && (c.State == claim.Held || c.State == claim.Finishing) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b claim.Claim) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Knew reports whether a claim is, or was, one of another member. It may be behind, and forgets
// claims a day after they were made.
func (h *Holders) Knew(id claim.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.knew[id]
}

// Synced is to be called when the mirror has read what was edited.
func (h *Holders) Synced() {
	h.mu.Lock()
	old := claim.NewID(h.Now().Add(-knewFor)) // ids are in the order of their times
	maps.DeleteFunc(h.knew, func(id claim.ID, _ bool) bool { return id < old })
	var known []task.ID
	for id, c := range h.left {
		if h.Read(id, c.Ended) || !h.Now().Before(c.StaleAt) {
			delete(h.left, id)
			known = append(known, id)
		}
	}
	h.mu.Unlock()
	if len(known) > 0 {
		h.Changed(known...)
	}
}

// Run follows the table until ctx ends.
func (h *Holders) Run(ctx context.Context) {
	for ctx.Err() == nil {
		watching, stop := context.WithTimeout(ctx, holdersFor)
		err := h.Etcd.WatchRows(watching, h.all, func(id task.ID, now *Held) {
			if h.set(id, now) {
				h.Changed(id)
			}
		})
		stop()
		if err != nil && ctx.Err() == nil {
			h.Log.Debug("what other members have cannot be followed now", "error", err)
			wait := time.NewTimer(retryAfter)
			select {
			case <-wait.C:
			case <-ctx.Done():
			}
			wait.Stop()
		}
	}
}

func (h *Holders) all(rows []Held) {
	now := make(map[task.ID]*Held)
	for _, r := range rows {
		now[r.Claim.Task.ID] = &r
	}
	h.mu.Lock()
	for id := range h.rows {
		if now[id] == nil {
			now[id] = nil
		}
	}
	h.mu.Unlock()
	var changed []task.ID
	for id, r := range now {
		if h.set(id, r) {
			changed = append(changed, id)
		}
	}
	if len(changed) > 0 {
		h.Changed(changed...)
	}
}

// set notes the row of a task, and reports whether that says something else.
func (h *Holders) set(id task.ID, now *Held) bool {
	if now != nil && (now.Member == h.Etcd.Member() || now.Claim.Sweep != nil) {
		now = nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	before, known := h.rows[id]
	if now != nil {
		h.knew[now.Claim.ID] = true
		delete(h.left, id)
		h.rows[id] = now.Claim
		return !known || before.ID != now.Claim.ID || before.State != now.Claim.State || !before.StaleAt.Equal(now.Claim.StaleAt)
	}
	if !known {
		return false
	}
	delete(h.rows, id)
	if before.State == claim.Held || before.State == claim.Finishing {
		before.State, before.Ended = claim.Ended, h.Now()
		before.StaleAt = before.Ended.Add(leftFor)
		h.left[id] = before
	}
	return true
}
