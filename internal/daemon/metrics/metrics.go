// Package metrics exports the daemon's numbers to Prometheus. Events are counted as they happen;
// states are read at each scrape. There is no global state, so that several daemons can live in one
// process. Numbers by agent are bounded.
package metrics

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// maxAgents is how many agents have their own series. Agent names are unbounded if none are
	// configured, and each adds lines to every scrape.
	maxAgents = 100
	// otherAgents is the label of all further agents. No agent's name begins with a space.
	otherAgents = " others"
	// maxScrapes limits concurrent scrapes.
	maxScrapes = 4
)

// Options configure a Metrics. All fields are required.
type Options struct {
	Version string
	// WriteWindow and Settle are settings of the claim policy.
	WriteWindow, Settle time.Duration
	Standing            Standing
	Log                 *slog.Logger
}

// Metrics is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	log      *slog.Logger
	window   time.Duration

	claims    *prometheus.CounterVec
	attempts  *prometheus.HistogramVec
	windows   prometheus.Histogram
	exposed   prometheus.Histogram
	late      prometheus.Counter
	events    *prometheus.CounterVec
	waited    *prometheus.CounterVec
	requested *prometheus.CounterVec
	answers   *prometheus.CounterVec
	edits     *prometheus.CounterVec
	hooks     *prometheus.CounterVec
	delays    prometheus.Histogram
	hooked    prometheus.Gauge

	mu     sync.Mutex
	agents map[string]bool // with their own series
}

// New returns the metrics of one daemon.
func New(o Options) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), log: o.Log, window: o.WriteWindow, agents: make(map[string]bool)}
	m.claims = m.counters("claims_total", "Requests for a claim that were answered, by outcome (granted, denied, failed) and the reason of a denial.", "outcome", "reason")
	m.attempts = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "dibs_claim_attempt_seconds",
		Help:    "From the reservation of a task to the verdict on the attempt, the settle wait included, by outcome. Refusals decided without asking Notion are left out.",
		Buckets: []float64{0.25, 0.5, 1, 2, 3, 4, 5, 7.5, 10, 15, 30, 60, 120},
	}, []string{"outcome"})
	m.windows = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "dibs_claim_write_window_ratio",
		Help:    "How much of the write window was used when a claim write was answered: beyond 1 the attempt is not granted on that answer. Near 1, the window is too small for this connection.",
		Buckets: []float64{0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.5, 2, 5},
	})
	m.exposed = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "dibs_claim_read_to_write_seconds",
		Help:    "From the sending of a claim's read to the answer of its write. What a person edits on the task in between is overwritten.",
		Buckets: []float64{0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10},
	})
	m.late = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "dibs_claim_writes_late_total", Help: "Claim writes that were answered after the write window, or not at all.",
	})
	m.events = m.counters("claim_events_total", "Entries of the local record, by kind. Denials are in dibs_claims_total.", "kind")
	m.waited = m.counters("agent_wait_seconds_total", "Time that an agent's requests for a claim took until they were answered.", "agent")
	m.requested = m.counters("agent_claims_total", "Requests for a claim of an agent, by outcome.", "agent", "outcome")
	m.answers = m.counters("api_requests_total", "Requests on the socket that were answered, by route and status.", "route", "status")
	m.edits = m.counters("edits_total", "Edits of tasks by anybody but this daemon, by how they were first heard of: a webhook, or a sync.", "by")
	m.hooks = m.counters("webhook_events_total", "Events that Notion sent: heard, echo (of a write of this daemon) or elsewhere (of no concern).", "kind")
	m.delays = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "dibs_webhook_delay_seconds",
		Help:    "From an edit in Notion until it was known here, for edits that a webhook told of.",
		Buckets: []float64{0.5, 1, 2, 3, 5, 10, 30, 60, 120, 300},
	})
	m.hooked = prometheus.NewGauge(prometheus.GaugeOpts{Name: "dibs_webhook_last_event_timestamp_seconds", Help: "When Notion's last event came, in seconds since 1970; 0 if none came since the start."})
	m.registry.MustRegister(m.hooked, m.delays, m.attempts, m.windows, m.exposed, m.late,
		constant("dibs_build_info", "Which dibs this is; always 1.", 1, prometheus.Labels{"version": o.Version}),
		constant("dibs_claim_write_window_seconds", "The setting claim.write_window.", o.WriteWindow.Seconds(), nil),
		constant("dibs_claim_settle_seconds", "The setting claim.settle.", o.Settle.Seconds(), nil),
		&standing{o.Standing, m.label},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	// Counters begin at zero, so that the first event shows as a change.
	for _, kind := range counted {
		m.events.WithLabelValues(string(kind))
	}
	m.claims.WithLabelValues("granted", "")
	for _, by := range []string{"webhook", "sync"} {
		m.edits.WithLabelValues(by)
	}
	for _, kind := range []string{"heard", "echo", "elsewhere"} {
		m.hooks.WithLabelValues(kind)
	}
	return m
}

// counted lists the kinds of facts that are counted.
var counted = []claim.Kind{
	claim.KindGranted, claim.KindWithdrawn, claim.KindRenewed, claim.KindReleased, claim.KindCompleted,
	claim.KindAccepted, claim.KindOffered, claim.KindDeclined, claim.KindExpired,
	claim.KindFailed, claim.KindBlocked, claim.KindOrphaned, claim.KindLost, claim.KindOverridden,
	claim.KindSwept, claim.KindConflict, claim.KindContested, claim.KindCleared,
	claim.KindReserved, claim.KindUnreserved,
	claim.KindReview, claim.KindReopened,
	claim.KindAdded, claim.KindCommented,
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dibs_" + name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

func constant(name, help string, value float64, labels prometheus.Labels) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
	g.Set(value)
	return g
}

