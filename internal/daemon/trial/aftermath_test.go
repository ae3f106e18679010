package trial_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/daemon"
	"dibs/internal/door/server"
	"dibs/internal/journal"
	"dibs/internal/journal/journaltest"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"
	"dibs/internal/testkit"
	"dibs/internal/testkit/referee"

	"github.com/oklog/ulid/v2"
)

// node is a daemon in this process, and a client of its socket.
type node struct {
	*client.Client
	stop func()
}

// nowhere is the network of a member without peers.
type nowhere struct{}

func (nowhere) Listen(context.Context, string) (net.Listener, error) {
	return server.NewPipe(), nil
}

func (nowhere) Dial(context.Context, string) (net.Conn, error) {
	return nil, errors.New("there is nobody else")
}

// again starts a daemon in this process, in virtual time, on p's state.
func (tr *trial) again(t *testing.T, notion *emulator.Emulator, p *process) *node {
	t.Helper()
	dbs := notion.Databases()
	cfg := config.Default()
	cfg.Notion.Token = config.Secret(notion.Token())
	cfg.Databases = config.Databases{Tasks: dbs.Tasks, TaskLog: dbs.TaskLog, MeshLog: dbs.MeshLog}
	cfg.StateDir = p.state
	if p.shares() {
		cfg.Journal.Postgres, cfg.Cluster.Name, cfg.Cluster.Listen = config.Secret(p.setting("DIBS_JOURNAL_POSTGRES")), "afterwards", "afterwards:1"
		cfg.Notion.Rate, cfg.Notion.Burst = 20, 40 // it does the work of four
	}
	cfg.Notion.Timeout, cfg.Sync.Interval = tr.timeout, tr.interval
	cfg.Claim.Timeout, cfg.Claim.WriteWindow, cfg.Claim.Settle = claimLease, tr.window, tr.settle
	cfg.Claim.Breaker.Failures = 0
	pipe := server.NewPipe()
	var log io.Writer = io.Discard // the complaints are not to be looked for in it
	if testing.Verbose() {
		log = t.Output()
	}
	d, err := daemon.Start(t.Context(), daemon.Options{
		Config: cfg, Version: "test", Transport: notion.Client().Transport, Listener: pipe, Network: nowhere{},
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return &node{Client: client.Over("pipe", pipe.Dial), stop: func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}}
}

// afterwards kills the daemons, and runs the next ones for some virtual time. Then all outboxes
// must be delivered, and all claims have ended.
func (tr *trial) afterwards() {
	for _, p := range tr.daemons {
		p.kill()
	}
	tr.must(errors.Join(tr.notion.Close(), tr.notion.WriteState(tr.state)))
	left := time.Now()
	synctest.Test(tr.T, func(t *testing.T) {
		time.Sleep(time.Until(left)) // the bubble begins in the past
		notion, err := emulator.New(emulator.Options{Begin: tr.state})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			notion.Close()
			if err := notion.WriteState(tr.state); err != nil {
				t.Error(err)
			}
		}()
		var nodes []*node
		for _, p := range tr.journals() {
			n := tr.again(t, notion, p)
			defer n.stop()
			nodes = append(nodes, n)
		}
		// Abandoned attempts must be cleared soon, everything else after a while.
		time.Sleep(soon)
		tr.cleared(t, notion, nodes)
		tr.goesOn(t, nodes[0])
		var left []string
		for waited, quiet := time.Duration(0), 0; waited < aftermath && (testkit.InFull() || quiet < stillQuiet); waited += time.Minute {
			time.Sleep(time.Minute)
			if left = tr.left(t, notion, nodes); len(left) > 0 {
				quiet = 0
			} else {
				quiet++
			}
		}
		for _, what := range left {
			tr.Complain("%s", what)
		}
	})
	// The logs are compared outside of the bubble, where the journals are.
	var err error
	tr.notion, err = emulator.New(emulator.Options{StateFile: tr.state})
	tr.must(err)
}

// goesOn checks that a task is granted within some minutes, whatever was lost.
func (tr *trial) goesOn(t *testing.T, n *node) {
	const name = "late"
	cl, err := client.Do(t.Context(), n.Client, api.OpClaim, api.Keyed(name, api.ClaimRequest{Agent: name}))
	for range 3 {
		if err == nil {
			tr.bound(name, cl.ID)
			_, err = client.Do(t.Context(), n.Client, api.OpRelease, api.On(string(cl.ID), "", api.StopRequest{Agent: name}))
			break
		}
		time.Sleep(time.Minute)
		cl, err = client.Do(t.Context(), n.Client, api.OpClaim, api.Keyed(name, api.ClaimRequest{Agent: name}))
	}
	if err != nil {
		tr.Complain("afterwards nothing is granted: %v", err)
	}
}

// stillQuiet is the number of minutes in which nothing may come back once everything is done. With
// TEST_LONG=all the whole aftermath passes.
const stillQuiet = 3

