package doctor_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/door/server"
	"dibs/internal/setup/doctor"
	"dibs/internal/testkit"
)

// serve answers the doctor as a daemon with that status and those tasks, until stop is called.
func (w *world) serve(status *api.Status, tasks ...api.Task) (stop func()) {
	pipe := server.NewPipe()
	serving := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		var answer any = status
		switch r.URL.Path {
		case "/v1/tasks":
			answer = api.Tasks{Tasks: tasks}
		case "/v1/cluster":
			answer = api.Cluster{ClusterStatus: api.ClusterStatus{LastError: "the journal's database was restored"}, Members: []api.Member{}}
		}
		testkit.OK(w, json.NewEncoder(rw).Encode(answer))
	})}
	go serving.Serve(pipe)
	w.options.Daemon = client.Over("pipe", pipe.Dial)
	return func() { serving.Close() }
}

// The daemon runs with other settings than the file's, each in turn.
func TestSettingsOfTheRunningDaemon(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*config.Claim)
		want   string
	}{
		{"the same", func(*config.Claim) {}, ""},
		{"timeout", func(c *config.Claim) { c.Timeout = 10 * time.Minute }, "claim.timeout 30m0s, and 10m0s is configured"},
		{"write window", func(c *config.Claim) { c.WriteWindow = time.Second }, "claim.write_window 2s, and 1s is configured"},
		{"settle", func(c *config.Claim) { c.Settle = 5 * time.Second }, "claim.settle 3s, and 5s is configured"},
		{"override", func(c *config.Claim) { c.Override = config.OverrideOpenOnly }, "claim.override any, and open_only is configured"},
		{"exclusive", func(c *config.Claim) { c.Exclusive = true }, "claim.exclusive false, and true is configured"},
		{"per agent", func(c *config.Claim) { c.MaxPerAgent = 2 }, "claim.max_per_agent 0, and 2 is configured"},
		{"lifetime", func(c *config.Claim) { c.MaxLifetime = time.Hour }, "claim.max_lifetime 24h0m0s, and 1h0m0s is configured"},
	} {
		runIn(t, tt.name, func(w *world) {
			defer w.serve(&api.Status{Version: "test", PID: 7, Warnings: []string{}, Policy: api.PolicyStatus{
				TimeoutSeconds: 1800, WriteWindowSeconds: 2, SettleSeconds: 3, Override: "any",
				MaxPerAgent: new(int), MaxLifetimeSeconds: new(86400.0),
			}})()
			w.options.Config.Claim = config.Claim{
				Timeout: 30 * time.Minute, WriteWindow: 2 * time.Second, Settle: 3 * time.Second, Override: config.OverrideAny, MaxLifetime: 24 * time.Hour,
			}
			tt.change(&w.options.Config.Claim)
			f := find(doctor.Run(w.Context(), w.options), "settings")
			if tt.want == "" && f != (doctor.Finding{}) || tt.want != "" && (f.Level != doctor.Warning || f.Found != "the daemon runs with "+tt.want || f.Remedy == "") {
				w.Errorf("found %+v, want %q", f, tt.want)
			}
		})
	}
}

func TestRateAboveNotions(t *testing.T) {
	for rate, want := range map[float64]string{
		3: "", 1: "", 5: "in Business and Enterprise only, and 3 elsewhere", 10: "in Business and Enterprise only", 11: "allows 3, or 10 in Business and Enterprise",
	} {
		inWorld(t, func(w *world) {
			w.options.Config.Notion.Rate = rate
			f := find(doctor.Run(w.Context(), w.options), "rate")
			if want == "" && f != (doctor.Finding{}) || want != "" && (f.Level != doctor.Warning || !strings.Contains(f.Found, want) || !strings.Contains(f.Found, "pause")) {
				w.Errorf("a rate of %g: found %+v, want %q", rate, f, want)
			}
		})
	}
}

