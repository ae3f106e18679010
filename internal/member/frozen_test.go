package member_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"dibs/internal/journal"
	"dibs/internal/member"
	"dibs/internal/pgtest"

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
	for _, do := range []func() error{
		s.Freeze, pause(1200 * time.Millisecond), // by then it waits for an answer
		func() error { return child.Process.Signal(syscall.SIGSTOP) },
		s.Thaw, pause(4 * time.Second),
		func() error { return child.Process.Signal(syscall.SIGCONT) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	said("was never without the database")
}

func pause(d time.Duration) func() error {
	return func() error { time.Sleep(d); return nil }
}

// frozen runs a member, and says whether it ever took the database for away.
func frozen(t *testing.T, where string) {
	database, err := journal.Dial(t.Context(), journal.Postgres{URL: where, Schema: "dibs", Board: "board"})
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	m, err := member.New(t.Context(), member.Config{Database: database, Name: "a", Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
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