// Handler answers scrapes. It shows what can be read, even if something cannot.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError,
		ErrorLog:            slog.NewLogLogger(m.log.Handler(), slog.LevelWarn),
		MaxRequestsInFlight: maxScrapes,
	})
}

// Claimed counts a request for a claim, by its outcome.
func (m *Metrics) Claimed(agent string, err error, took time.Duration) {
	outcome, reason := "granted", ""
	if denied, ok := errors.AsType[*claim.Denied](err); ok {
		outcome, reason = "denied", string(denied.Code)
	} else if err != nil {
		outcome = "failed"
	}
	m.claims.WithLabelValues(outcome, reason).Inc()
	label := m.label(agent)
	m.requested.WithLabelValues(label, outcome).Inc()
	m.waited.WithLabelValues(label).Add(took.Seconds())
}

// Wrote counts a claim write. took is the time from the sending of its read to the answer, or to
// the failure err.
func (m *Metrics) Wrote(took time.Duration, err error) {
	if err == nil {
		m.windows.Observe(took.Seconds() / m.window.Seconds())
		m.exposed.Observe(took.Seconds())
	}
	if err != nil || took > m.window {
		m.late.Inc()
	}
}

// Saved counts the facts journalled about a claim.
func (m *Metrics) Saved(ch claim.Change) {
	for _, f := range ch.Facts {
		if kind := f.Kind; (kind.Grants() || kind == claim.KindDenied) && len(ch.Holds) > 0 {
			if kind.Grants() {
				kind = claim.KindGranted
			}
			m.attempts.WithLabelValues(string(kind)).Observe(max(0, f.At.Sub(ch.Holds[0].Reserved).Seconds()))
		}
	}
	m.Recorded(ch.Facts...)
}

// Recorded counts journalled facts.
func (m *Metrics) Recorded(events ...claim.Fact) {
	for _, e := range events {
		sum := e.Kind == claim.KindReserved && e.Reservation == "" // a summary of reservations that were already counted
		if e.Kind != claim.KindDenied && !sum {
			m.events.WithLabelValues(string(e.Kind)).Inc()
		}
	}
}

// Answered counts an answer on the socket. route is the pattern that the request matched, empty for
// none.
func (m *Metrics) Answered(route string, status int) {
	if route == "" {
		route = "none"
	}
	m.answers.WithLabelValues(route, strconv.Itoa(status)).Inc()
}

// Heard counts edits in Notion, by how they were first heard of.
func (m *Metrics) Heard(by string, edits int) { m.edits.WithLabelValues(by).Add(float64(edits)) }

// Hooked counts an event that Notion sent.
func (m *Metrics) Hooked(kind string) {
	m.hooks.WithLabelValues(kind).Inc()
	m.hooked.SetToCurrentTime()
}

// Delayed records how long an edit that a webhook told of took until it was known here.
func (m *Metrics) Delayed(d time.Duration) { m.delays.Observe(d.Seconds()) }

// label returns the label of an agent's series.
func (m *Metrics) label(agent string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.agents[agent] {
		if len(m.agents) >= maxAgents {
			return otherAgents
		}
		m.agents[agent] = true
	}
	return agent
}

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
	// Doubted says that the journal seems to have been restored to an older state, or emptied.
	Doubted bool
	// Reservations is the number of reservations.
	Reservations int
}

// Cluster describes the daemons that share a journal: their number, and the epoch.
type Cluster struct {
	Members int
	Epoch   int64
	// Away says that the database could not be reached just now.
	Away bool
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
	}
	gauge(map[bool]float64{true: 1}[state.Doubted], "journal_doubted", "Whether the journal looks as if it was restored to an older state, or emptied: 1, until dibs adopt, or 0.")
	for _, b := range state.Outbox {
		gauge(float64(b.Depth), "outbox_entries", "Log entries and, as claims, finished claims that Notion has yet to be told of.", "log", b.Log)
		gauge(float64(b.InDoubt), "outbox_in_doubt_entries", "Log entries of which it is being found out whether they arrived.", "log", b.Log)
		gauge(b.Age.Seconds(), "outbox_oldest_seconds", "Age of the oldest that Notion has yet to be told of; 0 if there is none.", "log", b.Log)
	}
}

// timesKept is how many durations Times remembers.
const timesKept = 100

// Times remembers how long something took, the last times. It is safe for concurrent use.
type Times struct {
	mu   sync.Mutex
	took []time.Duration // oldest first
}

// Note records one more.
func (o *Times) Note(took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.took) == timesKept {
		o.took = o.took[1:]
	}
	o.took = append(o.took, took)
}

// Sum returns the number of durations remembered, their median and their maximum; zeros for an empty
// Times.
func (o *Times) Sum() (n int, median, slowest time.Duration) {
	o.mu.Lock()
	sorted := slices.Sorted(slices.Values(o.took))
	o.mu.Unlock()
	if n = len(sorted); n == 0 {
		return 0, 0, 0
	}
	return n, sorted[n/2], sorted[n-1]
}
