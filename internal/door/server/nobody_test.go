package server_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/user"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/reserve"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// operation is what the description says of one.
type operation struct {
	RequestBody struct {
		Content map[string]struct{ Schema *schema }
	}
}

// schema is a type, as the description has it.
type schema struct {
	Ref        string `json:"$ref"`
	Type       any
	Properties map[string]*schema
	Required   []string
	Items      *schema
}

// nobodysRow is a row of the table of what is done in nobody's name.
var nobodysRow = regexp.MustCompile("(?m)^\\| `([A-Z]+ /v1/[^`]*)` \\|([^|]*)\\|$")

// sandmans are triggers and reservations, all of them Sandman's.
type sandmans struct {
	broker.Inbox
	broker.Reservations
}

func (sandmans) TriggerAgents(context.Context, []string) (map[string]string, error) {
	return map[string]string{"x": "Sandman"}, nil
}

func (sandmans) Find(context.Context, string) (reserve.Reservation, error) {
	return reserve.Reservation{Agent: "Sandman"}, nil
}

// Every operation that changes something demands an agent's name that the caller may use, or
// stands in the table of docs/threats.md; where that says that it is signed, the broker is
// told which user it was (TestSigned of package broker shows that it signs). It goes through all
// operations that there are.
func TestWhateverIsDoneInNobodysNameIsSigned(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("the kernel does not say who calls")
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	signature := task.UserSignature(me.Username)
	threats, err := os.ReadFile("../../../docs/threats.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]string)
	for _, row := range nobodysRow.FindAllStringSubmatch(string(threats), -1) {
		rows[row[1]] = row[2]
	}

	path := socketPath(t)
	f := start(t)
	f.serve(listen(t, path))
	f.broker.Broker = broker.New(broker.Config{
		Clock: testkit.Clock{}, Log: slog.New(slog.DiscardHandler),
		Agents: []broker.Agent{{Name: "somebody else"}}, Inbox: broker.InboxConfig{Inbox: sandmans{}}, Reserved: sandmans{},
	})
	var acted, signed bool
	f.broker.owing = func(_ string, who broker.Caller) error {
		acted, signed = true, who.User == signature
		return nil
	}
	f.broker.sweep = func(_ context.Context, who broker.Caller) (api.Sweep, error) {
		return api.Sweep{}, f.broker.owing("sweep", who)
	}
	var doc struct {
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]*schema }
	}
	if err := json.Unmarshal([]byte(f.must("GET", "/openapi.json", "").body), &doc); err != nil {
		t.Fatal(err)
	}
	var least func(s *schema) any
	least = func(s *schema) any {
		if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
			s = doc.Components.Schemas[name]
		}
		switch {
		case s.Properties != nil:
			made := make(map[string]any)
			for _, name := range s.Required {
				made[name] = least(s.Properties[name])
			}
			return made
		case s.Items != nil:
			return []any{least(s.Items)}
		}
		return "x"
	}
	var seen []string
	for address, methods := range doc.Paths {
		for method, op := range methods {
			if method == "get" {
				continue
			}
			name := strings.ToUpper(method) + " " + address
			seen = append(seen, name)
			about := string(taskID)
			if strings.HasPrefix(address, "/v1/claims/") {
				about = string(claimID)
			}
			body := ""
			if content, ok := op.RequestBody.Content["application/json"]; ok {
				data, err := json.Marshal(least(content.Schema))
				if err != nil {
					t.Fatal(err)
				}
				body = string(data)
			}
			acted, signed = false, false
			got, err := exchange(t.Context(), dialer(path), strings.ToUpper(method), strings.NewReplacer("{id}", about, "{name}", "Sandman").Replace(address), body)
			if err != nil {
				t.Fatal(err)
			}
			row, listed := rows[name]
			switch {
			case !acted && problemIn(t, got).Code == api.CodeForbiddenAgent:
				if listed {
					t.Errorf("%s demands an agent's name, and stands in the table of what is done in nobody's", name)
				}
			case !acted:
				t.Errorf("%s %s was answered %d %s: it is to be seen whether it demands an agent's name", name, body, got.status, got.body)
			case !listed:
				t.Errorf("%s is done in nobody's name and does not stand in the table of docs/threats.md: have it demand an agent's name, or sign it (see signature), and say so there", name)
			case strings.Contains(row, "signed") && !signed:
				t.Errorf("%s: signed is %v, and docs/threats.md says:%s", name, signed, row)
			}
		}
	}
	for name := range rows {
		if !slices.Contains(seen, name) {
			t.Errorf("docs/threats.md speaks of %s, which there is not", name)
		}
	}
}
