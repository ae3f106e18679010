package metrics

import (
	"context"
	"strconv"
	"time"

	"dibs/internal/api"

	"github.com/prometheus/client_golang/prometheus"
)

// Standing reads how things stand.
type Standing func(context.Context) (State, error)

// State is how things stand at one moment.
type State struct {
	// Requests counts what was sent to Notion since the start.
	Requests []Requests
	// Waiting counts who waits for a permit to send, by lane.
	Waiting map[string]int
	// Permits is how many requests could be sent at once, of Burst.
	Permits, Burst int
	// Paused is how long Notion still wants to be left alone.
	Paused time.Duration
	// ClockSkew is Notion's time minus this machine's.
	ClockSkew time.Duration

	Mirror api.MirrorStatus
	// Held counts the claims held here, by agent.
	Held   map[string]int
	Outbox []Backlog
	// Cluster is whether the cluster's etcd can be used; nil without a cluster.
	Cluster *bool
	// Foreign says that it is not as this daemon left it, and Members is how many there are.
	Foreign bool
	Members int
	// Doubted is whether the database of the journal was restored or emptied; nil with a journal
	// of the daemon's own.
	Doubted *bool
	// Others is how many kinds of settings there are under which other daemons claim on the
	// board, and Differ how many settings of members of the cluster differ.
	Others, Differ int
	// Share is how many requests this daemon may send in a minute, of those of its cluster.
	Share int
	// Leads is whether this daemon reads the board for its cluster, Led whether it is known
	// that one does, and Apart whether this one reads it for itself although another does.
	Leads, Led, Apart bool
	// Behind is how many publications of the leader's were not taken over yet, and Lag for how
	// long that has been so.
	Behind int
	Lag    time.Duration
	// InboxOwed is how many triggers and acknowledgements the cluster's inbox has yet to get
	// from this daemon.
	InboxOwed int
	// Reservations is how many there are.
	Reservations int
}

// Requests is how often one kind of request was answered with one status; the
// status is zero for those without an answer.
type Requests struct {
	Endpoint  string
	Status, N int
}

// Backlog is what is owed to one log; to "claims", what agents said when they
// were done with a task.
type Backlog struct {
	Log            string
	Depth, InDoubt int
	Age            time.Duration // of the oldest entry
}

// readTimeout is how long a scrape may take to read how things stand.
const readTimeout = 5 * time.Second

// standing collects a State.
type standing struct {
	read  Standing
	label func(agent string) string

	requests, waiting, permits, burst, paused, skew            *prometheus.Desc
	tasks, ready, lag, held, depth, doubt, age, cluster, share *prometheus.Desc
	doubted, foreign, members, others, differ                  *prometheus.Desc
	reserved, inboxOwed                                        *prometheus.Desc
	leads, led, apart, behind, clusterLag                      *prometheus.Desc
}

