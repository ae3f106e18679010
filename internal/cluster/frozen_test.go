package cluster_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"dibs/internal/cluster"
	"dibs/internal/journal"
	"dibs/internal/testkit/pgtest"

	"log/slog"
)

// frozenAt has the database of the member that TestFrozen runs in a process of its own.
const frozenAt = "MEMBER_TEST_FROZEN"

// A member that was frozen does not take the database for away when it goes on: only who leads may
// have changed, and a door waits for that.
func TestFrozen(t *testing.T) {
	if where := os.Getenv(frozenAt); where != "" {
		frozen(t, where)
		return
	}
	s := pgtest.Run(t)
	child := exec.Command(os.Args[0], "-test.run=^TestFrozen$", "-test.v")
	child.Env = append(os.Environ(), frozenAt+"="+s.URL())
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Process.Kill()
	lines := bufio.NewScanner(out)
	said := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "member ") {
				if lines.Text() != "member "+want {
					t.Fatalf("it is %q, want %q", lines.Text(), want)
				}
				return
			}
		}
		t.Fatalf("it has ended before it was %q", want)
	}
	said("runs")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	must(s.Freeze())
	time.Sleep(1100 * time.Millisecond) // by then it waits for an answer
	must(child.Process.Signal(syscall.SIGSTOP))
	slow := time.Since(begun) > 1800*time.Millisecond // it may have given up by then
	must(s.Thaw())
	if slow {
		t.Skip("this machine is too busy for it")
	}
	time.Sleep(4 * time.Second)
	must(child.Process.Signal(syscall.SIGCONT))
	said("was never without the database")
}

// frozen runs a member, and says whether it ever took the database for away.
func frozen(t *testing.T, where string) {
	database, err := journal.Dial(t.Context(), journal.Postgres{URL: where, Schema: "dibs", Board: "board"})
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	m, err := cluster.New(t.Context(), cluster.Config{Database: database, Name: "a", Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	go m.Run(t.Context())
	os.Stdout.WriteString("member runs\n")
	for begun := time.Now(); time.Since(begun) < 8*time.Second; time.Sleep(time.Millisecond) {
		if now, _ := m.Leadership(); now.Away != nil {
			os.Stdout.WriteString("member takes the database for away: " + now.Away.Error() + "\n")
			return
		}
	}
	os.Stdout.WriteString("member was never without the database\n")
}
