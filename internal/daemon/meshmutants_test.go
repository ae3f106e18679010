package daemon_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/testkit"
)

// A mesh in which something is wrong would be found out, by one of the first seeds.
func TestMeshMutants(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	const seeds = 40
	for i, m := range []struct {
		name string
		meshOptions
	}{
		{"an entry is written twice", meshOptions{carry: func(_ *dynasty, next http.RoundTripper) http.RoundTripper { return twice{next} }}},
		{"a claim is forgotten at a take-over", meshOptions{mutant: mutant{comes: "DELETE FROM claims WHERE state = 'held'"}}},
		{"what is owed is forgotten at a take-over", meshOptions{mutant: mutant{comes: "DELETE FROM owed WHERE state <> 'delivered'"}}},
		{"what was acknowledged comes back at a take-over", meshOptions{mutant: mutant{comes: "UPDATE triggers SET state = 'pending' WHERE state = 'acknowledged'"}}},
		{"an entry in doubt is sent again", meshOptions{mutant: mutant{comes: "UPDATE owed SET state = 'due' WHERE state IN ('sending', 'in_doubt')"}}},
		{"the verifying read is skipped", meshOptions{carry: func(_ *dynasty, next http.RoundTripper) http.RoundTripper {
			return &blind{RoundTripper: next, answers: make(map[string]remembered)}
		}}},
	} {
		t.Run(m.name, func(t *testing.T) {
			if !*long && i > 0 {
				t.Skip("with -long only: takes its time")
			}
			for seed := range uint64(seeds) {
				seed++
				if out := runMesh(t, seed, m.meshOptions); len(out.wrong) > 0 {
					t.Logf("found out by seed %d: %s", seed, out.wrong[0])
					return
				}
			}
			t.Errorf("none of %d seeds finds it out", seeds)
		})
	}
}

// twice sends each log entry twice.
type twice struct{ http.RoundTripper }

func (t twice) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isEntry(r, nil) {
		return t.RoundTripper.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	once := r.Clone(r.Context())
	once.Body, r.Body = io.NopCloser(bytes.NewReader(body)), io.NopCloser(bytes.NewReader(body))
	if _, err := t.RoundTripper.RoundTrip(once); err != nil {
		return nil, err
	}
	return t.RoundTripper.RoundTrip(r)
}

// blind answers the reading of a page that comes soon after a claim write with what that write
// was answered.
type blind struct {
	http.RoundTripper
	mu      sync.Mutex
	answers map[string]remembered // by path
}

type remembered struct {
	at     time.Time
	body   []byte
	header http.Header
}

func (b *blind) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	was, ok := b.answers[r.URL.Path]
	delete(b.answers, r.URL.Path)
	b.mu.Unlock()
	if ok && r.Method == http.MethodGet && time.Since(was.at) < 3*time.Second {
		header := was.header.Clone()
		header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
		return &http.Response{
			Status: "200 OK", StatusCode: http.StatusOK, Header: header, Request: r,
			Body: io.NopCloser(bytes.NewReader(was.body)), ContentLength: int64(len(was.body)),
		}, nil
	}
	var sent []byte
	if r.Method == http.MethodPatch {
		sent, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	answer, err := b.RoundTripper.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(sent), `"IN_PROGRESS"`) {
		return answer, err
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[r.URL.Path] = remembered{time.Now(), body, answer.Header.Clone()}
	return answer, nil
}
