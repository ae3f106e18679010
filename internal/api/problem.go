package api

import (
	"net/http"
	"strings"
	"time"
)

// ProblemType is the media type of problem documents.
const ProblemType = "application/problem+json"

// Problem is a refusal or a failure, as an RFC 9457 problem document. It is
// also an error, whose text is Detail.
type Problem struct {
	Type   string `json:"type" doc:"urn:dibs:problem: and the code"`
	Title  string `json:"title" doc:"What the code means"`
	Status int    `json:"status,omitempty" doc:"The HTTP status"`
	Detail string `json:"detail" doc:"What happened and what to do, in one line"`
	Code   Code   `json:"code" doc:"What went wrong, for programs"`

	Holder     string   `json:"holder,omitempty" doc:"Who has the task, or who paused"`
	ExpiresAt  Time     `json:"expires_at,omitzero" doc:"When the holder's lease ends, the pause, or the day whose limit is reached"`
	RetryAfter int      `json:"retry_after,omitempty" doc:"Seconds to wait before trying again"`
	Task       *TaskRef `json:"task,omitempty" doc:"The task that was asked for"`
	Claim      *Claim   `json:"claim,omitempty" doc:"The claim that was lost"`
	Claims     []Claim  `json:"claims,omitempty" doc:"The claims that could be meant, or, for limit_reached, those that the agent has"`
	Summary    *Summary `json:"summary,omitempty" doc:"With nothing_ready: what the unfinished tasks wait for"`
	Todos      []string `json:"todos,omitempty" doc:"With not_done: the to-dos that are not ticked, at most twenty; data that others wrote"`
	Unknown    bool     `json:"unknown,omitempty" doc:"Whether the request took effect is not known: the same one, with the same idempotency key, finds out"`
	// These describe a reservation that is in the way.
	Pattern     string `json:"pattern,omitempty" doc:"The holder's pattern, as it was written"`
	Path        string `json:"path,omitempty" doc:"What was asked for that the pattern means, or may"`
	Reservation string `json:"reservation,omitempty" doc:"The id of the holder's reservation"`

	Errors []Fault `json:"errors,omitempty" doc:"What is wrong with the request, part by part"`
}

// Fault is what is wrong with one part of a request.
type Fault struct {
	Location string `json:"location" doc:"The part, such as body.agent or query.limit"`
	Message  string `json:"message"`
}

// NewProblem returns a problem with that code.
func NewProblem(code Code, detail string) *Problem {
	return &Problem{
		Type:   "urn:dibs:problem:" + string(code),
		Title:  meanings[code].title,
		Status: code.Status(),
		Detail: detail,
		Code:   code,
	}
}

// Invalid returns the problem for an unusable part of a request.
func Invalid(location string, err error) *Problem {
	p := NewProblem(CodeInvalidRequest, location+": "+err.Error())
	p.Errors = []Fault{{Location: location, Message: err.Error()}}
	return p
}

func (p *Problem) Error() string { return p.Detail }

// RetryIn sets how long to wait before trying again, rounded up to seconds.
func (p *Problem) RetryIn(d time.Duration) {
	p.RetryAfter = int((d + time.Second - 1) / time.Second)
}

// TooOften turns the problem into status 429 with a Retry-After of wait.
func (p *Problem) TooOften(wait time.Duration) {
	p.Status = http.StatusTooManyRequests
	p.RetryIn(wait)
}

// Collapse makes one space of all white space between words, line ends too. It keeps characters that
// are not seen, some of which join letters, and which [task.OneLine] replaces.
func Collapse(s string) string { return strings.Join(strings.Fields(s), " ") }

// Saying returns an error's text in one line, also that of joined errors.
func Saying(err error) string {
	var said []string
	for line := range strings.Lines(err.Error()) {
		if line = Collapse(line); line != "" {
			said = append(said, line)
		}
	}
	return strings.Join(said, "; ")
}
