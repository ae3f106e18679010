package board

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// How long a stream is silent at most, and how long a reader may take.
const (
	heartbeat   = 15 * time.Second
	patientWith = 20 * time.Second
)

// snapshot answers with everything that the modules keep up to date from then on.
func (b *Board) snapshot(w http.ResponseWriter, r *http.Request) {
	g := b.state.current()
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(struct {
		Place  string  `json:"place"`
		Now    int64   `json:"now"`
		Health health  `json:"health"`
		Cards  []card  `json:"cards"`
		Events []event `json:"events"`
	}{g.Place.String(), g.Now.UnixMilli(), g.Health, g.Cards, g.Events})
}

// live streams the news as server-sent events. A reader continues after the id of its last piece.
// One that was away too long, or knew another run of this program, is told to start again.
func (b *Board) live(w http.ResponseWriter, r *http.Request) {
	select {
	case b.streams <- struct{}{}:
		defer func() { <-b.streams }()
	default:
		http.Error(w, "too many pages are open: close some", http.StatusServiceUnavailable)
		return
	}
	defer b.attended.enter()()
	connection := http.NewResponseController(w)
	connection.SetReadDeadline(time.Time{}) // nothing more is read, so no time limit
	w.Header().Set("Content-Type", "text/event-stream")
	at := parsePlace(cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after")))
	var out bytes.Buffer
	b.greet(&out)
	for {
		list, more, ok := b.state.after(at)
		if !ok {
			_, at = b.state.pulse()
			fmt.Fprintf(&out, "event: reset\ndata: {}\n\n")
		}
		for _, n := range list {
			at.number = n.number
			fmt.Fprintf(&out, "id: %s\nevent: %s\ndata: %s\n\n", at, n.kind, n.data)
		}
		connection.SetWriteDeadline(time.Now().Add(patientWith))
		if _, err := out.WriteTo(w); err != nil {
			return
		}
		if connection.Flush() != nil || !ok {
			return // a reader that starts again connects again
		}
		select {
		case <-more:
		case <-time.After(heartbeat):
			b.greet(&out)
		case <-r.Context().Done():
			return
		case <-b.stopped:
			return
		}
	}
}

// greet sends the time and the daemon's health.
func (b *Board) greet(out *bytes.Buffer) {
	h, _ := b.state.pulse()
	hello, err := json.Marshal(struct {
		Now    int64  `json:"now"`
		Health health `json:"health"`
	}{time.Now().UnixMilli(), h})
	if err != nil {
		panic(err) // texts and numbers only
	}
	fmt.Fprintf(out, "event: hello\ndata: %s\n\n", hello)
}
