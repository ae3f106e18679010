package cluster_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"dibs/internal/cluster"
	"dibs/internal/journal"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"
)

// join makes a member, which keeps its key in dir.
func join(t *testing.T, s *pgtest.Server, name, dir string) (*cluster.Member, error) {
	t.Helper()
	database, err := journal.Dial(t.Context(), journal.Postgres{URL: s.URL(), Schema: "dibs", Board: "board"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { database.Close() })
	return cluster.New(t.Context(), cluster.Config{
		Database: database, Name: name, Dir: dir,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
}

// A journal of an older program stays as it is until no member with one was there for a term.
func TestOlderMember(t *testing.T) {
	s := pgtest.Run(t)
	script, err := os.ReadFile("../../fixtures/journals/1/postgres.sql")
	testkit.Must(t, err)
	const space = "dibs_2f835e812bbb81b69700e18108a40b1f"
	testkit.Must(t, s.Exec(string(script)))
	testkit.Must(t, s.Exec("UPDATE "+space+".leader SET until = now(); INSERT INTO "+space+".members VALUES ('old', '{}', now() - interval '5 s')"))
	database, err := journal.Dial(t.Context(), journal.Postgres{URL: s.URL(), Schema: "dibs", Board: strings.TrimPrefix(space, "dibs_")})
	testkit.Must(t, err)
	defer database.Close()
	m, err := cluster.New(t.Context(), cluster.Config{Database: database, Name: "new", Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	testkit.Must(t, err)
	go m.Run(t.Context())
	began := time.Now()
	term, err := m.Lead(t.Context(), false)
	if took := time.Since(began); err != nil || term.Epoch() == 0 || took < time.Second {
		t.Errorf("it leads after %v: %v", took, err)
	}
}

// mustJoin has the member listen and run, too.
func mustJoin(t *testing.T, s *pgtest.Server, name, dir string) (*cluster.Member, net.Listener) {
	t.Helper()
	m, err := join(t, s, name, dir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.Listen(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	l = m.Secure(l)
	t.Cleanup(func() { l.Close() })
	go m.Run(t.Context())
	return m, l
}

// knows waits until a member knows another one.
func knows(t *testing.T, m *cluster.Member, name string) cluster.Peer {
	t.Helper()
	for range 100 {
		if p, known := m.Peer(name); known && p.Address != "" {
			return p
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%s is not known", name)
	return cluster.Peer{}
}

// answer says hello to whoever is let in.
func answer(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			io.WriteString(conn, "hello") // the handshake comes first
			conn.Close()
		}()
	}
}

// hears calls a member and returns what it says.
func hears(ctx context.Context, dial func(context.Context) (net.Conn, error)) (string, error) {
	conn, err := dial(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	said, err := io.ReadAll(conn)
	return string(said), err
}

// Members believe the certificates that are in the database, and no others, on both sides.
func TestWhoIsBelieved(t *testing.T) {
	s := pgtest.Run(t)
	a, _ := mustJoin(t, s, "a", t.TempDir())
	b, listening := mustJoin(t, s, "b", t.TempDir())
	go answer(listening)
	to := knows(t, a, "b")
	call := func(ctx context.Context) (net.Conn, error) { return a.Dial(ctx, to) }
	if said, err := hears(t.Context(), call); said != "hello" {
		t.Fatalf("a member hears %q, %v", said, err)
	}

	// Somebody whose certificate is not in the database calls.
	strangers := t.TempDir()
	stranger, err := join(t, pgtest.Run(t), "b", strangers)
	if err != nil {
		t.Fatal(err)
	}
	if said, err := hears(t.Context(), func(ctx context.Context) (net.Conn, error) { return stranger.Dial(ctx, to) }); said != "" || err == nil {
		t.Errorf("a stranger hears %q, %v", said, err)
	}
	if said, err := hears(t.Context(), func(ctx context.Context) (net.Conn, error) {
		d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
		return d.DialContext(ctx, "tcp", to.Address)
	}); said != "" || err == nil {
		t.Errorf("who shows no certificate hears %q, %v", said, err)
	}
	if said, err := hears(t.Context(), func(ctx context.Context) (net.Conn, error) {
		d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{keyIn(t, strangers)}}}
		return d.DialContext(ctx, "tcp", to.Address)
	}); said != "" || err == nil {
		t.Errorf("who speaks TLS 1.2 hears %q, %v", said, err)
	}

	// Somebody else answers at the address.
	listening.Close()
	l, err := tls.Listen("tcp", to.Address, &tls.Config{Certificates: []tls.Certificate{keyIn(t, strangers)}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go answer(l)
	if said, err := hears(t.Context(), call); said != "" || err == nil || !strings.Contains(err.Error(), "is not b") {
		t.Errorf("of an impostor a member hears %q, %v", said, err)
	}
	_ = b
}

// keyIn reads the key of a member.
func keyIn(t *testing.T, dir string) tls.Certificate {
	t.Helper()
	path := filepath.Join(dir, "member.pem")
	made, err := tls.LoadX509KeyPair(path, path)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// A member keeps its key, which nobody else can read; it is called as no other one.
func TestAKeyIsKept(t *testing.T) {
	s, dir := pgtest.Run(t), t.TempDir()
	mustJoin(t, s, "a", dir)
	before, err := os.ReadFile(filepath.Join(dir, "member.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "member.pem")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info.Mode(), err)
	}
	block, _ := pem.Decode(before)
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		t.Error(err)
	}
	other, _ := mustJoin(t, s, "other", t.TempDir())
	knows(t, other, "a")
	if _, err := join(t, s, "a", dir); err != nil { // it was started anew
		t.Errorf("the same member again: %v", err)
	}
	if after, err := os.ReadFile(filepath.Join(dir, "member.pem")); err != nil || string(after) != string(before) {
		t.Errorf("it has another key: %v", err)
	}
	if _, err := join(t, s, "a", t.TempDir()); err == nil || !strings.Contains(err.Error(), "cluster.name") {
		t.Errorf("another one of its name: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "member.pem"), []byte("half a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := join(t, s, "a", dir); err == nil || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("with a broken key: %v", err)
	}
}

// A member stands by while another one leads, until it is told to stop, or nobody leads.
func TestWhoStandsBy(t *testing.T) {
	s := pgtest.Run(t)
	a, _ := mustJoin(t, s, "a", t.TempDir())
	first, err := a.Lead(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := mustJoin(t, s, "b", t.TempDir())

	why := errors.New("its socket failed")
	ctx, stop := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { stop(why) })
	if term, err := b.Lead(ctx, false); term != nil || !errors.Is(err, why) {
		t.Errorf("beside a leader, and told to stop: %v, %v; want why", term, err)
	}

	time.AfterFunc(100*time.Millisecond, func() {
		if err := first.Resign(t.Context()); err != nil {
			t.Error(err)
		}
	})
	next, err := b.Lead(t.Context(), false)
	if err != nil || next.Epoch() != first.Epoch()+1 {
		t.Fatalf("after the leader has resigned: %v, %v", next, err)
	}
}

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
