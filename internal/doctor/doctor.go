// Package doctor looks for what keeps dibs from working, or from working well, and
// says for each thing what to do. It needs no daemon, and changes nothing but, if
// asked to measure, a scratch row that it puts into the trash.
package doctor

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/notion"
)

// Level says how bad a finding is.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning" // something works less well than it could
	Error   Level = "error"   // something does not work
)

// Finding is one thing that was looked at.
type Finding struct {
	// Check names what was looked at.
	Check string `json:"check"`
	Level Level  `json:"level"`
	Found string `json:"found"`
	// Remedy says in one line what to do; empty if there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}

// Options say what to look at.
type Options struct {
	Config config.Config
	// Transport carries the requests to Notion; nil for the network.
	Transport http.RoundTripper
	// Daemon is a client of the daemon's socket. There may be no daemon.
	Daemon *client.Client
	// Probe says to measure Notion on a scratch row.
	Probe bool
	// Tell, if set, is told each finding as soon as there is one.
	Tell func(Finding)
}

// Report is what was found.
type Report struct {
	Findings []Finding
	// Proposal is which times would fit the workspace; nil if it was not measured.
	Proposal *Proposal
	// Unreachable is set if Notion did not answer at all.
	Unreachable bool

	// tell, if set, is told each finding, and says whether it counts.
	tell func(Finding) bool
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

// Run looks at everything, and does not wait for the end of a long pause that
// Notion asks for. Once ctx has ended, whatever is found may be for that alone, and
// is left out.
func Run(ctx context.Context, o Options) *Report {
	e := &examination{Options: o, Report: new(Report)}
	e.tell = func(f Finding) bool {
		if ctx.Err() != nil {
			return false
		}
		if o.Tell != nil {
			o.Tell(f)
		}
		return true
	}
	ctx = notion.Impatient(ctx)
	e.token()
	e.rate()
	if e.connect(ctx) {
		e.clock(ctx)
		e.databases(ctx)
	}
	e.stateDir()
	e.daemon(ctx)
	e.journal(ctx)
	e.agents(ctx)
	if o.Probe {
		e.probe(ctx)
	}
	return e.Report
}

// examination is a report that is being made, and what later checks build on.
type examination struct {
	Options
	*Report

	client *notion.Client // nil if there is no usable token
	tasks  *notion.Tasks  // nil if claims cannot be made
	// running is set if a daemon holds the state directory, and status is what
	// it says of itself; nil if it does not answer.
	running bool
	status  *api.Status
	// live is the claims that a daemon which does not run any more has left.
	live []claim.Hold
}

// silent takes what the parts log: the findings say it.
var silent = slog.New(slog.DiscardHandler)

func (r *Report) add(level Level, check, found, remedy string) {
	r.put(Finding{check, level, api.Collapse(found), api.Collapse(remedy)})
}

func (r *Report) put(f Finding) {
	if r.tell == nil || r.tell(f) {
		r.Findings = append(r.Findings, f)
	}
}

func (r *Report) ok(check, found string)              { r.add(OK, check, found, "") }
func (r *Report) warn(check, found, remedy string)    { r.add(Warning, check, found, remedy) }
func (r *Report) problem(check, found, remedy string) { r.add(Error, check, found, remedy) }

// failed adds the finding of a request that failed.
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
		if i := strings.LastIndex(found, ": "); i >= 0 { // what to do stands last
			found, remedy = found[:i], found[i+2:]
		}
	}
	e.problem(check, found, remedy)
}

// paused reports whether Notion asked to be left alone. Nothing more is asked of it
// then: it would not be sent.
func (e *examination) paused() bool {
	return e.client != nil && e.client.Stats().PausedUntil.After(time.Now())
}

func (e *examination) leftOut() string {
	if e.paused() {
		return "; what else there is to be asked of Notion was left out"
	}
	return ""
}
