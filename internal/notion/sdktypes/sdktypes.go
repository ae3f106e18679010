// Package sdktypes judges exchanges with Notion by the types of Notion's own SDK. Tests alone
// import it.
package sdktypes

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
)

//go:embed judge.cjs
var script []byte

// Exchange is a request to Notion and its answer.
type Exchange struct {
	Method  string `json:"method"`
	URL     string `json:"url"`     // the path and the query; the host does not count
	Version string `json:"version"` // the header Notion-Version
	Body    string `json:"body"`
	Status  int    `json:"status"` // 0 if there was no answer
	Type    string `json:"type"`   // the answer's header Content-Type
	Answer  string `json:"answer"`
}

func (e Exchange) String() string { return e.Method + " " + e.URL }

// Clients returns the folder of the npm packages that .ci/mcp installs. It skips the test if they are
// not there, and fails it if CI is true.
func Clients(t testing.TB) string {
	t.Helper()
	clients := os.Getenv("TEST_CLIENTS")
	switch {
	case clients == "" && os.Getenv("CI") == "true":
		t.Fatal("TEST_CLIENTS is not set: export TEST_CLIENTS=$(.ci/mcp)")
	case clients == "":
		t.Skip("Notion's SDK is not there: export TEST_CLIENTS=$(.ci/mcp)")
	}
	return clients
}

// Judgement is what the types say of exchanges.
type Judgement struct {
	// Bodies is how many requests and answers were judged.
	Bodies int
	// Endpoints are those that were met, in the SDK's words, such as queryDataSource.
	Endpoints []string
	// Refusals are, for each exchange, what in it the types refuse, such as
	// "request body .filter.or[0].and: unknown key".
	Refusals [][]string
}

// Judge judges exchanges. It needs Clients, and does not work in a bubble of testing/synctest.
func Judge(t testing.TB, exchanges []Exchange) Judgement {
	t.Helper()
	modules := filepath.Join(Clients(t), "node_modules")
	file := filepath.Join(t.TempDir(), "judge.cjs")
	if err := os.WriteFile(file, script, 0o600); err != nil {
		t.Fatal(err)
	}
	asked, err := json.Marshal(exchanges)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(modules, "node", "bin", "node"), file, modules)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(asked), t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var j Judgement
	if err := json.Unmarshal(out, &j); err != nil {
		t.Fatal(err)
	}
	t.Logf("judged %d exchanges, %d bodies", len(exchanges), j.Bodies)
	if len(j.Refusals) != len(exchanges) {
		t.Fatalf("%d judgements of %d exchanges", len(j.Refusals), len(exchanges))
	}
	return j
}

// id matches what differs in two requests of one kind.
var id = regexp.MustCompile(`[0-9a-f-]{32,}|\?.*`)

// Check fails the test for each thing that the types refuse, and for each of the endpoints, in the
// SDK's words, that was not met. It says each thing once for a kind of request.
func Check(t testing.TB, exchanges []Exchange, endpoints ...string) {
	t.Helper()
	j := Judge(t, exchanges)
	reported := make(map[string]bool)
	for i, refusals := range j.Refusals {
		for _, refusal := range refusals {
			refusal = id.ReplaceAllString(exchanges[i].String(), "…") + ": " + refusal
			if !reported[refusal] {
				t.Error(refusal)
			}
			reported[refusal] = true
		}
	}
	for _, endpoint := range endpoints {
		if !slices.Contains(j.Endpoints, endpoint) {
			t.Errorf("%s was not met, but %q", endpoint, j.Endpoints)
		}
	}
}

// Recorder records exchanges. It may be used concurrently.
type Recorder struct {
	mu        sync.Mutex
	exchanges []Exchange
}

// Exchanges returns what was recorded, in the order of the answers.
func (r *Recorder) Exchanges() []Exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.exchanges)
}

// Over returns a RoundTripper that records what passes next. It reads both bodies whole before it
// passes them on.
func (r *Recorder) Over(next http.RoundTripper) http.RoundTripper { return recording{r, next} }

type recording struct {
	*Recorder
	next http.RoundTripper
}

func (r recording) RoundTrip(req *http.Request) (*http.Response, error) {
	e := Exchange{Method: req.Method, URL: req.URL.RequestURI(), Version: req.Header.Get("Notion-Version")}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, fmt.Errorf("request of %s: %w", e, err)
		}
		e.Body = string(body)
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := r.next.RoundTrip(req)
	if err == nil {
		var answer []byte
		answer, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		e.Status, e.Type, e.Answer = resp.StatusCode, resp.Header.Get("Content-Type"), string(answer)
		resp.Body = io.NopCloser(bytes.NewReader(answer))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exchanges = append(r.exchanges, e)
	return resp, err
}