// Names that differ only in case are two agents, and nearly always a mistake.
func TestAgentsThatDifferInCaseOnly(t *testing.T) {
	named := func(names ...string) (agents []config.Agent) {
		for _, name := range names {
			agents = append(agents, config.Agent{Name: name})
		}
		return agents
	}
	for _, tt := range []struct {
		name   string
		agents []config.Agent
		board  []string
		want   string
	}{
		{"none", nil, nil, ""},
		{"others", named("Sandman", "Oracle"), []string{"Sandman", "", "Maria"}, ""},
		{"configured", named("Sandman", "Oracle", "SANDMAN"), nil, `"SANDMAN" and "Sandman" differ`},
		{"on the board", named("Sandman"), []string{"sandman"}, `"Sandman" and "sandman" differ`},
		{"only on the board", nil, []string{"Zoë", "ZOË"}, `"ZOË" and "Zoë" differ`},
	} {
		runIn(t, tt.name, func(w *world) {
			w.options.Config.Agents = tt.agents
			var tasks []api.Task
			for _, name := range tt.board {
				tasks = append(tasks, api.Task{Agent: name})
			}
			if tasks != nil {
				defer w.serve(&api.Status{Version: "test", PID: 7, Warnings: []string{}}, tasks...)()
			}
			f := find(doctor.Run(w.Context(), w.options), "agents")
			if tt.want == "" && f != (doctor.Finding{}) || tt.want != "" && (f.Level != doctor.Warning || !strings.HasPrefix(f.Found, tt.want)) {
				w.Errorf("found %+v, want %q", f, tt.want)
			}
		})
	}
}

// The column of people keeps tasks back, which is counted.
func TestAssigneesAreCounted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.schema(map[string]any{"Who": of("people")})
		maria := testkit.Got(w.notion.AddPerson("Maria", ""))(w)
		sandman := testkit.Got(w.notion.AddPerson("Sandman's bot", ""))(w)
		for _, who := range []string{maria, sandman, ""} {
			people := []any{}
			if who != "" {
				people = append(people, map[string]any{"id": who})
			}
			testkit.Got(w.notion.CreatePage(w.notion.Databases().Tasks, map[string]any{"Who": map[string]any{"people": people}}))(w)
		}
		w.options.Config.Tasks.Properties.Assignee = "Who"
		w.options.Config.Agents = []config.Agent{{Name: "Sandman", NotionUser: sandman}}
		if f := find(doctor.Run(w.Context(), w.options), "tasks.properties.assignee"); f.Found != `"Who", people, which keeps 1 of 3 open tasks back from agents` {
			w.Errorf("found %+v", f)
		}
		w.options.Config.Tasks.Properties.Assignee = "Owner"
		f := find(doctor.Run(w.Context(), w.options), "tasks.properties.assignee")
		testkit.Check(w, f.Level == doctor.Error && strings.Contains(f.Found, `"Owner" is missing`),
			"found %+v, want that nothing can be claimed without it", f)
	})
}

// If claimed_by takes people, an agent without a Notion user cannot claim.
func TestPeopleWithoutUsers(t *testing.T) {
	user := "3e5b7a90-1c2d-4f3e-8a4b-5c6d7e8f9a02"
	for _, tt := range []struct {
		name   string
		agents []config.Agent
		level  doctor.Level
		want   string
	}{
		{"no agents", nil, doctor.Error, "nobody can claim"},
		{"none has one", []config.Agent{{Name: "Sandman"}}, doctor.Error, "nobody can claim"},
		{"one has one", []config.Agent{{Name: "Sandman", NotionUser: user}, {Name: "Oracle"}}, doctor.Warning, `"Oracle" cannot claim`},
		{"all have one", []config.Agent{{Name: "Sandman", NotionUser: user}}, "", ""},
	} {
		runIn(t, tt.name, func(w *world) {
			w.schema(map[string]any{"claimed_by": of("people")})
			w.options.Config.Agents = tt.agents
			f := find(doctor.Run(w.Context(), w.options), "agents")
			if f.Level != tt.level || !strings.Contains(f.Found, tt.want) || tt.level != "" && !strings.Contains(f.Remedy, "notion_user") {
				w.Errorf("found %+v, want %s, %q", f, tt.level, tt.want)
			}
		})
	}
}
