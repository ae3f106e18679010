package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/cluster"
	"dibs/internal/daemon/metrics"
	"dibs/internal/door/server"
	"dibs/internal/journal"
	"dibs/internal/task"
)

// doorDrain is how long a stopping door waits for requests that it has handed to the leader.
const doorDrain = 3 * time.Second

// shared belongs to a daemon whose journal lies in a PostgreSQL database. Of the daemons that share
// it one leads and does all the work; the others are doors to it.
type shared struct {
	process  *process
	handlers func() (agents, webhooks http.Handler) // while this daemon leads, else nil
	member   *cluster.Member
	database *journal.Database
	machines *server.Machines
	door     *server.Door
	front    *server.Front // for callers of this machine
	peers    *server.Peers // for the other members
	listen   net.Listener  // for peers
}

// share connects to the database and sets up this daemon's member. handlers is as in shared.
func (p *process) share(ctx context.Context, network cluster.Network, handlers func() (agents, webhooks http.Handler)) (*shared, error) {
	c := p.live.Load()
	name, err := memberName(c.Cluster)
	if err != nil {
		return nil, err
	}
	where, err := Place(*c, p.log)
	if err != nil {
		return nil, err
	}
	where.Memory = filepath.Join(c.StateDir, "database.json")
	database, err := journal.Dial(ctx, where)
	if err != nil {
		return nil, err
	}
	p.cleanup = append(p.cleanup, database.Close)
	s := &shared{process: p, handlers: handlers, database: database}
	s.member, err = cluster.New(ctx, cluster.Config{
		Database: database, Name: name, Dir: c.StateDir, Network: network, Log: p.log.With(claim.AttrEvent, claim.EventLeadership),
		Agents: namesAt(*c), Databases: logsOf(*c),
	})
	if err != nil {
		return nil, err
	}
	if s.listen, err = s.member.Listen(ctx, c.Cluster.Listen, c.Cluster.Advertise); err != nil {
		return nil, err
	}
	s.machines = server.NewMachines(name, s.dial)
	s.door = server.NewDoor(s, p.log)
	s.front = server.NewFront(s.door, server.FrontOptions{Member: name, Log: p.log})
	s.front.SetListed(listed(*c))
	s.peers = server.NewPeers(s, p.log)
	return s, nil
}

// dial connects to a member.
func (s *shared) dial(ctx context.Context, name string) (net.Conn, error) {
	if name == s.member.Name() {
		return s.peers.Dial(ctx)
	}
	p, known := s.member.Peer(name)
	if !known {
		return nil, fmt.Errorf("no member is called %s", name)
	}
	return s.member.Dial(ctx, p)
}

// Secure lets only members through.
func (s *shared) Secure(l net.Listener) net.Listener { return s.member.Secure(l) }

// Who returns the name of the member at the other end of a connection.
func (s *shared) Who(c *tls.ConnectionState) (string, error) {
	if c == nil { // from this process, see Peers.Dial
		return s.member.Name(), nil
	}
	p, err := s.member.Caller(c)
	return p.Name, err
}

// Leading returns the server while this daemon leads, else nil.
func (s *shared) Leading() http.Handler {
	agents, _ := s.handlers()
	return agents
}

// Hooks returns what takes webhooks while this daemon leads, else nil.
func (s *shared) Hooks() http.Handler {
	_, webhooks := s.handlers()
	return webhooks
}

// Way returns how to reach the leader.
func (s *shared) Way() server.Way {
	now, changed := s.member.Leadership()
	way := server.Way{
		Leader: now.Leader.Name, Epoch: now.Epoch, Changed: changed, Lost: now.Away != nil,
		Dial: func(ctx context.Context) (net.Conn, error) { return s.dial(ctx, now.Leader.Name) },
		Why:  "no member leads at the moment: ask again",
	}
	if now.Leader.Name != "" {
		way.Why = fmt.Sprintf("%s leads since %s (epoch %d)", now.Leader.Name, now.Since.Local().Format(time.DateTime), now.Epoch)
	}
	if now.Away != nil {
		way.Why += fmt.Sprintf(", as far as is known: %v", now.Away)
	}
	return way
}

// logsOf returns the ids of the log databases for the member.
func logsOf(c config.Config) map[string]string {
	logs := make(map[string]string)
	for key, id := range map[string]string{"databases.task_log": c.Databases.TaskLog, "databases.mesh_log": c.Databases.MeshLog} {
		if parsed, err := task.ParseID(id); err == nil {
			logs[key] = string(parsed)
		}
	}
	return logs
}

// namesAt returns the agents' names and users for the member.
func namesAt(c config.Config) []cluster.Name {
	var out []cluster.Name
	for _, a := range c.Agents {
		out = append(out, cluster.Name{Name: a.Name, UIDs: a.UIDs})
	}
	return out
}

// agentsAt returns for the broker the names that users of a member's machine may use, and false if
// the member is not known.
func (s *shared) agentsAt(name string) ([]broker.Agent, bool) {
	if name == s.member.Name() {
		return agentsOf(*s.process.live.Load()), true
	}
	p, known := s.member.Peer(name)
	var out []broker.Agent
	for _, a := range p.Agents {
		out = append(out, broker.Agent{Name: a.Name, UIDs: a.UIDs})
	}
	return out, known
}

// Place returns the PostgreSQL database and schema of a configuration's shared journal.
func Place(c config.Config, log *slog.Logger) (journal.Postgres, error) {
	if err := c.Databases.Named(); err != nil {
		return journal.Postgres{}, err
	}
	board, err := task.ParseID(c.Databases.Tasks)
	if err != nil {
		return journal.Postgres{}, fmt.Errorf("databases.tasks: %w", err)
	}
	where, err := c.Journal.ReadPostgres(log)
	return journal.Postgres{URL: string(where), Schema: c.Journal.Schema, Board: string(board), Log: log}, err
}

// memberName returns this daemon's name in the cluster.
func memberName(c config.Cluster) (string, error) {
	if c.Name != "" {
		return c.Name, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("cluster.name: this machine has no name to take (%w): set one", err)
	}
	return name, nil
}

// Members returns who shares the journal. Its times are the database's.
func (s *shared) Members(ctx context.Context) (api.Cluster, error) {
	all, err := s.member.All(ctx)
	if err != nil {
		return api.Cluster{}, err
	}
	out := api.Cluster{Members: []api.Member{}, ClusterStatus: api.ClusterStatus{Name: s.member.Name(), Epoch: all.Epoch, Since: api.Time{Time: all.Since}}}
	for _, m := range all.Members {
		leads := m.Name == all.Leader && !all.Over
		if leads {
			out.Leader = m.Name
		}
		out.Members = append(out.Members, api.Member{Name: m.Name, Leader: leads, Address: cluster.AddressIn(m.Body), SeenAt: api.Time{Time: m.Seen}, Self: m.Name == out.Name})
	}
	return out, nil
}

// report returns the cluster's part of the status.
func (s *shared) report() *api.ClusterStatus {
	now, _ := s.member.Leadership()
	return &api.ClusterStatus{Name: s.member.Name(), Leader: now.Leader.Name, Epoch: now.Epoch, Since: api.Time{Time: now.Since}}
}

// state returns the cluster's part of the metrics.
func (s *shared) state() *metrics.Cluster {
	now, _ := s.member.Leadership()
	return &metrics.Cluster{Members: s.member.There(), Epoch: now.Epoch, Away: now.Away != nil}
}
