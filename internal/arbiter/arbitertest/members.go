package arbitertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
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
	Etcd         string // the program that is one; empty for this one
}

// Main makes this process a member of an etcd if it was started for that, and does not
// return then. Tests that use StartMembers call it first in their TestMain.
func Main() {
	if said := os.Getenv(memberEnv); said != "" {
		fmt.Fprintln(os.Stderr, serveMember(said))
		os.Exit(1)
	}
}

// command is the command line of an etcd that is installed here.
func (o memberOptions) command() []string {
	return []string{
		o.Etcd, "--name", o.Name, "--data-dir", o.Dir, "--initial-cluster", o.All, "--log-level", "fatal", "--logger", "zap",
		"--listen-client-urls", o.Client.String(), "--advertise-client-urls", o.Client.String(),
		"--listen-peer-urls", o.Peer.String(), "--initial-advertise-peer-urls", o.Peer.String(),
	}
}

// serveMember runs a member until it is killed, and returns why it does not.
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
	if _, err := embed.StartEtcd(c); err != nil {
		return err
	}
	select {} // until it is killed
}

// Member is a member of an etcd, a process of its own: killed, stopped, or gone on with as
// such. One goroutine at a time uses it.
type Member struct {
	t        testing.TB
	options  memberOptions
	cmd, end *exec.Cmd // the member, and what kills it when this process is gone
	said     *bytes.Buffer
}

// StartMembers starts an etcd of n members, each a process of its own, which are killed when
// the test ends. It is the etcd that is installed on this machine, if one is, else that of this
// module: the test binary has to call Main for that.
func StartMembers(t testing.TB, n int) []*Member {
	t.Helper()
	all := make([]memberOptions, n)
	// One that is installed begins sooner, and does not cost what the race detector does that
	// watches this program.
	etcd, _ := exec.LookPath("etcd")
	var list string
	for i := range all {
		all[i] = memberOptions{Etcd: etcd, Name: fmt.Sprint("etcd-", i), Dir: t.TempDir(), Client: free(t), Peer: free(t)}
		list += fmt.Sprintf(",%s=%s", all[i].Name, all[i].Peer.String())
	}
	members := make([]*Member, n)
	for i, o := range all {
		o.All = list[1:]
		m := &Member{t: t, options: o}
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
func (m *Member) URL() string { return m.options.Client.String() }

func (m *Member) begin() error {
	if m.options.Etcd != "" {
		command := m.options.command()
		m.cmd = exec.Command(command[0], command[1:]...)
	} else {
		said, err := json.Marshal(m.options)
		if err != nil {
			return err
		}
		m.cmd = exec.Command(os.Args[0])
		m.cmd.Env = append(os.Environ(), memberEnv+"="+string(said))
	}
	m.said = new(bytes.Buffer)
	m.cmd.Stderr = m.said
	m.cmd.SysProcAttr = Apart()
	if err := m.cmd.Start(); err != nil {
		return err
	}
	m.end = exec.Command("sh", "-c", `cat; kill -9 "$0"`, strconv.Itoa(m.cmd.Process.Pid))
	if _, err := m.end.StdinPipe(); err != nil { // which ends with this process
		return err
	}
	return m.end.Start()
}

// Apart gives a process a group of its own. Else it goes on without having been told to, should
// the shell end while it is stopped that has started this program: that is what becomes of
// stopped processes in a group that nobody looks after any more.
func Apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// ready waits until the member takes part.
func (m *Member) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := m.client()
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		asking, cancel := context.WithTimeout(ctx, time.Second)
		_, err = client.Get(asking, "ready")
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			m.Kill()
			return fmt.Errorf("a member of etcd does not start: %w\n%s", err, m.said)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (m *Member) client() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{m.URL()}, Logger: zap.NewNop()})
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
	for _, cmd := range []*exec.Cmd{m.end, m.cmd} {
		if cmd != nil && cmd.Process != nil {
			cmd.Process.Kill()
			cmd.Wait() // says that it was killed
		}
	}
	m.end, m.cmd = nil, nil
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
		client, err := m.client()
		if err != nil {
			continue
		}
		status, err := client.Status(ctx, m.URL())
		client.Close()
		if err == nil && status.Leader == status.Header.MemberId {
			return m
		}
	}
	return nil
}