// left returns what the daemons have not done yet.
func (tr *trial) left(t *testing.T, notion *emulator.Emulator, nodes []*node) []string {
	var left []string
	for _, n := range nodes {
		if owed := unquiet(t.Context(), n); len(owed) > 0 {
			left = append(left, "everything has come back, and yet:\n"+strings.Join(owed, "\n"))
		}
	}
	for _, page := range notion.Pages(tr.board) {
		if referee.Left(page) && !page.Trashed {
			left = append(left, fmt.Sprintf("task %s is %s:\n%s", page.ID, referee.Shows(page), tr.requestsTo(page.ID)))
		}
	}
	return left
}

// soon is when recently abandoned attempts must be cleared: once their leases are over, and swept. They
// are shorter than a write may be on its way, and so nothing takes an attempt off before.
const soon = 4 * time.Minute

// lately is the age of an abandoned attempt, when the troubles end, up to which it must be cleared
// soon. Older ones are retried less often, and by then their leases have ended.
const lately = 20 * time.Second

// cleared checks, soon after the troubles have ended, that the board shows no abandoned attempts.
func (tr *trial) cleared(t *testing.T, notion *emulator.Emulator, nodes []*node) {
	for _, page := range notion.Pages(tr.board) {
		token := claim.ParseToken(page.Text("claim_token"))
		if token.ID == "" || token.Done || page.Trashed {
			continue
		}
		var known, granted bool
		var facts []string
		for _, n := range nodes {
			log, err := client.Do(t.Context(), n.Client, api.OpLog, api.LogInput{Claim: string(token.ID)})
			if err != nil {
				t.Error(err)
			}
			for _, e := range log.Entries {
				known, granted = true, granted || e.Kind == claim.KindGranted
				facts = append(facts, fmt.Sprint(e.At, " ", e.Kind, " ", e.Detail))
			}
		}
		age := time.Since(ulid.Time(ulid.MustParse(string(token.ID)).Time()))
		if age < soon || age > soon+lately {
			continue
		}
		if token.Void || known && !granted {
			tr.Complain("after %v, task %s is %s:\n%s\n%s", soon, page.ID, referee.Shows(page), strings.Join(facts, "\n"), tr.requestsTo(page.ID))
		}
	}
}

// unquiet returns what a daemon still has to do.
func unquiet(ctx context.Context, n *node) []string {
	status, err := client.Do(ctx, n.Client, api.OpStatus, struct{}{})
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	if status.Outbox.Depth > 0 {
		left = append(left, fmt.Sprintf("%s: %s", status.Outbox.Owed(), status.Outbox.LastError))
	}
	claims, err := client.Do(ctx, n.Client, api.OpListClaims, api.AgentFilter{})
	if err != nil {
		return []string{err.Error()}
	}
	for _, held := range claims.Claims {
		left = append(left, fmt.Sprintf("claim %s of %s on %s is %s", held.ID, held.Agent, held.Task.ID, held.State))
	}
	return left
}

// checkRecord compares what agents know with the journals of the stopped daemons and with the logs.
func (tr *trial) checkRecord() {
	var facts []claim.Fact
	for _, p := range tr.journals() {
		facts = append(facts, tr.facts(p)...)
	}
	bound := tr.bindings()
	for _, f := range facts {
		switch {
		case f.Kind.Grants() && !bound[f.Claim]:
			tr.Complain("claim %s was granted, and nobody was told", f.Claim)
		case f.Kind == claim.KindLost, f.Kind == claim.KindSwept:
			tr.Ended(f.Claim, f.At.Truncate(time.Second), "a daemon found it %s", f.Kind)
		}
	}
	tr.CheckRecord(facts)
	dbs := tr.notion.Databases()
	referee.CheckLogs(tr.Book, facts, map[claim.Log][]emulator.Page{
		claim.MeshLog: tr.notion.Pages(dbs.MeshLog), claim.TaskLog: tr.notion.Pages(dbs.TaskLog),
	}, func(p emulator.Page) time.Time { return p.Created })
}

// journals returns the daemons with a journal of their own, and one of those that share one.
func (tr *trial) journals() []*process {
	some := slices.Clone(tr.daemons)
	return slices.CompactFunc(some, func(a, b *process) bool { return a.shares() && b.shares() })
}

// facts returns the facts in the journal of stopped daemons, which must be sound.
func (tr *trial) facts(p *process) []claim.Fact {
	if !p.shares() {
		facts, err := journaltest.Facts(tr.Context(), p.journal())
		tr.must(err)
		return facts
	}
	board, err := task.ParseID(tr.board)
	tr.must(err)
	database, err := journal.Dial(tr.Context(), journal.Postgres{URL: p.setting("DIBS_JOURNAL_POSTGRES"), Schema: "dibs", Board: string(board)})
	tr.must(err)
	defer database.Close()
	var term journal.Term
	for term.Epoch == 0 { // waits for the last term to end
		term, err = database.Lead(tr.Context(), "reader")
		tr.must(err)
		sleep(tr.Context(), 100*time.Millisecond)
	}
	j, err := database.Open(tr.Context(), term)
	tr.must(err)
	defer j.Close()
	facts, err := j.Facts(tr.Context(), journal.FactFilter{})
	tr.must(err)
	return facts
}

// text is a text property in the form of Notion's API.
func text(kind, content string) any {
	spans := []any{}
	if content != "" {
		spans = append(spans, map[string]any{"text": map[string]any{"content": content}})
	}
	return map[string]any{kind: spans}
}
