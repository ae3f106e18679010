package metrics

import (
	"context"
	"slices"
	"strconv"
	"time"

	"dibs/internal/api"

	"github.com/prometheus/client_golang/prometheus"
)

// Standing reads the present state.
type Standing func(context.Context) (State, error)

// State is the state of the daemon at one moment.
type State struct {
	// Requests counts the requests to Notion since the start.
	Requests []Requests
	// Waiting counts the requests that wait for a permit, by lane.
	Waiting map[string]int
	// Permits is how many requests could be sent at once now, out of Burst.
	Permits, Burst int
	// Paused is how much longer Notion asked for a pause.
	Paused time.Duration
	// ClockSkew is Notion's time minus this machine's.
	ClockSkew time.Duration

	Mirror api.MirrorStatus
	// Held counts the claims held here, by agent.
	Held map[string]int
	// Outbox is empty while the journal cannot be reached.
	Outbox []Backlog
	// Notices has the counts of each receiver since the start.
	Notices []Notices
	// Cluster describes the daemons that share the journal; nil if none do.
	Cluster *Cluster
	// Reservations is the number of reservations.
	Reservations int
}

// Cluster describes the daemons that share a journal: their number, and the epoch.
type Cluster struct {
	Members int
	Epoch   int64
	// Away says that the database could not be reached just now; Doubted that it seems to have been
	// restored to an older state, or emptied.
	Away, Doubted bool
}

// Requests counts the requests to one endpoint that were answered with one status; zero is no
// answer.
type Requests struct {
	Endpoint  string
	Status, N int
}

// Backlog is what is owed to one log, or, for "claims", the ends of claims.
type Backlog struct {
	Log            string
	Depth, InDoubt int
	Age            time.Duration // of the oldest entry
}

// Notices counts the notices to a receiver: those sent, and those given up. Failed is how often a
// message was not taken.
type Notices struct {
	Receiver              string
	Sent, Failed, GivenUp int
}

// readTimeout limits the reading of the state for a scrape.
const readTimeout = 5 * time.Second

// standing is a Prometheus collector for a State.
type standing struct {
	read  Standing
	label func(agent string) string
}

// Describe implements prometheus.Collector. It describes nothing: what there is depends on the state.
func (s *standing) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s *standing) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	state, err := s.read(ctx)
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(prometheus.NewDesc("dibs_sync_lag_seconds", "", nil, nil), err)
		return
	}
	// Labels are a name and a value each.
	add := func(kind prometheus.ValueType, value float64, name, help string, labels ...string) {
		var names, values []string
		for label := range slices.Chunk(labels, 2) {
			names, values = append(names, label[0]), append(values, label[1])
		}
		metrics <- prometheus.MustNewConstMetric(prometheus.NewDesc("dibs_"+name, help, names, nil), kind, value, values...)
	}
	gauge := func(value float64, name, help string, labels ...string) {
		add(prometheus.GaugeValue, value, name, help, labels...)
	}
	for _, n := range state.Notices {
		for outcome, count := range map[string]int{"sent": n.Sent, "failed": n.Failed, "given_up": n.GivenUp} {
			add(prometheus.CounterValue, float64(count), "notices_total", "Notices to a receiver of notify, by what became of them: sent, given_up, or failed for each message that was not taken.", "receiver", n.Receiver, "outcome", outcome)
		}
	}
	for _, r := range state.Requests {
		add(prometheus.CounterValue, float64(r.N), "notion_requests_total", "Requests sent to Notion, by endpoint and the status of the answer; 0 is none.", "endpoint", r.Endpoint, "status", strconv.Itoa(r.Status))
	}
	for lane, n := range state.Waiting {
		gauge(float64(n), "notion_waiting", "Requests that wait for a permit to be sent, by lane.", "lane", lane)
	}
	gauge(float64(state.Permits), "notion_permits", "Requests that could be sent at once now.")
	gauge(float64(state.Burst), "notion_permits_max", "The setting notion.burst.")
	gauge(max(0, state.Paused.Seconds()), "notion_paused_seconds", "For how much longer Notion asked to be left alone.")
	gauge(state.ClockSkew.Seconds(), "clock_skew_seconds", "Notion's time minus this machine's.")
	gauge(float64(state.Mirror.Tasks), "mirror_tasks", "Tasks in the local copy of the database.")
	gauge(float64(state.Mirror.Ready), "mirror_ready_tasks", "Tasks that a claim could get now.")
	lag := state.Mirror.AgeSeconds
	if state.Mirror.SyncedAt.IsZero() {
		lag = -1
	}
	gauge(lag, "sync_lag_seconds", "Time since the local copy last agreed with Notion; -1 if it never did.")
	held := make(map[string]int)
	for agent, n := range state.Held {
		held[s.label(agent)] += n
	}
	for agent, n := range held {
		gauge(float64(n), "agent_claims_held", "Claims held through this daemon, by agent.", "agent", agent)
	}
	gauge(float64(state.Reservations), "reservations", "Reservations of files and other things.")
	if c := state.Cluster; c != nil {
		gauge(float64(c.Members), "cluster_members", "How many daemons share the journal, this one too; absent without journal.postgres.")
		gauge(float64(c.Epoch), "cluster_epoch", "How many daemons have led so far, this one too; absent without journal.postgres.")
		flag := map[bool]float64{true: 1}
		gauge(flag[c.Away], "cluster_database_away", "Whether the database of the journal could not be asked just now: 1, and then nothing is accepted, or 0; absent without journal.postgres.")
		gauge(flag[c.Doubted], "journal_doubted", "Whether the journal's database looks as if it was restored to an older state, or emptied: 1, until dibs cluster adopt, or 0; absent without journal.postgres.")
	}
	for _, b := range state.Outbox {
		gauge(float64(b.Depth), "outbox_entries", "Log entries and, as claims, finished claims that Notion has yet to be told of.", "log", b.Log)
		gauge(float64(b.InDoubt), "outbox_in_doubt_entries", "Log entries of which it is being found out whether they arrived.", "log", b.Log)
		gauge(b.Age.Seconds(), "outbox_oldest_seconds", "Age of the oldest that Notion has yet to be told of; 0 if there is none.", "log", b.Log)
	}
}
