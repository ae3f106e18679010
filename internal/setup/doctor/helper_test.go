package doctor_test

import (
	"net/http"
	"time"

	"dibs/internal/claim"
	"dibs/internal/setup/doctor"
)

// find returns the finding of a check, zero if there is none.
func find(r *doctor.Report, check string) doctor.Finding {
	for _, f := range r.Findings {
		if f.Check == check {
			return f
		}
	}
	return doctor.Finding{}
}

// shifted is a server whose clock is ahead.
type shifted struct {
	next  http.RoundTripper
	ahead time.Duration
}

func (s shifted) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(req)
	if err == nil {
		resp.Header.Set("Date", time.Now().Add(s.ahead).UTC().Format(http.TimeFormat))
	}
	return resp, err
}

func of(kind string) any { return map[string]any{kind: map[string]any{}} }

// finished is a fact for the task log.
func finished(at time.Time) claim.Fact {
	return claim.Fact{
		ID: "01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", At: at, Kind: claim.KindCompleted, Agent: "Sandman",
		Task: "11111111-2222-3333-4444-555555555555", Title: "A task",
	}
}
