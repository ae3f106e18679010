package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/notion"
)

// Level is the severity of a finding.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning" // something works less well than it could
	Error   Level = "error"   // something does not work
)

// Finding is the result of one check.
type Finding struct {
	// Check names what was checked.
	Check string `json:"check"`
	Level Level  `json:"level"`
	Found string `json:"found"`
	// Remedy says in one line what to do; empty if nothing.
	Remedy string `json:"remedy,omitempty"`
}

// Report is the result of an examination.
type Report struct {
	Findings []Finding
	// Proposal is the pair of times that would fit the workspace; nil if it was not measured.
	Proposal *Proposal
	// Measured is what a probe found; nil if it was not measured.
	Measured *Measured
	// Unreachable is set if Notion did not answer at all.
	Unreachable bool

	// accept, if set, is called with each finding, and returns whether it counts.
	accept func(Finding) bool
}

// Failed reports whether one of the findings is an error.
func (r *Report) Failed() bool {
	for _, f := range r.Findings {
		if f.Level == Error {
			return true
		}
	}
	return false
}

// examination is a report in progress, and what later checks build on.
type examination struct {
	Options
	*Report

	client *notion.Client // nil if there is no usable token
	tasks  *notion.Tasks  // nil if claims cannot be made
	// running is set if a daemon has locked the state directory. status is the daemon's own; nil if
	// it does not answer.
	running bool
	status  *api.Status
	// live are the claims that a stopped daemon has left.
	live []claim.Hold
}

// silent discards the parts' logs: the findings have the same.
var silent = slog.New(slog.DiscardHandler)

func (r *Report) add(level Level, check, found, remedy string) {
	r.put(Finding{check, level, api.Collapse(found), api.Collapse(remedy)})
}

func (r *Report) put(f Finding) {
	if r.accept == nil || r.accept(f) {
		r.Findings = append(r.Findings, f)
	}
}

func (r *Report) ok(check, found string) { r.add(OK, check, found, "") }

func (r *Report) warn(check, found, remedy string) { r.add(Warning, check, found, remedy) }

func (r *Report) problem(check, found, remedy string) { r.add(Error, check, found, remedy) }

// failed adds the finding of a failed request.
func (e *examination) failed(check string, err error) {
	answered, isAnswer := errors.AsType[*notion.APIError](err)
	failed, isStore := errors.AsType[*claim.StoreError](err)
	unavailable := isStore && failed.Kind == claim.Unavailable
	found, remedy := err.Error(), ""
	switch {
	case isAnswer && notion.Advice(answered) != "":
		found, remedy = answered.Error(), notion.Advice(answered)+e.leftOut()
	case unavailable && e.paused():
		remedy = "try again then, and see what else uses this connection's token" + e.leftOut()
	case unavailable:
		remedy = "try again; if it stays so, check notion.base_url, the network, and Notion's status page"
	default:
		if i := strings.LastIndex(found, ": "); i >= 0 { // the remedy comes last
			found, remedy = found[:i], found[i+2:]
		}
	}
	e.problem(check, found, remedy)
}

// paused reports whether Notion asked for a pause. Then no further request would be sent.
func (e *examination) paused() bool {
	return e.client != nil && e.client.Stats().PausedUntil.After(time.Now())
}

func (e *examination) leftOut() string {
	if e.paused() {
		return "; the other questions to Notion were left out"
	}
	return ""
}

// Options configures an examination.
type Options struct {
	Config config.Config
	// Transport carries the requests to Notion; nil means the network.
	Transport http.RoundTripper
	// Daemon is a client of the daemon's socket. There may be no daemon.
	Daemon *client.Client
	// Probe asks to measure Notion on scratch rows.
	Probe bool
	// OnFinding, if set, is called with each finding at once.
	OnFinding func(Finding)
}

// looseFile checks the mode of a file with a secret.
func (e *examination) looseFile(check, file, where string) {
	info, err := os.Stat(file)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		e.problem(check, err.Error(), "make the file readable for this user")
	case err == nil && info.Mode().Perm()&0o077 != 0:
		e.warn(check, fmt.Sprintf("%s, which others may be able to read (mode %#o)", where, info.Mode().Perm()), "chmod 600 "+file)
	default:
		e.ok(check, where)
	}
}

// skewAllowed is how far this machine's clock may be off. Leases go by Notion's clock, so nothing
// breaks, but logs and people are misled.
const skewAllowed = 30 * time.Second

func shown(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// Fact is a fact about Notion, and whether it holds.
type Fact = notion.Fact

// Proposal is the pair of times that fits a measured workspace. Every daemon of the workspace needs
// the same pair.
type Proposal struct {
	WriteWindowSeconds float64 `json:"write_window_seconds"`
	SettleSeconds      float64 `json:"settle_seconds"`
}

// Measured is what a probe found, with what it is to be read with.
type Measured struct {
	notion.Probe
	claim   config.Claim
	at      time.Time
	notions bool // the server was Notion's
}
