package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/clock"
	"dibs/internal/postgres"
)

// places are the daemons' names, and their agents.
var places = []struct {
	name   string
	agents []string
}{
	{"north", []string{"Sandman", "Oracle"}},
	{"south", []string{"Lucien", "Nuala"}},
	{"east", []string{"Gilbert", "Merv"}},
	{"west", []string{"Matthew", "Eve"}},
	{"centre", []string{"Cain", "Abel"}},
}

// MostMachines is the largest number of machines.
var MostMachines = len(places)

// patience is how long an agent retries while its daemon does not answer or no member leads. A new
// leader takes over ten seconds after the old one has died.
const patience = 20 * time.Second

// machine is a daemon as if on its own machine.
type machine struct {
	name    string
	agents  []string
	socket  string
	program string
	env     []string
	client  *client.Client
	child   *child
}

// errNoPostgres says that PostgreSQL is missing, and how to get it.
var errNoPostgres = errors.New("--machines needs a PostgreSQL server, and its programs are neither in PATH nor in /usr/lib/postgresql/*/bin: install one (apt-get install postgresql, brew install postgresql), or name one that runs with --postgres URL")

// startMachines starts PostgreSQL, unless a URL is given, and the daemons. stop ends them, even
// after a failed start.
func (d *demo) startMachines(ctx context.Context, dir string) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, f := range slices.Backward(stops) {
			f()
		}
	}
	database := d.Postgres
	if database == "" {
		server, err := postgres.New()
		if errors.Is(err, postgres.ErrMissing) {
			return stop, errNoPostgres
		}
		if err == nil {
			stops = append(stops, func() { server.Remove() })
			err = server.Start()
		}
		if err != nil {
			return stop, err
		}
		database = server.URL()
	}
	c := d.config
	for _, p := range places[:d.Machines] {
		home := filepath.Join(dir, p.name)
		m := &machine{name: p.name, agents: p.agents, socket: filepath.Join(home, "s"), program: d.Program}
		if err := os.Mkdir(home, 0o700); err != nil {
			return stop, err
		}
		m.env = []string{
			"HOME=" + home, "PATH=" + os.Getenv("PATH"), "DIBS_STATE_DIR=" + home, "DIBS_SOCKET=" + m.socket,
			"NOTION_TOKEN=" + d.notion.Token(), "DIBS_NOTION_BASE_URL=" + d.url,
			fmt.Sprint("DIBS_NOTION_RATE=", c.Notion.Rate), fmt.Sprint("DIBS_NOTION_BURST=", c.Notion.Burst),
			"DIBS_DATABASES_TASKS=" + c.Databases.Tasks, "DIBS_DATABASES_TASK_LOG=" + c.Databases.TaskLog, "DIBS_DATABASES_MESH_LOG=" + c.Databases.MeshLog,
			"DIBS_NOTION_TIMEOUT=3s", "DIBS_SYNC_INTERVAL=" + c.Sync.Interval.String(), "DIBS_SCHEDULE_SWEEP=" + c.Schedule.Sweep,
			"DIBS_JOURNAL_POSTGRES=" + database, "DIBS_CLUSTER_NAME=" + p.name,
		}
		m.client = client.New(m.socket)
		stops = append(stops, m.stop)
		if err := m.start(ctx); err != nil {
			return stop, err
		}
		d.machines = append(d.machines, m)
	}
	d.print.line("demo", "a board of %d tasks at %s, %d daemons with one journal in PostgreSQL; %s leads", len(d.notion.Pages(d.notion.Databases().Tasks)), d.url, len(d.machines), d.machines[0].name)
	return stop, nil
}

// start starts the daemon, and waits until it serves.
func (m *machine) start(ctx context.Context) error {
	ch, out, err := startChild(m.env, m.program, "dibs", "serve", "--json")
	if err != nil {
		return err
	}
	m.child = ch
	var said struct{ Socket, Detail string } // its address, or its error
	err = json.NewDecoder(out).Decode(&said)
	if err != nil || said.Socket == "" {
		m.child.kill()
		return fmt.Errorf("the daemon %s did not come up: %s", m.name, cmp.Or(said.Detail, m.child.said()))
	}
	return context.Cause(ctx)
}

// stop ends the daemon in good order.
func (m *machine) stop() {
	if m.child != nil {
		m.child.end()
	}
}

