package journal_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal/journaltest"
	"dibs/internal/outbox"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// victimEnv makes the test binary a victim: a process that works on the journal
// at that path, says on stdout what the journal has acknowledged, a line each,
// and goes on until it is killed.
const victimEnv = "JOURNAL_TEST_VICTIM"

func victim(path string) {
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	j, err := journaltest.Open(ctx, path)
	check(err)
	for i := 0; ; i++ {
		now := t0.Add(time.Duration(i) * time.Second)
		c := attempt("Sandman", task.ID(fmt.Sprint(i)), now)
		key := "key-" + string(c.ID)
		_, err := j.BeginRequest(ctx, 1000, key, "f", now)
		check(err)
		check(j.BindRequest(ctx, 1000, key, c.ID))
		_, refusal, err := j.Reserve(ctx, c, now, 0)
		check(err)
		if refusal != nil {
			check(errors.New("refused"))
		}
		fmt.Println("reserved", c.ID)
		c.State = claim.Writing
		check(j.Save(ctx, claim.Change{Holds: []claim.Hold{c}}))
		fmt.Println("writing", c.ID)
		c = held(c, now)
		check(j.Save(ctx, claim.Change{Holds: []claim.Hold{c}, Facts: []claim.Fact{event(c, claim.KindGranted, now)}}))
		fmt.Println("held", c.ID)
		items, err := j.NextOwed(ctx, outbox.MeshEntry, now, 1)
		check(err)
		check(j.StartSending(ctx, items[0], now))
		if i%2 == 1 {
			fmt.Println("sent", c.ID) // and no answer will come
			continue
		}
		fmt.Println("sending", c.ID)
		check(j.Delivered(ctx, items[0], "", now))
		fmt.Println("delivered", c.ID)
	}
}

// runVictim has a process work on the journal at path, kills it once it has said so many lines, and
// returns the last thing it said of each claim.
func runVictim(t *testing.T, path string, lines int) map[string]string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"="+path)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	do(t, err)
	do(t, cmd.Start())
	said := map[string]string{}
	out := bufio.NewReader(stdout)
	for n := 1; ; n++ {
		line, err := out.ReadString('\n')
		if err == io.EOF {
			break
		}
		do(t, err)
		what, about, _ := strings.Cut(strings.TrimSpace(line), " ")
		if what == "error" {
			t.Error(about)
		}
		said[about] = what
		if n == lines {
			do(t, cmd.Process.Kill())
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the victim ended by itself")
	}
	return said
}

func TestAcknowledgedSurvivesKill(t *testing.T) {
	testkit.TakesSeconds(t)
	for _, lines := range []int{1, 2, 3, 4, 5, 60} {
		t.Run(fmt.Sprint(lines), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			said := runVictim(t, path, lines)
			j := open(t, path)
			check(t, j.Check(t.Context()))
			entries := map[claim.ID]string{}
			for _, item := range next(t, j, t0.Add(time.Hour), 0) {
				entries[item.Fact.Claim] = "due"
				if item.State == outbox.Doubted {
					entries[item.Fact.Claim] = "in doubt"
				}
			}
			for about, what := range said {
				id := claim.ID(about)
				c, err := j.Hold(t.Context(), id)
				if err != nil {
					t.Errorf("%s, which was %s: %v", id, what, err)
					continue
				}
				// What was said last may have been overtaken by one more step.
				want := map[string][]string{
					"reserved":  {"ended", "writing"},
					"writing":   {"writing", "held due"},
					"held":      {"held due", "held in doubt"},
					"sent":      {"held in doubt"},
					"sending":   {"held in doubt", "held"},
					"delivered": {"held"},
				}[what]
				got := strings.TrimSpace(string(c.State) + " " + entries[id])
				if got != want[0] && got != want[1%len(want)] {
					t.Errorf("%s, which was %s, is %s, want one of %q", id, what, got, want)
				}
				_, refusal, err := j.Reserve(t.Context(), attempt("Oracle", c.Task.ID, c.Reserved), c.Reserved, 0)
				do(t, err)
				if free := refusal == nil; free != (c.State == claim.Ended) {
					t.Errorf("the task of a claim that is %s is free: %v", c.State, free)
				}
				wantBegin(t, j, "key-"+string(id), "f", nil, outbox.ErrUnanswered)
			}
		})
	}
}
