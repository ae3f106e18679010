package cli_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dibs/internal/testkit"
)

// unsaving is a daemon that grants a claim, and then cannot save its end for a while.
type unsaving struct {
	refuse     int // so many ends of claims are refused
	retryAfter int

	mu    sync.Mutex
	ends  []string      // the ends reported, and their keys
	ended chan struct{} // receives a value for each
}

func (u *unsaving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	claimed := fmt.Sprintf(`{"id":"01KA8XQ5V8ZJ6N3T4R7W9Y2M1D","agent":"Sandman","state":"held","task":{%s},"expires_at":%q}`,
		taskJSON, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/v1/claims":
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, claimed)
	case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v1/claims/"):
		<-r.Context().Done() // no news of the claim
	case r.Method == http.MethodGet:
		fmt.Fprintf(w, `{%s}`, taskJSON)
	default:
		u.mu.Lock()
		u.ends = append(u.ends, filepath.Base(r.URL.Path)+" "+r.Header.Get("Idempotency-Key"))
		refused := len(u.ends) <= u.refuse
		u.mu.Unlock()
		defer func() { u.ended <- struct{}{} }()
		if refused {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, `{"code":"journal_unavailable","detail":"no room","retry_after":%d}`, u.retryAfter)
			return
		}
		fmt.Fprint(w, claimed)
	}
}

// dibs run keeps reporting the end of its task while that cannot be saved, even without a terminal,
// but not after a signal.
func TestRunInsists(t *testing.T) {
	for _, tt := range []struct {
		name       string
		refuse     int
		retryAfter int
		command    []string
		signal     bool // while the command runs, or, if it has ended, after the report
		ends       []string
		code       int
	}{
		{"done", 2, 1, []string{"true"}, false, []string{"complete", "complete", "complete"}, 0},
		{"failed", 1, 1, []string{"false"}, false, []string{"fail", "fail"}, 1},
		{"until somebody does something", 9, 0, []string{"true"}, false, []string{"complete"}, 6},
		{"stopped", 9, 1, []string{"sh", "-c", "touch $BEGUN; sleep 60"}, true, []string{"release"}, 6},
		{"stopped while it waits", 9, 30, []string{"true"}, true, []string{"complete"}, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := testkit.ShortDir(t)
			l := testkit.Got(net.Listen("unix", filepath.Join(dir, "s")))(t)
			daemon := &unsaving{refuse: tt.refuse, retryAfter: tt.retryAfter, ended: make(chan struct{}, 100)}
			web := &http.Server{Handler: daemon}
			go web.Serve(l)
			defer web.Close()

			begun := filepath.Join(dir, "begun")
			cmd := exec.Command("dibs", append([]string{"run", "--"}, tt.command...)...)
			cmd.Env = append(os.Environ(), "DIBS_SOCKET="+filepath.Join(dir, "s"), "DIBS_AGENT=Sandman", "BEGUN="+begun, "HOME="+dir)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			testkit.Must(t, cmd.Start())
			if tt.signal {
				if tt.command[0] == "sh" {
					for _, err := os.Stat(begun); err != nil; _, err = os.Stat(begun) {
						time.Sleep(10 * time.Millisecond)
					}
				} else {
					<-daemon.ended
				}
				time.Sleep(100 * time.Millisecond)
				testkit.Must(t, cmd.Process.Signal(syscall.SIGTERM))
			}
			started := time.Now()
			_ = cmd.Wait()
			if took := time.Since(started); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
			code := cmd.ProcessState.ExitCode()
			var ends []string
			for _, end := range daemon.ends {
				verb, key, _ := strings.Cut(end, " ")
				ends = append(ends, verb)
				testkit.Check(t, key == "run 01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", "%s under the key %q", verb, key)
			}
			if code != tt.code || strings.Join(ends, " ") != strings.Join(tt.ends, " ") {
				t.Errorf("exit code %d after %q, want %d after %q: %s", code, ends, tt.code, tt.ends, &stderr)
			}
			if got, want := strings.Count(stderr.String(), "trying again for a minute"), min(1, len(tt.ends)-1); got < want {
				t.Errorf("stderr says %q", &stderr)
			}
		})
	}
}
