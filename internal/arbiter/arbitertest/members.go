package arbitertest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// memberEnv makes the test binary a member of an etcd; its value is a memberOptions.
const memberEnv = "ARBITERTEST_MEMBER"

// memberOptions say what a member is like, as the process that is one is told.
type memberOptions struct {
	Name, Dir    string
	Client, Peer url.URL
	All          string // the names of all members, and where they find each other
}

// Main makes this process a member of an etcd if it was started for that, and does not
// return then. Tests that use StartMembers call it first in their TestMain.
func Main() {
	if said := os.Getenv(memberEnv); said != "" {
		if err := serveMember(said); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// serveMember runs a member until its standard input ends.
func serveMember(said string) error {
	var o memberOptions
	if err := json.Unmarshal([]byte(said), &o); err != nil {
		return err
	}
	c := embed.NewConfig()
	c.Name, c.Dir, c.InitialCluster = o.Name, o.Dir, o.All
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{o.Client}, []url.URL{o.Client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{o.Peer}, []url.URL{o.Peer}
	// The files outlive a process that is killed, which is what happens here, also where
	// nobody waits for the disk.
	c.UnsafeNoFsync = true
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	running, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	go func() {
		<-running.Server.ReadyNotify()
		fmt.Println("ready")
	}()
	io.Copy(io.Discard, os.Stdin) // the test ends before it could kill its members
	return nil
}

// Member is a member of an etcd, a process of its own: killed, stopped, or gone on with as
// such. One goroutine at a time uses it.
type Member struct {
	t     testing.TB
	env   []string
	url   string
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Reader
}

// StartMembers starts an etcd of n members, each a process of its own, which are killed when
// the test ends. The test binary has to call Main.
func StartMembers(t testing.TB, n int) []*Member {
	t.Helper()
	all := make([]memberOptions, n)
	var list string
	for i := range all {
		all[i] = memberOptions{Name: fmt.Sprint("etcd-", i), Dir: t.TempDir(), Client: free(t), Peer: free(t)}
		list += fmt.Sprintf(",%s=%s", all[i].Name, all[i].Peer.String())
	}
	members := make([]*Member, n)
	for i, o := range all {
		o.All = list[1:]
		said, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		m := &Member{t: t, url: o.Client.String(), env: append(os.Environ(), memberEnv+"="+string(said))}
		t.Cleanup(m.Kill)
		if err := m.begin(); err != nil {
			t.Fatal(err)
		}
		members[i] = m
	}
	for _, m := range members { // they wait for each other
		if err := m.ready(); err != nil {
			t.Fatal(err)
		}
	}
	return members
}

// URL is where clients find it.
func (m *Member) URL() string { return m.url }

func (m *Member) begin() error {
	m.cmd = exec.Command(os.Args[0])
	m.cmd.Env, m.cmd.Stderr = m.env, os.Stderr
	var err error
	if m.stdin, err = m.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	m.lines = bufio.NewReader(out)
	return m.cmd.Start()
}

// ready waits until the member takes part.
func (m *Member) ready() error {
	said := make(chan error, 1)
	go func() {
		_, err := m.lines.ReadString('\n')
		said <- err
	}()
	select {
	case err := <-said:
		if err != nil {
			return fmt.Errorf("a member of etcd does not start: %w", err)
		}
		return nil
	case <-time.After(time.Minute):
		return fmt.Errorf("a member of etcd does not start")
	}
}

// Begin starts the member again after Kill, with the data that it had, and waits until it
// takes part. The others have to be enough for that.
func (m *Member) Begin() {
	m.t.Helper()
	if err := m.begin(); err != nil {
		m.t.Error(err)
		return
	}
	if err := m.ready(); err != nil {
		m.t.Error(err)
	}
}

// Kill kills the member, with SIGKILL, if it runs.
func (m *Member) Kill() {
	if m.cmd == nil || m.cmd.Process == nil {
		return
	}
	m.cmd.Process.Kill()
	m.cmd.Wait() // says that it was killed
	m.stdin.Close()
	m.cmd = nil
}

// Stop has the member stand still until GoOn.
func (m *Member) Stop() { m.cmd.Process.Signal(syscall.SIGSTOP) }

// GoOn lets it go on.
func (m *Member) GoOn() { m.cmd.Process.Signal(syscall.SIGCONT) }

// Leader is the member that leads the others, as one of them knows, nil if none does.
func Leader(ctx context.Context, members []*Member) *Member {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, m := range members {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.url}, Logger: zap.NewNop()})
		if err != nil {
			continue
		}
		status, err := client.Status(ctx, m.url)
		client.Close()
		if err == nil && status.Leader == status.Header.MemberId {
			return m
		}
	}
	return nil
}
