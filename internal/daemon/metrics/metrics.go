// Package metrics exports the daemon's numbers to Prometheus. Events are counted as they happen;
// states are read at each scrape. There is no global state, so that several daemons can live in one
// process. Numbers by agent are bounded.
package metrics

import (
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

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