// crew returns all agents.
func (d *demo) crew() (all []string) {
	for _, m := range d.machines {
		all = append(all, m.agents...)
	}
	return all
}

// at returns an agent's machine; nil with only one daemon.
func (d *demo) at(agent string) *machine {
	for _, m := range d.machines {
		if slices.Contains(m.agents, agent) {
			return m
		}
	}
	return nil
}

func (d *demo) clientOf(agent string) *client.Client {
	if m := d.at(agent); m != nil {
		return m.client
	}
	return d.client
}

// anyClient returns a client of any daemon: all give the same answer.
func (d *demo) anyClient() *client.Client {
	if len(d.machines) > 0 {
		return d.machines[0].client
	}
	return d.client
}

// where says at which machine a claim was made, if there are several.
func (d *demo) where(agent string, cl api.Claim) string {
	if m := d.at(agent); m != nil {
		return fmt.Sprintf(" at %s, fence %d", m.name, cl.Fence)
	}
	return ""
}

// rival returns another agent, at another machine if there is one.
func (d *demo) rival(holder string) string {
	for _, m := range d.machines {
		if !slices.Contains(m.agents, holder) {
			return m.agents[0]
		}
	}
	if holder == "Oracle" {
		return "Sandman"
	}
	return "Oracle"
}

// ask sends a request to the agent's daemon. With several machines it repeats the request under the
// same idempotency key while the daemon is gone or nobody leads.
func (d *demo) ask(ctx context.Context, agent string, ask func(c *client.Client, key string) (api.Claim, error)) (api.Claim, error) {
	if len(d.machines) == 0 {
		return ask(d.client, "")
	}
	d.mu.Lock()
	d.asked++
	key := "demo-" + strconv.Itoa(d.asked)
	d.mu.Unlock()
	patient := time.Now().Add(patience)
	for announced := false; ; clock.Pause(ctx, workTime) {
		cl, err := ask(d.clientOf(agent), key)
		refused, isRefused := errors.AsType[*api.Problem](err)
		if err == nil || isRefused && !nobodyLeads(refused) || ctx.Err() != nil || time.Now().After(patient) {
			return cl, err
		}
		if !announced {
			d.print.line(agent, "is not answered, and asks again")
			announced = true
		}
	}
}

// nobodyLeads reports whether a request was refused because no member leads.
func nobodyLeads(p *api.Problem) bool {
	return p.Code == api.Code(claim.CodeJournalUnavailable) || p.Code == api.CodeStopping
}

// mayKill kills the leader, once, after one of its agents got a grant, and restarts it when another
// daemon leads.
func (d *demo) mayKill(ctx context.Context, agent string, cl api.Claim) error {
	m := d.at(agent)
	d.mu.Lock()
	kills := m != nil && m == d.machines[0] && d.grants >= personEdits && !d.killing
	d.killing = d.killing || kills
	d.mu.Unlock()
	if !kills {
		return nil
	}
	m.child.kill()
	killed := time.Now()
	d.mu.Lock()
	d.summary.Killed++
	d.mu.Unlock()
	d.print.line("demo", "killed the daemon %s, which led, while %s works on %s", m.name, agent, describe(cl.Task))
	leader, err := d.nextLeader(ctx, m)
	if err != nil {
		return err
	}
	d.print.line("demo", "the daemon %s leads after %.1f s", leader, time.Since(killed).Seconds())
	if err := d.askForHeld(ctx, agent, cl); err != nil {
		return err
	}
	if err := m.start(ctx); err != nil {
		return err
	}
	d.print.line("demo", "started the daemon %s again, a door to %s now: %s still has %s", m.name, leader, agent, describe(cl.Task))
	return nil
}

var errNoLeader = errors.New("the others have found no leader")

// nextLeader waits for a leader other than the one that was killed.
func (d *demo) nextLeader(ctx context.Context, dead *machine) (string, error) {
	for deadline := time.Now().Add(patience); ; clock.Pause(ctx, 100*time.Millisecond) {
		status, err := d.machines[1].client.Status(ctx)
		if err == nil && status.Cluster.Leader != "" && status.Cluster.Leader != dead.name {
			return status.Cluster.Leader, nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return "", fmt.Errorf("no other daemon leads %v after %s was killed: %w", patience, dead.name, cmp.Or(err, errNoLeader))
		}
	}
}
