package arbiter_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/journal"
	"dibs/internal/task"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// An etcd that was restored from a copy is noticed by what a member has written since,
// however little that was, and however far etcd has come again; then others do not believe it
// either.
func TestEtcdRestored(t *testing.T) {
	etcd := arbitertest.Start(t)
	folder, other := t.TempDir(), t.TempDir()
	a, b := join(t, etcd.URL(), folder), join(t, etcd.URL(), other)
	for _, m := range []*member{a, b} {
		if err := m.Upkeep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.close()
	copied := etcd.Copy()
	wait(t, "etcd is back", func() bool { return a.Upkeep(t.Context()) == nil })
	c := attempt(agentA, taskOne)
	if r := a.reserve(t, c, 0); r != nil {
		t.Fatal(r)
	}
	if err := a.Hold(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	c = a.save(t, granted(c))
	etcd.Restore(copied)

	// Somebody new cannot know, and brings etcd further than it was.
	stranger := join(t, etcd.URL(), t.TempDir())
	wait(t, "etcd is back", func() bool { return stranger.Upkeep(t.Context()) == nil })
	for i := range 20 {
		if r := stranger.reserve(t, attempt(agentB, task.ID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i))), 0); r != nil {
			t.Fatal(r)
		}
	}
	for _, restarted := range []bool{true, false} {
		if restarted { // before it could look
			a.close()
			a = join(t, etcd.URL(), folder)
		}
		if err := a.Upkeep(t.Context()); !errors.Is(err, arbiter.ErrForeign) || !strings.Contains(err.Error(), "dibs cluster adopt") {
			t.Fatalf("restarted: %v: %v", restarted, err)
		}
	}
	b = join(t, etcd.URL(), other)
	for _, m := range []*member{b, stranger, join(t, etcd.URL(), t.TempDir())} {
		if err := m.Upkeep(t.Context()); !errors.Is(err, arbiter.ErrForeign) || !strings.Contains(err.Error(), "member a found that it has gone back") {
			t.Errorf("another member: %v", err)
		}
	}

	// It takes each of them to adopt it, in any order, and fences go on to grow.
	fence := c.Fence
	for i, m := range []*member{b, stranger, a} {
		if err := m.Upkeep(t.Context()); !errors.Is(err, arbiter.ErrForeign) {
			t.Errorf("member %d before it has adopted etcd: %v", i, err)
		}
		if err := m.etcd.Adopt(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := m.Upkeep(t.Context()); err != nil {
			t.Errorf("member %d: %v", i, err)
		}
		next := attempt(agentB, task.ID(fmt.Sprintf("00000000-0000-0000-0001-%012d", i)))
		if r := m.reserve(t, next, 0); r != nil {
			t.Fatal(r)
		}
		if err := m.Hold(t.Context(), &next); err != nil || next.Fence <= fence {
			t.Errorf("fence %d after %d: %v", next.Fence, fence, err)
		}
		fence = next.Fence
	}
}

// Two daemons that have copies of one state directory are not one member.
func TestCopiedStateDirectory(t *testing.T) {
	etcd := arbitertest.Start(t)
	folder, copied := t.TempDir(), t.TempDir()
	a := join(t, etcd.URL(), folder)
	if err := a.Upkeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.close()
	if err := os.CopyFS(copied, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	a = join(t, etcd.URL(), folder)
	if err := a.Upkeep(t.Context()); err != nil {
		t.Fatal("after a restart: ", err)
	}
	b := join(t, etcd.URL(), copied)
	if err := b.Upkeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Upkeep(t.Context()); !errors.Is(err, arbiter.ErrForeign) || !strings.Contains(err.Error(), "a copy of this one's state directory") {
		t.Errorf("two of the same member: %v", err)
	}
}

// A member whose prefix was changed is told where it looks for its cluster, before it is told that
// it could adopt what is there: others would be left behind.
func TestChangedPrefix(t *testing.T) {
	etcd := arbitertest.Start(t)
	folder := t.TempDir()
	a := join(t, etcd.URL(), folder)
	if err := a.Upkeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.close()
	under := func(prefix, folder string) *arbiter.Etcd {
		t.Helper()
		j, err := journal.Open(t.Context(), filepath.Join(folder, "journal.db"))
		if err != nil {
			t.Fatal(err)
		}
		e, err := arbiter.Open(t.Context(), arbiter.Cluster{Endpoints: []string{etcd.URL()}, Prefix: prefix, Workspace: "board", Name: "a"}, j, testLog(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(e.Close(), j.Close()); err != nil {
				t.Error(err)
			}
		})
		return e
	}
	if err := under("/others", t.TempDir()).Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[string]string{
		"/dibbs":  "nothing is there of its cluster below /dibbs/board/, which cluster.prefix begins",
		"/others": "below /others/board/, which cluster.prefix begins, is another cluster",
	} {
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
		if err := under(prefix, copied).Probe(t.Context()); !errors.Is(err, arbiter.ErrForeign) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", prefix, err)
		}
	}
}

// What a member leaves behind in etcd ends in time, and not while it is there.
func TestTraceEnds(t *testing.T) {
	etcd := arbitertest.Start(t)
	client := etcd.Client("", "")
	folder := t.TempDir()
	lease := func() clientv3.LeaseID {
		t.Helper()
		r, err := client.Get(t.Context(), "/dibs/board/traces/", clientv3.WithPrefix())
		if err != nil || len(r.Kvs) != 1 {
			t.Fatalf("traces %v, %v", r.Kvs, err)
		}
		return clientv3.LeaseID(r.Kvs[0].Lease)
	}
	left := func(id clientv3.LeaseID) *clientv3.LeaseTimeToLiveResponse {
		t.Helper()
		r, err := client.TimeToLive(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a := join(t, etcd.URL(), folder)
	if r := a.reserve(t, attempt(agentA, taskOne), 0); r != nil {
		t.Fatal(r)
	}
	first := lease()
	if r := left(first); first == 0 || time.Duration(r.GrantedTTL)*time.Second < 30*24*time.Hour {
		t.Fatalf("the trace lasts for %d seconds", r.GrantedTTL)
	}
	wait(t, "time has passed", func() bool { r := left(first); return r.TTL < r.GrantedTTL-1 })
	if err := a.Upkeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := left(first); r.TTL < r.GrantedTTL-1 || lease() != first {
		t.Errorf("%d seconds are left of %d", r.TTL, r.GrantedTTL)
	}
	a.close()
	a = join(t, etcd.URL(), folder)
	if err := a.Upkeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := left(first); lease() == first || r.TTL > 0 {
		t.Errorf("%d seconds are left of what an earlier run had", r.TTL)
	}
}

// A member that was away for so long that nothing is there of it begins anew. One that was not
// has nothing there because etcd has gone back.
func TestMemberThatWasLongAway(t *testing.T) {
	etcd := arbitertest.Start(t)
	for _, long := range []bool{true, false} {
		folder := t.TempDir()
		a := join(t, etcd.URL(), folder)
		if r := a.reserve(t, attempt(agentA, task.ID(fmt.Sprint("task ", long))), 0); r != nil {
			t.Fatal(r)
		}
		if err := a.Upkeep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if said, err := a.journal.Meta(t.Context(), "arbiter"); err != nil {
			t.Fatal(err)
		} else if long {
			year := fmt.Sprintf(`"trace_kept":"%d-`, time.Now().Year())
			if err := a.journal.SetMeta(t.Context(), "arbiter", strings.Replace(said, year, `"trace_kept":"2020-`, 1)); err != nil {
				t.Fatal(err)
			}
		}
		a.close()
		etcd.Expire("/traces/")
		a = join(t, etcd.URL(), folder)
		err := a.Upkeep(t.Context())
		if long && err != nil || !long && (!errors.Is(err, arbiter.ErrForeign) || !strings.Contains(err.Error(), "nothing is there of what this member wrote")) {
			t.Errorf("long away: %v: %v", long, err)
		}
		if r, err := a.Reserve(t.Context(), attempt(agentA, taskOne), time.Now(), 0); long && (r != nil || err != nil) {
			t.Errorf("a claim afterwards: %v, %v", r, err)
		}
	}
}
