package daemon_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/claim"
	"dibs/internal/emulator"
	"dibs/internal/task"
)

// inCluster runs a test with an etcd and an empty board. There is no bubble: etcd is on the
// network.
func inCluster(t *testing.T, test func(w *world, etcd *arbitertest.Etcd)) {
	t.Helper()
	notion, err := emulator.New(emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { notion.Close() })
	dbs, err := notion.Seed("empty")
	if err != nil {
		t.Fatal(err)
	}
	test(&world{T: t, notion: notion, tasks: dbs.Tasks}, arbitertest.Start(t))
}

// member starts a daemon of that name in the cluster of the etcd at url.
func (w *world) member(name, url string) *node {
	w.Helper()
	n := w.daemon(func(c *config.Config) {
		c.Cluster.Etcd, c.Cluster.Name = []string{url}, name
		c.Notion.Rate, c.Notion.Burst = 500, 500
	})
	w.Cleanup(n.stop)
	return n
}

// A claim in a cluster takes two requests, without a wait, and a refusal none.
func TestClaimInACluster(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		id := w.add("Mend the roof", nil)
		a, b := w.member("north", etcd.URL()), w.member("south", etcd.URL())
		w.notion.ResetRequests()
		began := time.Now()
		cl := a.mustClaim("Sandman", id)
		if took := time.Since(began); took > time.Second {
			t.Errorf("a claim took %v", took)
		}
		if cl.Fence <= 0 {
			t.Errorf("the claim has no fence: %+v", cl)
		}
		_, err := b.claim("Oracle", id)
		var p *api.Problem
		if !errors.As(err, &p) || p.Code != api.Code(claim.CodeHeld) || p.Holder != "Sandman" || p.ExpiresAt.IsZero() {
			t.Errorf("on the other member: %v", err)
		}
		pages := slices.DeleteFunc(w.requests(), func(r string) bool { return !strings.HasSuffix(r, " page") })
		if want := []string{"GET page", "PATCH page"}; !slices.Equal(pages, want) {
			t.Errorf("requests %v, want %v", pages, want)
		}
		if err := a.complete(cl); err != nil {
			t.Error(err)
		}
		if got := w.page(id).Select("status"); got != "COMPLETED" {
			t.Errorf("the task is %s", got)
		}
		eventually(t, "both members are listed", func() bool {
			c, err := b.Cluster(t.Context())
			return err == nil && len(c.Members) == 2 && c.Members[0].Name == "north" && c.Members[1].Self
		})
	})
}

// Many agents of three members drain a board, and nothing is done twice.
func TestClusterDrainsABoard(t *testing.T) {
	const tasks = 30
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		for i := range tasks {
			w.add(fmt.Sprint("Task ", i), nil)
		}
		var nodes []*node
		for i := range 3 {
			nodes = append(nodes, w.member(fmt.Sprint("m", i), etcd.URL()))
		}
		var mu sync.Mutex
		granted := make(map[task.ID]int)
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() {
				for {
					cl, err := nodes[i%3].claim(fmt.Sprint("agent-", i), "")
					if code(err) == denied(claim.CodeNothingReady) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					granted[cl.Task.ID]++
					mu.Unlock()
					if err := nodes[i%3].complete(cl); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		for id, n := range granted {
			if n != 1 {
				t.Errorf("task %s was granted %d times", id, n)
			}
		}
		if len(granted) != tasks {
			t.Errorf("%d tasks were done, want %d", len(granted), tasks)
		}
	})
}

