package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
)

const (
	// machinesInterval is how often members are asked for the processes of their machines. An
	// answer may take twice as long.
	machinesInterval = time.Second
	// machinesFresh is how long an answer is valid.
	machinesFresh = 5 * time.Second
	// machinesForget is how long a process is watched after the last call of Life for it.
	machinesForget = time.Minute
)

// Machines reports which processes live: on this machine, and on those of other members, which it
// asks. It is safe for concurrent use.
type Machines struct {
	own  string
	dial func(ctx context.Context, member string) (net.Conn, error)

	mu      sync.Mutex
	members map[string]*machine
}

// machine is another member's machine.
type machine struct {
	http   http.Client
	sights map[keepers.Process]*sight
}

// sight is the last report about a process.
type sight struct {
	life   keepers.Life
	heard  time.Time // when its member last reported it
	wanted time.Time // when Life was last called for it
}

// NewMachines returns a Machines. own is this member's name, empty without a cluster; dial connects
// to another member.
func NewMachines(own string, dial func(ctx context.Context, member string) (net.Conn, error)) *Machines {
	return &Machines{own: own, dial: dial, members: make(map[string]*machine)}
}

// UnheardError says that a member could not be asked about a process.
type UnheardError struct {
	Member string
	Err    error
}

func (e *UnheardError) Error() string {
	return fmt.Sprintf("%s could not be asked whether the process lives: %v: ask again, or leave --pid out, and renew", e.Member, e.Err)
}

func (e *UnheardError) Unwrap() error { return e.Err }

func (e *UnheardError) problem() *api.Problem {
	p := api.NewProblem(api.Code(claim.CodeJournalUnavailable), api.Saying(e))
	p.RetryIn(doorRetry)
	return p
}

// Find returns a process of a member's machine. The error is keepers.ErrNoProcess, an *UnheardError,
// or that the member cannot know.
func (m *Machines) Find(ctx context.Context, member string, pid int) (keepers.Process, error) {
	if member == m.own {
		p, err := keepers.Of(pid)
		p.Member = member
		return p, err
	}
	found, err := m.ask(ctx, member, []int{pid})
	switch {
	case err != nil:
		return keepers.Process{}, &UnheardError{member, err}
	case len(found) == 0:
		return keepers.Process{}, fmt.Errorf("%d: %w", pid, keepers.ErrNoProcess)
	case found[0].Unknown != "":
		return keepers.Process{}, errors.New(found[0].Unknown)
	}
	return keepers.Process{ID: pid, Began: found[0].Began, UID: found[0].UID, Member: member}, nil
}

// Life reports whether a process lives, without waiting: for another machine, as last reported.
func (m *Machines) Life(p keepers.Process) keepers.Life {
	if p.Member == m.own || p.Member == "" {
		return keepers.LifeOf(p)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.member(p.Member)
	s := of.sights[p]
	if s == nil {
		s = new(sight)
		of.sights[p] = s
	}
	s.wanted = time.Now()
	if time.Since(s.heard) > machinesFresh {
		return keepers.Unheard
	}
	return s.life
}

// member returns another member's machine. The caller has locked m.mu.
func (m *Machines) member(name string) *machine {
	if m.members[name] == nil {
		m.members[name] = &machine{sights: make(map[keepers.Process]*sight), http: http.Client{Transport: &http.Transport{
			DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return m.dial(ctx, name) },
			DisableCompression: true, IdleConnTimeout: idleTimeout,
		}}}
	}
	return m.members[name]
}

// Run asks the members about the wanted processes, until ctx ends.
func (m *Machines) Run(ctx context.Context) {
	tick := time.NewTicker(machinesInterval)
	defer tick.Stop()
	for {
		var asking sync.WaitGroup
		for name, pids := range m.wanted() {
			asking.Go(func() { m.refresh(ctx, name, pids) })
		}
		asking.Wait()
		select {
		case <-tick.C:
		case <-ctx.Done():
			m.close()
			return
		}
	}
}

// wanted returns the processes to ask for, by member.
func (m *Machines) wanted() map[string][]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[string][]int)
	for name, of := range m.members {
		maps.DeleteFunc(of.sights, func(_ keepers.Process, s *sight) bool { return time.Since(s.wanted) > machinesForget })
		for p := range of.sights {
			out[name] = append(out[name], p.ID)
		}
	}
	return out
}

// refresh asks one member, and updates its processes.
func (m *Machines) refresh(ctx context.Context, member string, pids []int) {
	found, err := m.ask(ctx, member, pids)
	if err != nil {
		return // the reports become stale
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for p, s := range m.member(member).sights {
		if !slices.Contains(pids, p.ID) {
			continue
		}
		s.life, s.heard = keepers.Gone, time.Now()
		for _, f := range found {
			switch {
			case f.PID == p.ID && f.Unknown != "":
				s.life = keepers.Unheard
			case f.PID == p.ID && f.Began == p.Began:
				s.life = keepers.Living
			}
		}
	}
}

// ask asks a member which of those processes live.
func (m *Machines) ask(ctx context.Context, member string, pids []int) ([]api.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*machinesInterval)
	defer cancel()
	m.mu.Lock()
	asking := &m.member(member).http
	m.mu.Unlock()
	body, err := json.Marshal(api.ProcessesRequest{PIDs: pids})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://dibs"+api.ProcessesPath, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := asking.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var out api.Processes
	data, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answered %s", answer.Status)
	}
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	return out.Processes, err
}

func (m *Machines) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range m.members {
		of.http.CloseIdleConnections()
	}
}

// processes answers another member: which processes of this machine live.
func processes(w http.ResponseWriter, r *http.Request) {
	var asked api.ProcessesRequest
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		writeProblem(w, api.NewProblem(api.CodeInvalidRequest, fmt.Sprintf("the body: %v", err)))
		return
	}
	out := api.Processes{Processes: []api.Process{}}
	for _, pid := range asked.PIDs {
		found, err := keepers.Of(pid)
		switch {
		case err == nil:
			out.Processes = append(out.Processes, api.Process{PID: pid, Began: found.Began, UID: found.UID})
		case !errors.Is(err, keepers.ErrNoProcess):
			out.Processes = append(out.Processes, api.Process{PID: pid, UID: -1, Unknown: api.Saying(err)})
		}
	}
	writeJSON(w, http.StatusOK, out)
}
