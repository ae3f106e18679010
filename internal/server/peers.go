package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"dibs/internal/api"
	"dibs/internal/claim"
)

// Peers is where the other members come in: doors, with what was asked of them, and the leader,
// which asks for processes of this machine.
type Peers struct {
	http   http.Server
	inside *Pipe
}

// House is the member that peers come to.
type House interface {
	// Who returns what the member is called that made a connection; nil for one of Dial.
	Who(*tls.ConnectionState) (name string, err error)

	// Leading returns what answers while this member leads; nil while it does not.
	Leading() http.Handler

	Way() Way
}

// NewPeers makes what answers other members.
func NewPeers(house House, log *slog.Logger) *Peers {
	mux := http.NewServeMux()
	mux.Handle("POST "+api.ProcessesPath, withBody(http.HandlerFunc(processes)))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		leading := house.Leading()
		if leading == nil {
			w.Header().Set(standbyHeader, "1")
			p := api.NewProblem(api.Code(claim.CodeJournalUnavailable), house.Way().Why)
			p.RetryIn(doorRetry)
			writeProblem(w, p)
			return
		}
		who, err := house.Who(r.TLS)
		var g Guest
		if err == nil {
			err = json.Unmarshal([]byte(r.Header.Get(guestHeader)), &g)
		}
		if err != nil {
			writeProblem(w, api.NewProblem(api.CodeInvalidRequest, fmt.Sprintf("who asks is not known: %v", err)))
			return
		}
		g.Member = who
		leading.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), guestKey{}, g)))
	})
	p := &Peers{plain(mux, log), NewPipe()}
	p.http.MaxHeaderBytes += maxHeader                                  // for what the door adds
	p.http.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug) // whoever knocks without a certificate
	return p
}

// Serve answers on a listener of TLS connections, which it closes, and whoever calls Dial, until
// Shutdown.
func (p *Peers) Serve(l net.Listener) error {
	go p.http.Serve(p.inside)
	return ended(p.http.Serve(l))
}

// Dial makes a connection of this process, without TLS: that of a door whose own member leads.
func (p *Peers) Dial(ctx context.Context) (net.Conn, error) { return p.inside.Dial(ctx) }

// Shutdown lets nobody in any more, and waits until all are answered, or ctx ends; then it
// breaks off what is left.
func (p *Peers) Shutdown(ctx context.Context) error {
	if err := p.http.Shutdown(ctx); err != nil {
		return p.http.Close()
	}
	return nil
}