// Without etcd nothing new is claimed; what is held can be renewed and finished, which waits;
// and a daemon that knows the cluster can be started.
func TestClusterWithoutEtcd(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		way := arbitertest.NewWay(t, etcd.URL())
		held, other := w.add("Mend the roof", nil), w.add("Paint the door", nil)
		a := w.member("north", way.URL())
		cl := a.mustClaim("Sandman", held)

		way.Cut()
		cut := time.Now()
		_, err := a.claim("Sandman", other)
		var p *api.Problem
		if !errors.As(err, &p) || p.Code != api.Code(claim.CodeArbiterUnavailable) || p.Status != 503 || p.RetryAfter == 0 || p.Code.Exit() != api.ExitNotion {
			t.Fatalf("a claim without etcd: %v", err)
		}
		// A moment ago etcd said for how long the task stays this member's.
		eventually(t, "etcd would have to be asked again", func() bool { return time.Since(cut) > 1100*time.Millisecond })
		if _, err := a.Renew(t.Context(), string(cl.ID), api.RenewRequest{Agent: "Sandman"}, ""); err != nil {
			t.Errorf("a renewal without etcd: %v", err)
		}
		if err := a.complete(cl); err != nil {
			t.Errorf("a finish without etcd: %v", err)
		}
		if got := w.page(held).Select("status"); got != "IN_PROGRESS" {
			t.Errorf("the page was written to without etcd: %s", got)
		}
		status := a.status()
		if status.Cluster == nil || status.Cluster.LastError == "" || status.Outbox.Finishes != 1 {
			t.Errorf("status: cluster %+v, outbox %+v", status.Cluster, status.Outbox)
		}
		way.Mend()
		eventually(t, "the finish is delivered", func() bool { return w.page(held).Select("status") == "COMPLETED" })
		if _, err := a.claim("Sandman", other); err != nil {
			t.Errorf("a claim afterwards: %v", err)
		}
	})
}

// A member that starts without etcd says once that nothing can be claimed.
func TestStartedWithoutEtcdSaysSoOnce(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		way := arbitertest.NewWay(t, etcd.URL())
		o := w.memberOptions("north", way.URL())
		w.start(o).stop()
		way.Cut()
		logged := new(told)
		o.Log = slog.New(slog.NewTextHandler(logged, nil))
		a := w.start(o)
		defer a.stop()
		eventually(t, "it is said", func() bool {
			return a.status().Cluster.LastError != "" && logged.times("no task can be claimed for now") > 0
		})
		if n := logged.times("no task can be claimed for now"); n != 1 {
			t.Errorf("it is said %d times:\n%s", n, logged)
		}
	})
}

// told is what was logged. It is safe for concurrent use.
type told struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *told) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *told) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *told) times(what string) int {
	return strings.Count(l.String(), what)
}

// An etcd that was emptied is refused until it is adopted, and what is held stays held.
func TestClusterEmptied(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		held, other := w.add("Mend the roof", nil), w.add("Paint the door", nil)
		a, b := w.member("north", etcd.URL()), w.member("south", etcd.URL())
		reserved, err := a.reserve("Sandman", api.ReserveRequest{}, "name:db")
		if err != nil {
			t.Fatal(err)
		}
		cl := a.mustClaim("Sandman", held)
		etcd.Stop()
		etcd.Empty()
		etcd.Begin()
		eventually(t, "it is noticed", func() bool {
			_, err := b.claim("Oracle", other)
			return code(err) == denied(claim.CodeArbiterUnavailable) && strings.Contains(err.Error(), "dibs cluster adopt")
		})
		w.adopt(b, a)
		w.notion.ResetRequests()
		for _, n := range []*node{a, b} {
			if _, err := n.claim("Oracle", other); code(err) != denied(claim.CodeNotionUnavailable) {
				t.Errorf("a claim right after the adoption: %v", err)
			}
		}
		if sent := w.requests(); len(sent) > 0 {
			t.Errorf("right after the adoption %v were sent", sent)
		}
		// What was reserved is put there again, and seen.
		eventually(t, "it is reserved again", func() bool { return etcd.Has("/reservations/" + reserved.ID) })
		eventually(t, "it is seen", func() bool {
			list, err := b.Reservations(t.Context(), "")
			return err == nil && len(list.Reservations) == 1 && list.Reservations[0].ID == reserved.ID
		})
		if _, err := b.reserve("Oracle", api.ReserveRequest{}, "name:db"); code(err) != denied(claim.CodeReserved) {
			t.Errorf("what is reserved: %v", err)
		}
		if _, err := b.Send(t.Context(), api.MessageRequest{To: "Oracle", Text: "hello"}, "a key"); err != nil {
			t.Errorf("a request with a key: %v", err)
		}
		if _, err := a.Mint(t.Context(), api.MintRequest{}, ""); err != nil {
			t.Error(err)
		}
		if !*long {
			return
		}
		time.Sleep(100 * time.Second)
		if _, err := b.claim("Oracle", held); code(err) != denied(claim.CodeHeld) {
			t.Errorf("a task that is held: %v", err)
		}
		if _, err := b.claim("Oracle", other); err != nil {
			t.Errorf("a task that is free: %v", err)
		}
		if err := a.complete(cl); err != nil {
			t.Error(err)
		}
	})
}

