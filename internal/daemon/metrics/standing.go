package metrics

import (
	"context"
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

	requests, waiting, permits, burst, paused, skew  *prometheus.Desc
	tasks, ready, lag, held, depth, doubt, age       *prometheus.Desc
	reserved, members, epoch, away, doubted, notices *prometheus.Desc
}

func newStanding(read Standing, label func(string) string) *standing {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("dibs_"+name, help, labels, nil)
	}
	return &standing{
		read: read, label: label,
		requests: desc("notion_requests_total", "Requests sent to Notion, by endpoint and the status of the answer; 0 is none.", "endpoint", "status"),
		waiting:  desc("notion_waiting", "Requests that wait for a permit to be sent, by lane.", "lane"),
		permits:  desc("notion_permits", "Requests that could be sent at once now."),
		burst:    desc("notion_permits_max", "The setting notion.burst."),
		paused:   desc("notion_paused_seconds", "For how much longer Notion asked to be left alone."),
		skew:     desc("clock_skew_seconds", "Notion's time minus this machine's."),
		tasks:    desc("mirror_tasks", "Tasks in the local copy of the database."),
		ready:    desc("mirror_ready_tasks", "Tasks that a claim could get now."),
		lag:      desc("sync_lag_seconds", "Time since the local copy last agreed with Notion; -1 if it never did."),
		held:     desc("agent_claims_held", "Claims held through this daemon, by agent.", "agent"),
		reserved: desc("reservations", "Reservations of files and other things."),
		depth:    desc("outbox_entries", "Log entries and, as claims, finished claims that Notion has yet to be told of.", "log"),
		doubt:    desc("outbox_in_doubt_entries", "Log entries of which it is being found out whether they arrived.", "log"),
		members:  desc("cluster_members", "How many daemons share the journal, this one too; absent without journal.postgres."),
		epoch:    desc("cluster_epoch", "How many daemons have led so far, this one too; absent without journal.postgres."),
		away:     desc("cluster_database_away", "Whether the database of the journal could not be asked just now: 1, and then nothing is accepted, or 0; absent without journal.postgres."),
		doubted:  desc("journal_doubted", "Whether the journal's database looks as if it was restored to an older state, or emptied: 1, until dibs cluster adopt, or 0; absent without journal.postgres."),
		notices:  desc("notices_total", "Notices to a receiver of notify, by what became of them: sent, given_up, or failed for each message that was not taken.", "receiver", "outcome"),

		age: desc("outbox_oldest_seconds", "Age of the oldest that Notion has yet to be told of; 0 if there is none.", "log"),
	}
}

// Describe implements prometheus.Collector.
func (s *standing) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		s.requests, s.waiting, s.permits, s.burst, s.paused, s.skew, s.tasks, s.ready, s.lag, s.held, s.depth, s.doubt, s.age, s.reserved, s.members, s.epoch, s.away, s.doubted, s.notices,
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
	for _, n := range state.Notices {
		for outcome, count := range map[string]int{"sent": n.Sent, "failed": n.Failed, "given_up": n.GivenUp} {
			metrics <- prometheus.MustNewConstMetric(s.notices, prometheus.CounterValue, float64(count), n.Receiver, outcome)
		}
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
	if c := state.Cluster; c != nil {
		gauge(s.members, float64(c.Members))
		gauge(s.epoch, float64(c.Epoch))
		flag := map[bool]float64{true: 1}
		gauge(s.away, flag[c.Away])
		gauge(s.doubted, flag[c.Doubted])
	}
	for _, b := range state.Outbox {
		gauge(s.depth, float64(b.Depth), b.Log)
		gauge(s.doubt, float64(b.InDoubt), b.Log)
		gauge(s.age, b.Age.Seconds(), b.Log)
	}
}
