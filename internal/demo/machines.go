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
)

// places are where daemons are, and who works there.
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

// MostMachines is how many machines there can be.
var MostMachines = len(places)

// deadTime is for how long the daemon that is killed is gone.
const deadTime = 1500 * time.Millisecond

// patience is for how long an agent asks again whose daemon does not answer.
const patience = 15 * time.Second

// machine is a daemon as on a machine of its own.
type machine struct {
	name    string
	agents  []string
	socket  string
	program string
	env     []string
	client  *client.Client
	child   *child
}

// startMachines starts etcd, unless one is named, and the daemons. stop ends them, also those
// of a start that failed.
func (d *demo) startMachines(ctx context.Context, dir string) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, f := range slices.Backward(stops) {
			f()
		}
	}
	etcd := d.Etcd
	if etcd == "" {
		running, url, err := startEtcd(ctx, dir)
		if err != nil {
			return stop, err
		}
		etcd, stops = url, append(stops, running.kill)
	}
	// What the demo leaves in an etcd that others use is apart, and taken away.
	prefix := "/" + filepath.Base(dir)
	if d.Etcd != "" {
		stops = append(stops, func() { forget(etcd, prefix) })
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
			"DIBS_SYNC_INTERVAL=" + c.Sync.Interval.String(), "DIBS_SCHEDULE_SWEEP=" + c.Schedule.Sweep,
			"DIBS_CLUSTER_ETCD=" + etcd, "DIBS_CLUSTER_NAME=" + p.name, "DIBS_CLUSTER_PREFIX=" + prefix,
		}
		m.client = client.New(m.socket)
		stops = append(stops, m.stop)
		if err := m.start(ctx); err != nil {
			return stop, err
		}
		d.machines = append(d.machines, m)
	}
	d.print.line("demo", "a board of %d tasks at %s, %d daemons, and etcd at %s", len(d.notion.Pages(d.notion.Databases().Tasks)), d.url, len(d.machines), etcd)
	return stop, nil
}

// start starts the daemon, and waits until it serves.
func (m *machine) start(ctx context.Context) error {
	ch, out, err := startChild(m.env, m.program, "dibs", "serve", "--json")
	if err != nil {
		return err
	}
	m.child = ch
	var said struct{ Socket, Detail string } // where it serves, or why it does not
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

// crew is all agents.
func (d *demo) crew() (all []string) {
	for _, m := range d.machines {
		all = append(all, m.agents...)
	}
	return all
}

// at is the machine of an agent; nil where there is only one daemon.
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

// clients are those of all daemons.
func (d *demo) clients() (all []*client.Client) {
	for _, m := range d.machines {
		all = append(all, m.client)
	}
	if len(all) == 0 {
		all = append(all, d.client)
	}
	return all
}

// where says where a claim was made, if that can be told apart.
func (d *demo) where(agent string, cl api.Claim) string {
	if m := d.at(agent); m != nil {
		return fmt.Sprintf(" at %s, fence %d", m.name, cl.Fence)
	}
	return ""
}

// rival is an agent that wants what holder has, at another machine if there is one.
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

// ask asks the agent's daemon. While that is gone, the agent of a machine asks again, under the
// same key.
func (d *demo) ask(ctx context.Context, agent string, ask func(c *client.Client, key string) (api.Claim, error)) (api.Claim, error) {
	if len(d.machines) == 0 {
		return ask(d.client, "")
	}
	d.mu.Lock()
	d.asked++
	key := "demo-" + strconv.Itoa(d.asked)
	d.mu.Unlock()
	patient := time.Now().Add(patience)
	for told := false; ; pause(ctx, workTime) {
		cl, err := ask(d.clientOf(agent), key)
		var refused *api.Problem
		if err == nil || errors.As(err, &refused) || ctx.Err() != nil || time.Now().After(patient) {
			return cl, err
		}
		if !told {
			d.print.line(agent, "is not answered, and asks again")
			told = true
		}
	}
}

// mayKill kills the last daemon, once, when an agent has been granted something there, and
// starts it again a little later.
func (d *demo) mayKill(ctx context.Context, agent string, cl api.Claim) error {
	m := d.at(agent)
	d.mu.Lock()
	kills := m != nil && m == d.machines[len(d.machines)-1] && d.grants >= personEdits && !d.killing
	d.killing = d.killing || kills
	d.mu.Unlock()
	if !kills {
		return nil
	}
	if err := d.delivered(ctx, m.client); err != nil { // so that what it logged can be checked soon
		return err
	}
	m.child.kill()
	d.mu.Lock()
	d.summary.Killed++
	d.mu.Unlock()
	d.print.line("demo", "killed the daemon %s, while %s works on %s", m.name, agent, describe(cl.Task))
	if err := d.askForHeld(ctx, agent, cl); err != nil {
		return err
	}
	pause(ctx, deadTime)
	if err := m.start(ctx); err != nil {
		return err
	}
	d.print.line("demo", "started the daemon %s again: %s still has %s", m.name, agent, describe(cl.Task))
	return nil
}