// adopt has members adopt an etcd, one after the other. They rest at once, and what the later ones
// are told of who leads is of one piece.
func (w *world) adopt(nodes ...*node) {
	w.Helper()
	for _, n := range nodes {
		c, err := n.AdoptCluster(w.Context(), "")
		if err != nil || c.Adopted == nil || !*c.Adopted {
			w.Fatalf("adopted: %+v, %v", c, err)
		}
		if *c.Share != 0 { // slots of the budget may have been somebody else's a moment ago
			w.Errorf("right after the adoption it may send %d a minute", *c.Share)
		}
		i := slices.IndexFunc(c.Members, func(m api.Member) bool { return m.Leader })
		if i >= 0 && c.Leader != c.Members[i].Name {
			w.Errorf("the leader is %q, and that of the list %q", c.Leader, c.Members[i].Name)
		}
		eventually(w.T, "somebody leads", func() bool {
			c, err = n.Cluster(w.Context())
			return err == nil && slices.ContainsFunc(c.Members, func(m api.Member) bool { return m.Leader })
		})
	}
}

// Whoever adopts an etcd with which nothing is wrong is told so.
func TestNothingToAdopt(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		a := w.member("north", etcd.URL())
		if c, err := a.AdoptCluster(t.Context(), ""); err != nil || c.Adopted == nil || *c.Adopted {
			t.Errorf("adopted: %+v, %v", c, err)
		}
		a.mustClaim("Sandman", w.add("Mend the roof", nil))
	})
}

// Whoever is in no cluster is told so.
func TestNoCluster(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		n := w.daemon(nil)
		defer n.stop()
		if c, err := n.Cluster(w.Context()); err != nil || len(c.Members) != 0 {
			t.Errorf("members %+v, %v", c, err)
		}
		if _, err := n.AdoptCluster(w.Context(), ""); code(err) != string(api.CodeInvalidRequest) || !strings.Contains(err.Error(), "cluster.etcd") {
			t.Errorf("adopt: %v", err)
		}
	})
}

// eventually waits for what has to come to pass.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("timed out: ", what)
		}
	}
}

// The members share what all may send in a minute, and one that ends gives back its share.
func TestClusterSharesTheBudget(t *testing.T) {
	inCluster(t, func(w *world, etcd *arbitertest.Etcd) {
		a, b := w.member("north", etcd.URL()), w.member("south", etcd.URL())
		var c api.Cluster
		eventually(t, "both members have a share", func() (ok bool) {
			var err error
			c, err = b.Cluster(t.Context())
			return err == nil && len(c.Members) == 2 && c.Members[0].Share > 0 && c.Members[1].Share > 0
		})
		if sum := c.Members[0].Share + c.Members[1].Share; sum > 500*60 {
			t.Errorf("together they may send %d: %+v", sum, c.Members)
		}
		a.stop()
		if _, err := b.claim("Oracle", w.add("Mend the roof", nil)); err != nil {
			t.Error(err)
		}
	})
}
