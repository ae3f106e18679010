package runner

import (
	"context"
	"time"

	"dibs/internal/api"
	"dibs/internal/kit/clock"
)

// progressEvery is the shortest time between two reports of progress, and lookEvery that between two
// looks for something new to report.
const (
	progressEvery = 30 * time.Second
	lookEvery     = time.Second
)

// progress reports the last line of the command's output until ctx ends. A report that fails is left
// to the next one: watch notices what matters.
func (j *job) progress(ctx context.Context) {
	said := ""
	for pause := lookEvery; clock.Pause(ctx, pause) == nil; {
		pause = lookEvery
		line := j.supervisor.latest()
		if line == "" || line == said {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, progressEvery)
		_, err := j.Daemon.Renew(asking, string(j.claim.ID), api.RenewRequest{Agent: j.claim.Agent, Progress: line}, "")
		cancel()
		if err == nil {
			said = line
		}
		pause = progressEvery
	}
}

// latest returns the last line of the output that the command wrote to last.
func (s *supervisor) latest() string {
	out, err := s.stdout.now(), s.stderr.now()
	if line := err.last(); line != "" && err.wrote().After(out.wrote()) {
		return line
	}
	return out.last()
}