func newStanding(read Standing, label func(string) string) *standing {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("dibs_"+name, help, labels, nil)
	}
	return &standing{
		read: read, label: label,
		requests:  desc("notion_requests_total", "Requests sent to Notion, by endpoint and the status of the answer; 0 is none.", "endpoint", "status"),
		waiting:   desc("notion_waiting", "Requests that wait for a permit to be sent, by lane.", "lane"),
		permits:   desc("notion_permits", "Requests that could be sent at once now."),
		burst:     desc("notion_permits_max", "The setting notion.burst."),
		paused:    desc("notion_paused_seconds", "For how much longer Notion asked to be left alone."),
		skew:      desc("clock_skew_seconds", "Notion's time minus this machine's."),
		tasks:     desc("mirror_tasks", "Tasks in the local copy of the database."),
		ready:     desc("mirror_ready_tasks", "Tasks that a claim could get now."),
		lag:       desc("sync_lag_seconds", "Time since the local copy last agreed with Notion; -1 if it never did."),
		held:      desc("agent_claims_held", "Claims held through this daemon, by agent.", "agent"),
		reserved:  desc("reservations", "Reservations of files and other things."),
		depth:     desc("outbox_entries", "Log entries and, as claims, finished claims that Notion has yet to be told of.", "log"),
		doubt:     desc("outbox_in_doubt_entries", "Log entries of which it is being found out whether they arrived.", "log"),
		cluster:   desc("cluster_usable", "Whether the cluster's etcd can be used: 1, or 0, and then no task can be claimed; absent without a cluster."),
		share:     desc("cluster_share", "How many requests to Notion this daemon may send in a minute, of those that all members of its cluster may send together; absent without a cluster."),
		foreign:   desc("cluster_foreign", "Whether the cluster's etcd is not as this daemon left it, emptied or restored: 1, until dibs cluster adopt, or 0; absent without a cluster."),
		doubted:   desc("journal_doubted", "Whether the journal's database was restored to an older state, or emptied, by what the board shows: 1, until dibs cluster adopt, or 0; absent with a journal of the daemon's own."),
		members:   desc("cluster_members", "How many daemons the cluster has, as this one sees it; absent without a cluster."),
		differ:    desc("cluster_settings_differ", "How many settings of other members of the cluster differ from those here; absent without a cluster."),
		others:    desc("other_settings", "How many kinds of settings there are, among those not in this cluster too, under which other daemons on the board claim, and which do not go with those here."),
		leads:     desc("cluster_leads", "Whether this daemon reads the board for its cluster: 1 or 0; absent without a cluster."),
		inboxOwed: desc("cluster_inbox_owed", "Triggers and acknowledgements that are stored here, and that the cluster's inbox has yet to get; absent without a cluster."),
		led:       desc("cluster_leader_known", "Whether this daemon knows of a member of its cluster that reads the board: 1 or 0; absent without a cluster."),
		apart:     desc("cluster_apart", "Whether this daemon reads the board for itself although another member does, which has another version or other settings: 1 or 0; absent without a cluster."),
		behind:    desc("cluster_behind", "How much of what the leader of the cluster has read this daemon has received and not taken over yet, in publications; absent without a cluster."),

		clusterLag: desc("cluster_lag_seconds", "For how long this daemon has not taken over what the leader of its cluster has read, or cannot receive it; 0 if it has all; absent without a cluster."),

		age: desc("outbox_oldest_seconds", "Age of the oldest that Notion has yet to be told of; 0 if there is none.", "log"),
	}
}

// Describe implements prometheus.Collector.
func (s *standing) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		s.requests, s.waiting, s.permits, s.burst, s.paused, s.skew, s.tasks, s.ready, s.lag, s.held, s.depth, s.doubt, s.age, s.cluster, s.share, s.inboxOwed, s.reserved, s.doubted, s.foreign, s.members, s.others, s.differ,
		s.leads, s.led, s.apart, s.behind, s.clusterLag,
	} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (s *standing) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	state, err := s.read(ctx)
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(s.lag, err)
		return
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, r := range state.Requests {
		metrics <- prometheus.MustNewConstMetric(s.requests, prometheus.CounterValue, float64(r.N), r.Endpoint, strconv.Itoa(r.Status))
	}
	for lane, n := range state.Waiting {
		gauge(s.waiting, float64(n), lane)
	}
	gauge(s.permits, float64(state.Permits))
	gauge(s.burst, float64(state.Burst))
	gauge(s.paused, max(0, state.Paused.Seconds()))
	gauge(s.skew, state.ClockSkew.Seconds())
	gauge(s.tasks, float64(state.Mirror.Tasks))
	gauge(s.ready, float64(state.Mirror.Ready))
	lag := state.Mirror.AgeSeconds
	if state.Mirror.SyncedAt.IsZero() {
		lag = -1
	}
	gauge(s.lag, lag)
	held := make(map[string]int)
	for agent, n := range state.Held {
		held[s.label(agent)] += n
	}
	for agent, n := range held {
		gauge(s.held, float64(n), agent)
	}
	gauge(s.reserved, float64(state.Reservations))
	gauge(s.others, float64(state.Others))
	flag := map[bool]float64{true: 1}
	if state.Doubted != nil {
		gauge(s.doubted, flag[*state.Doubted])
	}
	if state.Cluster != nil {
		gauge(s.cluster, flag[*state.Cluster])
		gauge(s.foreign, flag[state.Foreign])
		gauge(s.members, float64(state.Members))
		gauge(s.differ, float64(state.Differ))
		gauge(s.leads, flag[state.Leads])
		gauge(s.led, flag[state.Led])
		gauge(s.apart, flag[state.Apart])
		gauge(s.behind, float64(state.Behind))
		gauge(s.clusterLag, state.Lag.Seconds())
		gauge(s.share, float64(state.Share))
		gauge(s.inboxOwed, float64(state.InboxOwed))
	}
	for _, b := range state.Outbox {
		gauge(s.depth, float64(b.Depth), b.Log)
		gauge(s.doubt, float64(b.InDoubt), b.Log)
		gauge(s.age, b.Age.Seconds(), b.Log)
	}
}
