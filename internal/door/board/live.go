package board

import (
	"fmt"
	"net/http"
	"time"
)

// How long a stream is silent at most, and how long a reader may take.
const (
	heartbeat   = 15 * time.Second
	patientWith = 20 * time.Second
)

// live tells an open page, as server-sent events, that something has changed since the place that
// its address names, and every 15 s that the board is there. What has changed, the page reads
// itself: the server writes it.
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
	at, said := r.URL.Query().Get("after"), "hello"
	for {
		place, more := b.state.news()
		if place != at {
			at, said = place, "changed"
		}
		connection.SetWriteDeadline(time.Now().Add(patientWith))
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", said, place); err != nil || connection.Flush() != nil {
			return
		}
		said = "hello"
		select {
		case <-more:
			time.Sleep(gatherFor)
		case <-time.After(heartbeat):
		case <-r.Context().Done():
			return
		case <-b.stopped:
			return
		}
	}
}
