package emulator

import (
	"encoding/json"
	"net/http"
	"time"
)

// controlPath begins the paths by which other processes control the emulator.
const controlPath = "/_emulator/"

// faultJSON is a Fault on the wire; durations look like "1.5s".
type faultJSON struct {
	Event      string    `json:"event"`
	Method     string    `json:"method"`
	Path       string    `json:"path"`
	Skip       int       `json:"skip"`
	Times      int       `json:"times"`
	Kind       FaultKind `json:"kind"`
	Delay      duration  `json:"delay"`
	Late       duration  `json:"late"`
	Off        duration  `json:"off"`
	RetryAfter duration  `json:"retry_after"`
	Reason     string    `json:"reason"`
}

type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = duration(v)
	return err
}

// control answers the emulator's own requests: POST and DELETE of faults, GET and DELETE of the
// request log. They need the token. They are not logged or counted, and faults do not apply to
// them.
func (e *Emulator) control(w http.ResponseWriter, r *http.Request, body []byte) {
	if !e.knows(r) {
		http.Error(w, "the token is wrong", http.StatusUnauthorized)
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "POST " + controlPath + "faults":
		var f faultJSON
		err := json.Unmarshal(body, &f)
		fault := Fault{
			Event: f.Event, Method: f.Method, Path: f.Path, Skip: f.Skip, Times: f.Times, Kind: f.Kind,
			Delay: time.Duration(f.Delay), Late: time.Duration(f.Late), Off: time.Duration(f.Off), RetryAfter: time.Duration(f.RetryAfter), Reason: f.Reason,
		}
		if err == nil {
			err = fault.check()
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		e.Inject(fault)
		w.WriteHeader(http.StatusNoContent)
	case "DELETE " + controlPath + "faults":
		e.removeAll()
		w.WriteHeader(http.StatusNoContent)
	case "GET " + controlPath + "requests":
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Write(compact(e.Requests()))
	case "DELETE " + controlPath + "requests":
		e.ResetRequests()
		w.WriteHeader(http.StatusNoContent)
	default:
		http.Error(w, "no such request: want POST or DELETE faults, GET or DELETE requests", http.StatusNotFound)
	}
}

// removeAll removes every fault.
func (e *Emulator) removeAll() {
	for _, f := range e.inForce() {
		e.remove(f)
	}
}
