package doctor_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/door/server"
	"dibs/internal/setup/doctor"
)

// The doctor reports the stranger that the daemon has seen, which is amiss only beside one that is to
// be the only claimer.
func TestStranger(t *testing.T) {
	inWorld(t, func(w *world) {
		status := api.Status{Version: "test", PID: 7, Warnings: []string{}}
		status.Policy.WriteWindowSeconds = w.options.Config.Claim.WriteWindow.Seconds()
		status.Policy.SettleSeconds = w.options.Config.Claim.Settle.Seconds()
		pipe := server.NewPipe()
		serving := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(rw).Encode(status); err != nil {
				w.Error(err)
			}
		})}
		go serving.Serve(pipe)
		defer serving.Close()
		w.options.Daemon = client.Over("pipe", pipe.Dial)

		if f := find(doctor.Run(w.Context(), w.options), "settings"); f != (doctor.Finding{}) {
			w.Errorf("found %+v of a daemon that has met no others", f)
		}
		status.Policy.Stranger = "a daemon with a journal of its own"
		status.ReadToWrite = &api.ReadToWrite{Writes: 7, MedianSeconds: 0.3, SlowestSeconds: 1.2}
		report := doctor.Run(w.Context(), w.options)
		if f := find(report, "stranger"); f.Level != doctor.OK || f.Found != status.Policy.Stranger {
			w.Errorf("found %+v, want the stranger named", f)
		}
		if f := find(report, "overwrite"); f.Level != doctor.OK || !strings.Contains(f.Found, "300ms as a rule, 1.2s at most, in the last 7 claims") {
			w.Errorf("found %+v, want to be told what edits are not safe", f)
		}
		status.Policy.Exclusive = true
		if f := find(doctor.Run(w.Context(), w.options), "stranger"); f.Level != doctor.Warning || f.Remedy != api.OneJournal {
			w.Errorf("found %+v, want a warning of the stranger", f)
		}
	})
}
