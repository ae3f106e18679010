package claim_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// The rules of the pre-flight, as a decision table. A cell lists the values that
// it covers, "*" covers all. Every combination is covered by one row.
//
//	trashed  status                              token      by     at     blockers override  → verdict
const decisionTable = `
	yes      *                                   *          *      *      *        *         not_open
	no       BLOCKED,REVIEW,FAILED,COMPLETED,CANCELLED,UNKNOWN *          *      *      *        *         not_open

	no       OPEN                                !done      none   *      no       *         claim
	no       OPEN                                !done      none   *      yes      *         blocked_by_dependency
	no       OPEN                                done       none   *      no       *         claim
	no       OPEN                                done       none   *      yes      *         blocked_by_dependency
	no       OPEN                                done       !none  !none  no       *         claim
	no       OPEN                                done       !none  !none  yes      *         blocked_by_dependency
	no       OPEN                                *          own    none   no       *         claim
	no       OPEN                                *          own    none   yes      *         blocked_by_dependency
	no       OPEN                                *          other  none   *        *         reserved
	no       OPEN                                !done      !none  live   *        *         held
	no       OPEN                                !done      !none  stale  no       *         override
	no       OPEN                                !done      !none  stale  yes      *         blocked_by_dependency

	no       IN_PROGRESS                         *          none   *      *        *         not_open
	no       IN_PROGRESS                         plain,void !none  none   *        *         reserved
	no       IN_PROGRESS                         none,done,foreign own none no     *         claim
	no       IN_PROGRESS                         none,done,foreign own none yes    *         blocked_by_dependency
	no       IN_PROGRESS                         none,done,foreign other none *    *         reserved
	no       IN_PROGRESS                         *          !none  live   *        *         held
	no       IN_PROGRESS                         *          !none  stale  no       any       override
	no       IN_PROGRESS                         *          !none  stale  yes      any       blocked_by_dependency
	no       IN_PROGRESS                         *          !none  stale  *        open_only not_open
`

// verdict looks the combination up.
func verdict(t *testing.T, cells ...string) string {
	t.Helper()
	var found []string
	for line := range strings.Lines(decisionTable) {
		row := strings.Fields(line)
		if len(row) == 0 {
			continue
		}
		matches := true
		for i, cell := range cells {
			matches = matches && covers(row[i], cell)
		}
		if matches {
			found = append(found, row[len(cells)])
		}
	}
	if len(found) != 1 {
		t.Fatalf("%v: %d rows of the table apply, want 1", cells, len(found))
	}
	return found[0]
}

func covers(pattern, value string) bool {
	if not, ok := strings.CutPrefix(pattern, "!"); ok {
		return value != not
	}
	for one := range strings.SplitSeq(pattern, ",") {
		if one == "*" || one == value {
			return true
		}
	}
	return false
}

