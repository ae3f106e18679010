package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/door/server"
	"dibs/internal/testkit"
)

// A claim from another machine lives while its connection does, and for a minute over a break: before
// that is over, the command is held still, and then killed, unless the connection is back.
func TestLink(t *testing.T) {
	const broken, dropped, ended, given, slow = "broken", "dropped", "ended", "given back", "slow"
	for name, tt := range map[string]struct {
		what     string        // happens after 100 s, when the last sign is 10 s old
		lasts    time.Duration // for so long
		standing string        // what is said of the claim, and how long after that sign
		requests int
	}{
		"nothing":                           {"", 0, "", 1},
		"a break":                           {broken, 20 * time.Second, "", 2},
		"a break that is too long":          {broken, 33 * time.Second, "doubt after 40s, stands after 43s", 2},
		"a break for ever":                  {broken, time.Hour, "doubt after 40s, lost at once after 50s", 1},
		"packets are dropped":               {dropped, 12 * time.Second, "", 2},
		"packets are dropped for too long":  {dropped, 31 * time.Second, "doubt after 40s, stands after 48s", 2},
		"packets are dropped for ever":      {dropped, time.Hour, "doubt after 40s, lost at once after 50s", 1},
		"an answer that took 8s":            {slow, 0, "doubt after -50s, lost at once after -40s", 1},
		"the claim ends":                    {ended, time.Hour, "lost after 10s", 1},
		"the claim is given back meanwhile": {given, 10 * time.Second, "lost after 20s", 2},
	} {
		testkit.Bubble(t, name, func(t *testing.T) {
			start := time.Now()
			happens := make(chan struct{})
			time.AfterFunc(100*time.Second, func() { close(happens) })
			is := func(what string) bool {
				since := time.Since(start) - 100*time.Second
				return tt.what == what && since >= 0 && since < tt.lasts
			}
			requests := 0
			pipe := server.NewPipe()
			s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				at := r.URL.Path + "?" + r.URL.RawQuery
				testkit.Check(t, at == "/v1/claims/01KA8XQ5V8ZJ6N3T4R7W9Y2M1D/alive?agent=Sandman&grace=1m0s", "asked for %s", at)
				if tt.what == given && requests > 1 {
					w.Header().Set("Content-Type", api.ProblemType)
					w.WriteHeader(http.StatusConflict)
					_ = json.NewEncoder(w).Encode(api.NewProblem(api.CodeClaimLost, "given back"))
					return
				}
				say := func(state claim.State) {
					data, _ := json.Marshal(api.Claim{State: state, Outcome: "x"})
					fmt.Fprintf(w, "event: claim\ndata: %s\n\n", data)
				}
				w.Header().Set("Content-Type", api.EventStream)
				if tt.what == slow { // the daemon may count from the request on
					time.Sleep(8 * time.Second)
					say(claim.Held)
					http.NewResponseController(w).Flush()
					<-r.Context().Done()
					return
				}
				for say(claim.Held); ; io.WriteString(w, ": alive\n\n") {
					http.NewResponseController(w).Flush()
					again := happens
					if requests > 1 {
						again = nil
					}
					select {
					case <-r.Context().Done():
						return
					case <-again:
						switch tt.what {
						case ended:
							say(claim.Ended)
							return
						case dropped:
							<-r.Context().Done() // which nobody hears of
							return
						case "":
							<-time.After(5 * time.Second)
							happens = nil
						default:
							panic(http.ErrAbortHandler)
						}
					case <-time.After(15 * time.Second):
					}
				}
			})}
			go s.Serve(pipe)
			defer s.Close()
			k := keeping{
				claim: api.Claim{ID: "01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", Agent: "Sandman"},
				daemon: client.Over("https://dibs.test", func(ctx context.Context) (net.Conn, error) {
					switch {
					case is(broken) || is(given) || tt.what == slow && requests > 0:
						return nil, syscall.ECONNREFUSED
					case is(dropped):
						time.Sleep(10 * time.Second)
						return nil, os.ErrDeadlineExceeded
					}
					return pipe.Dial(ctx)
				}),
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			standings := make(chan standing)
			go k.link(ctx, standings)
			var said []string
			for ctx.Err() == nil {
				select {
				case s := <-standings:
					what := "stands"
					switch {
					case s.lost != nil && s.now:
						what = "lost at once"
					case s.lost != nil:
						what = "lost"
					case s.doubt != "":
						what = "doubt"
					}
					said = append(said, fmt.Sprint(what, " after ", (time.Since(start)-90*time.Second).Truncate(time.Second)))
				case <-ctx.Done():
				}
			}
			got := strings.Join(said, ", ")
			testkit.Check(t, got == tt.standing && requests == tt.requests, "%d requests, and %q; want %d, and %q", requests, got, tt.requests, tt.standing)
		})
	}
}

// A command is held still while there is a doubt, however many there are, and what is lost for sure is
// killed at once, also a check.
func TestStandings(t *testing.T) {
	over, gone, stands := standing{doubt: leaseOver}, standing{doubt: linkGone}, standing{}
	lost, now := standing{lost: ErrLost}, standing{lost: ErrLost, now: true}
	for name, tt := range map[string]struct {
		ended   bool // the command, and its check runs
		hears   []standing
		signals string
		kills   time.Duration // -1 for never
	}{
		"a doubt":                       {false, []standing{gone, stands}, "stopped (signal) continued", -1},
		"two doubts":                    {false, []standing{gone, over, stands}, "stopped (signal)", -1},
		"two doubts that are over":      {false, []standing{over, gone, stands, stands}, "stopped (signal) continued", -1},
		"lost":                          {false, []standing{lost}, "terminated", time.Minute},
		"lost in doubt":                 {false, []standing{gone, now}, "stopped (signal) killed", 0},
		"a doubt while there's a check": {true, []standing{gone, stands}, "", -1},
		"lost while there's a check":    {true, []standing{gone, now}, "terminated", 0},
		"lost twice":                    {false, []standing{lost, gone, now}, "terminated", time.Minute},
	} {
		testkit.Bubble(t, name, func(t *testing.T) {
			var sent bytes.Buffer
			j := &job{
				Options:    Options{Command: []string{"x"}, Patience: time.Minute, Say: func(string, ...any) {}},
				supervisor: &supervisor{orders: json.NewEncoder(&sent)}, check: newChecking(), ended: tt.ended,
			}
			for _, s := range tt.hears {
				j.stands(s)
			}
			var signals []string
			for in := json.NewDecoder(&sent); in.More(); {
				var o order
				testkit.Must(t, in.Decode(&o))
				signals = append(signals, o.Signal.String())
			}
			kills, began := time.Duration(-1), time.Now()
			if j.kill != nil {
				<-j.kill
				kills = time.Since(began)
			}
			got := strings.Join(signals, " ")
			testkit.Check(t, got == tt.signals && kills == tt.kills, "sent %q, and kills after %v; want %q, and %v", got, kills, tt.signals, tt.kills)
		})
	}
}
