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

// Peers accepts the other members: doors, which forward requests, and the leader, which asks about
// processes of this machine.
type Peers struct {
	http   http.Server
	house  House
	log    *slog.Logger
	inside *Pipe
}

// House is this member, as Peers needs it.
type House interface {
	// Secure returns a listener that lets only connections of members of another one through.
	Secure(net.Listener) net.Listener

	// Who returns the name of the member that made a connection; nil stands for one of Dial.
	Who(*tls.ConnectionState) (name string, err error)

	// Leading returns the handler while this member leads; nil while it does not.
	Leading() http.Handler

	// Hooks returns what takes webhooks while this member leads; nil while it does not.
	Hooks() http.Handler

	Way() Way
}

// NewPeers returns a Peers for this member.
func NewPeers(house House, log *slog.Logger) *Peers {
	mux := http.NewServeMux()
	mux.Handle("POST "+api.ProcessesPath, withBody(http.HandlerFunc(processes)))
	standby := func(w http.ResponseWriter) {
		w.Header().Set(standbyHeader, "1")
		p := api.NewProblem(api.Code(claim.CodeJournalUnavailable), house.Way().Why)
		p.RetryIn(doorRetry)
		writeProblem(w, p)
	}
	mux.HandleFunc("POST "+hookPath, func(w http.ResponseWriter, r *http.Request) {
		if hooks := house.Hooks(); hooks != nil {
			hooks.ServeHTTP(w, r)
			return
		}
		standby(w)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		leading := house.Leading()
		if leading == nil {
			standby(w)
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
	p := &Peers{plain(mux, log), house, log, NewPipe()}
	p.http.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateActive { // a member's, or it would not have come through Secure
			owes(c, false)
		}
	}
	p.http.MaxHeaderBytes += maxHeader                                  // for the door's header
	p.http.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug) // failed handshakes of strangers
	return p
}

// Serve answers members on a listener that anybody may be able to reach, and connections of Dial,
// until Shutdown. It closes the listener. At the limit, as with strangers, the connection that has
// owed its first request longest gives way.
func (p *Peers) Serve(l net.Listener) error {
	go p.http.Serve(p.inside)
	limited := limit(l, maxPeers, p.log, nil)
	limited.yields = true
	return ended(p.http.Serve(p.house.Secure(limited)))
}

// Dial connects within this process, without TLS: for a door whose own member leads.
func (p *Peers) Dial(ctx context.Context) (net.Conn, error) { return p.inside.Dial(ctx) }

// Shutdown accepts no more connections, and waits for the requests in progress until ctx ends. Then
// it aborts the rest.
func (p *Peers) Shutdown(ctx context.Context) error {
	if err := p.http.Shutdown(ctx); err != nil {
		return p.http.Close()
	}
	return nil
}