func TestDecideEveryCombination(t *testing.T) {
	testkit.SkipUnderRace(t)
	id := claim.NewID(bubbleStart)
	now := time.Date(2026, 3, 1, 12, 31, 15, 0, time.UTC)
	ages := []struct {
		name, cell string
		at         time.Time
	}{
		{"none", "none", time.Time{}},
		{"fresh", "live", now.Truncate(time.Minute)},
		{"at the edge", "live", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
		{"stale", "stale", time.Date(2026, 3, 1, 11, 59, 0, 0, time.UTC)},
		{"from the future", "live", now.Add(time.Hour)},
	}
	tokens := []struct{ cell, text string }{
		{"none", ""}, {"plain", string(id)}, {"void", "void " + string(id)}, {"done", "done " + string(id)}, {"foreign", "taken by Maria, done"},
	}
	yesNo := map[bool]string{true: "yes", false: "no"}
	n := 0
	for _, status := range append([]task.Status{task.Unknown}, task.AllStatuses()...) {
		for _, by := range []string{"", "Sandman", "Maria"} {
			for _, age := range ages {
				for _, token := range tokens {
					for _, agent := range []string{"Sandman", "Maria", "sandman", ""} {
						for _, trashed := range []bool{false, true} {
							for _, blockers := range [][]task.ID{nil, {otherPage}, {otherPage, page}} {
								for _, openOnly := range []bool{false, true} {
									n++
									policy := sim.Policy()
									policy.OpenOnly = openOnly
									page := task.Task{ID: page, Status: status, ClaimedBy: by, ClaimedAt: age.at, Token: token.text, Trashed: trashed}
									got := claim.Decide(page, agent, blockers, now, policy)

									named, override := "other", "any"
									switch by {
									case "":
										named = "none"
									case agent:
										named = "own"
									}
									if openOnly {
										override = "open_only"
									}
									want := verdict(t, yesNo[trashed], string(status), token.cell, named, age.cell, yesNo[len(blockers) > 0], override)
									name := fmt.Sprintf("%q asks: trashed=%v %s by=%q at=%s token=%s blockers=%d override=%s", agent, trashed, status, by, age.name, token.cell, len(blockers), override)
									checkDecision(t, name, got, want, page)
								}
							}
						}
					}
				}
			}
		}
	}
	if want := 8 * 3 * 5 * 5 * 4 * 2 * 3 * 2; n != want {
		t.Errorf("%d combinations were tried, want %d", n, want)
	}
}

func checkDecision(t *testing.T, name string, got claim.Decision, want string, page task.Task) {
	t.Helper()
	verdict := string(got.Code)
	switch {
	case got.Override && got.Code == "":
		verdict = "override"
	case got.Code == "":
		verdict = "claim"
	}
	if verdict != want || got.Override != (want == "override") {
		t.Errorf("%s: %+v, want %s", name, got, want)
	}
	if (got.Reason == "") != (got.Code == "") {
		t.Errorf("%s: reason %q with code %q", name, got.Reason, got.Code)
	}
	var holder string
	var end time.Time
	switch want {
	case "reserved":
		holder = page.ClaimedBy
	case "held", "override":
		// The lease of a page that shows 12:00 may have begun at 12:00:59.
		holder, end = page.ClaimedBy, page.ClaimedAt.Truncate(time.Minute).Add(31*time.Minute)
	default:
		if got.Holder == "" {
			return // whether a task that is not open tells its holder is a courtesy
		}
		holder, end = page.ClaimedBy, got.LeaseEnd
	}
	if got.Holder != holder || !got.LeaseEnd.Equal(end) {
		t.Errorf("%s: holder %q until %v, want %q until %v", name, got.Holder, got.LeaseEnd, holder, end)
	}
}

// Who a task is assigned to: a name without a date, on a task that may be claimed.
func TestAssignee(t *testing.T) {
	token := string(claim.NewID(bubbleStart))
	for _, tt := range []struct {
		name   string
		change func(*task.Task)
		want   string
	}{
		{"open", func(*task.Task) {}, "Sandman"},
		{"in progress", func(t *task.Task) { t.Status = task.InProgress }, "Sandman"},
		{"nobody's", func(t *task.Task) { t.ClaimedBy = "" }, ""},
		{"with a date", func(t *task.Task) { t.ClaimedAt = bubbleStart }, ""},
		{"blocked", func(t *task.Task) { t.Status = task.Blocked }, ""},
		{"completed", func(t *task.Task) { t.Status = task.Completed }, ""},
		{"trashed", func(t *task.Task) { t.Trashed = true }, ""},
		{"released by hand", func(t *task.Task) { t.Token = token }, "Sandman"},
		{"a claim whose date was cleared", func(t *task.Task) { t.Status, t.Token = task.InProgress, token }, ""},
		{"reopened", func(t *task.Task) { t.Token = "done " + token }, "Sandman"},
		{"reopened as it was", func(t *task.Task) { t.Token, t.ClaimedAt = "done "+token+" Sandman", bubbleStart }, ""},
		{"reopened for another", func(t *task.Task) { t.Token, t.ClaimedAt = "done "+token+" Sandman Löwe", bubbleStart }, "Sandman"},
		{"reopened, and not known who did it", func(t *task.Task) { t.Token, t.ClaimedAt = "done "+token, bubbleStart }, ""},
	} {
		one := task.Task{ID: page, Status: task.Open, ClaimedBy: "Sandman"}
		tt.change(&one)
		if got := claim.Assignee(one); got != tt.want {
			t.Errorf("%s: assigned to %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A page that shows 12:00 may stand for 12:00:59.999; its holder then trusts it
// until 12:30:59.999, and gets window, settle and allowance (2 s + 3 s + 10 s)
// on top.
func TestStaleToTheSecond(t *testing.T) {
	day := func(h, m, s int) time.Time { return time.Date(2026, 3, 1, h, m, s, 0, time.UTC) }
	tests := []struct {
		name    string
		at      time.Time
		timeout time.Duration
		now     time.Time
		stale   bool
	}{
		{"the last second", day(12, 0, 0), 0, day(12, 31, 15), false},
		{"the first second", day(12, 0, 0), 0, day(12, 31, 16), true},
		{"seconds on the page change nothing", day(12, 0, 59), 0, day(12, 31, 16), true},
		{"nor here", day(12, 0, 59), 0, day(12, 31, 15), false},
		{"the task's own lease", day(12, 0, 0), 5 * time.Minute, day(12, 6, 15), false},
		{"the task's own lease is over", day(12, 0, 0), 5 * time.Minute, day(12, 6, 16), true},
		{"a longer lease of its own", day(12, 0, 0), 2 * time.Hour, day(14, 1, 15), false},
		{"a longer lease is over", day(12, 0, 0), 2 * time.Hour, day(14, 1, 16), true},
		{"another zone", day(12, 0, 0).In(time.FixedZone("", 5*3600+1800)), 0, day(12, 31, 16), true},
		{"no date", time.Time{}, 0, day(12, 31, 16), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			page := task.Task{Status: task.InProgress, ClaimedBy: "Sandman", ClaimedAt: tt.at, Timeout: tt.timeout}
			if got := sim.Policy().Stale(page, tt.now); got != tt.stale {
				t.Errorf("stale at %v = %v, want %v", tt.now, got, tt.stale)
			}
		})
	}
}

// TestWithoutStatus has cards without a status, and with one that is not known here.
func TestWithoutStatus(t *testing.T) {
	for name, want := range map[string]string{
		"":       "it has no status",
		"Später": `it has the status "Später", which tasks.statuses does not name`,
	} {
		got := claim.Decide(task.Task{Status: task.Unknown, StatusName: name}, "Sandman", nil, time.Now(), claim.Policy{})
		if got.Code != claim.CodeNotOpen || got.Reason != want {
			t.Errorf("%s: %q, want %q", got.Code, got.Reason, want)
		}
	}
}

// assignedTask is a task that a person has put Sandman's name on.
func assignedTask() task.Task {
	t := openTask()
	t.ClaimedBy = "Sandman"
	return t
}

// assigned checks that the page shows the assignment, and nothing else.
func (w *world) assigned() {
	w.Helper()
	w.shows(task.Open, "Sandman", "")
	if got := w.Page(page).ClaimedAt; !got.IsZero() {
		w.Errorf("the page shows the date %v, want none", got)
	}
}

// An attempt that came to nothing leaves an assignment as it was, whatever becomes of the
// writes that take it back.
func TestWithdrawalFromAnAssignment(t *testing.T) {
	for name, f := range map[string]sim.Fault{
		"in time": nil, "answer dropped": sim.AnswerDropped, "request dropped": sim.RequestDropped,
		"late": sim.Late(5 * time.Second), "not applied": sim.NotApplied,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, assignedTask(), func(w *world) {
				faults := []sim.Fault{sim.InTurn(sim.Claims, sim.Slow(0, 5*time.Second))}
				if f != nil {
					faults = append(faults, sim.InTurn(sim.Openings, f))
				}
				d, other := w.daemon("a", faults...), w.daemon("b")
				w.deny(d, "Sandman", claim.CodeNotionUnavailable)
				w.sync(5*time.Minute, d)
				w.assigned()
				w.none(d)
				same(t, "events", []claim.Kind{claim.KindDenied, claim.KindWithdrawn}, kinds(d))
				w.deny(other, "Oracle", claim.CodeReserved)
				w.claim(other, "Sandman")
			})
		})
	}
}

// A grant that nobody hears of is given back as it was; an agent that gives the task back
// gives it to all.
func TestAssignmentIsGivenBack(t *testing.T) {
	inWorld(t, assignedTask(), func(w *world) {
		d := w.daemon("a")
		gone, leave := context.WithCancel(w.ctx)
		time.AfterFunc(time.Second, leave)
		if _, err := d.Claim(gone, request("Sandman")); err == nil {
			t.Fatal("the caller was answered")
		}
		w.assigned()
		w.none(d)
		w.finish(d, w.claim(d, "Sandman"), claim.EndReleased)
		w.shows(task.Open, "", "")
	})
}

func TestPolicyValidate(t *testing.T) {
	tests := []struct {
		name   string
		change func(*claim.Policy)
		says   string // empty for a valid policy
	}{
		{"the default", func(*claim.Policy) {}, ""},
		{"settle just above the window", func(p *claim.Policy) { p.Settle = p.WriteWindow + 1 }, ""},
		{"settle equal to the window", func(p *claim.Policy) { p.Settle = p.WriteWindow }, "longer than the write window 2s"},
		{"settle below the window", func(p *claim.Policy) { p.Settle = time.Second }, "settle 1s must be longer"},
		{"the same for an only claimer", func(p *claim.Policy) { p.Settle, p.Exclusive = 0, true }, ""},
		{"negative settle for an only claimer", func(p *claim.Policy) { p.Settle, p.Exclusive = -1, true }, "must not be negative"},
		{"no window", func(p *claim.Policy) { p.WriteWindow = 0 }, "write window 0s: must be positive"},
		{"a lease below a minute", func(p *claim.Policy) { p.Timeout = 59 * time.Second }, "at least a minute"},
		{"a lease shorter than an attempt", func(p *claim.Policy) { p.Timeout, p.Settle = time.Minute, time.Minute }, "window and settle together"},
		{"a request as long as it may take", func(p *claim.Policy) { p.Request = 15 * time.Second }, ""},
		{"a longer request", func(p *claim.Policy) { p.Request = 15*time.Second + 1 }, "on the claim of the next holder"},
		{"the same for an only claimer", func(p *claim.Policy) { p.Request, p.Exclusive = time.Minute, true }, ""},
		{"negative lifetime", func(p *claim.Policy) { p.MaxLifetime = -1 }, "must not be negative"},
		{"negative number of tasks", func(p *claim.Policy) { p.MaxPerAgent = -1 }, "must not be negative"},
		{"negative grace", func(p *claim.Policy) { p.Grace = -1 }, "must not be negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := sim.Policy()
			tt.change(&p)
			err := p.Validate()
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want one that says %q", err, tt.says)
			}
			_, nerr := claim.New(claim.Config{Policy: p, Ledger: sim.NewLedger(), Store: sim.NewRegister().Store(sim.StoreOptions{})})
			if (nerr == nil) != (err == nil) {
				t.Errorf("New: %v, Validate: %v", nerr, err)
			}
		})
	}
}

// The claims of a journal have its origin, and those of another journal have another, even if both
// began in the same millisecond.
func TestOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := claim.NewOrigin(), claim.NewOrigin()
		if one == other || len(one) != 4 {
			t.Errorf("the origins are %q and %q", one, other)
		}
		now := time.Now()
		first, second := one.NewID(now), one.NewID(now.Add(time.Hour))
		if first.Origin() != one || second.Origin() != one || first == second {
			t.Errorf("the claims of %q are %s and %s", one, first, second)
		}
		if made, ok := first.Minted(); !ok || !made.Equal(now) {
			t.Errorf("%s was minted at %v, want %v", first, made, now)
		}
	})
}
