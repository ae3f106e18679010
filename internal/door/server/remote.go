package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/peer"
	"dibs/internal/claim"
	"dibs/internal/door/access"
	"dibs/internal/kit/clock"
)

// admitted lets callers from other machines in whose access token is valid, to the operations that are
// theirs, and ends their requests with the token. Callers of this machine pass.
func (s *Server) admitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g := guest(r.Context())
		if !g.Remote {
			next.ServeHTTP(w, r)
			return
		}
		pass, err := s.pass(r, g.Token)
		if err != nil {
			writeProblem(w, s.problem(r.Context(), err))
			return
		}
		ctx, cancel := context.WithDeadlineCause(r.Context(), pass.Ends, errExpired)
		defer cancel()
		ctx, revoke := context.WithCancelCause(ctx)
		defer revoke(nil)
		go func() {
			select {
			case <-pass.Over:
				revoke(errRevoked)
			case <-ctx.Done():
			}
		}()
		g.UID, g.PID, g.Own, g.Token, g.Member, g.User = pass.UID, peer.Unknown.PID, false, "", "", "token "+pass.ID
		g.access = &api.Access{ID: pass.ID, Agent: pass.Names, ExpiresAt: api.Time{Time: pass.Ends}}
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, guestKey{}, g)))
	})
}

// pass checks the access token of a request, and whether it may ask for that. The error is an
// *api.Problem.
func (s *Server) pass(r *http.Request, token string) (access.Pass, error) {
	if s.access == nil {
		return access.Pass{}, access.Unauthorized("this daemon knows no access tokens")
	}
	pass, err := s.access.Admit(r.Context(), token)
	if op := api.OperationOf(r); err == nil && (op.Local || op.Name == "" && r.URL.Path != "/openapi.json") {
		err = api.NewProblem(api.CodeForbidden, fmt.Sprintf("%s %s is for users of the daemon's machine, and not for access tokens", r.Method, r.URL.Path))
	}
	return pass, err
}

// Remote accepts callers from other machines over HTTPS, and passes on the requests of those whose
// access token is valid. It is safe for concurrent use.
type Remote struct {
	http   http.Server
	to     http.Handler
	mcp    http.Handler
	inside *Pipe
	log    *slog.Logger
	stop   context.CancelCauseFunc
	warned atomic.Int64 // when a refused token was last logged, as Unix nanoseconds; 0 for never

	mu   sync.Mutex
	open map[int]int // connections with a request, by RemoteCaller.UID; guarded by mu
}

const (
	// maxOpen is how many connections of one caller may have a request at once.
	maxOpen = 64
	// askAgain is how often the token of a request to /mcp is checked while that is open.
	askAgain = time.Second
)

// RemoteOptions configure a Remote.
type RemoteOptions struct {
	// Certificate returns the certificate for a connection.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// MCP answers requests to /mcp of callers whose token is valid, see CallerOf. It may call Dial.
	MCP http.Handler
	Log *slog.Logger
}

// NewRemote returns a Remote whose requests h answers, a Server or a Door.
func NewRemote(h http.Handler, o RemoteOptions) *Remote {
	base, stop := context.WithCancelCause(context.Background())
	f := &Remote{to: h, mcp: o.MCP, inside: NewPipe(), log: o.Log, stop: stop, open: make(map[int]int)}
	f.http = plain(http.HandlerFunc(f.serve), o.Log)
	f.http.ErrorLog = slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug) // failed handshakes of strangers
	f.http.BaseContext = func(net.Listener) context.Context {
		return context.WithValue(base, guestKey{}, Guest{Peer: peer.Unknown, Remote: true})
	}
	f.http.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: o.Certificate, NextProtos: []string{"http/1.1"}}
	return f
}

// Serve answers callers on the listener, and those of Dial, until Shutdown. It closes the listener.
func (f *Remote) Serve(l net.Listener) error {
	l = strangers(&f.http, l, func(l net.Listener) net.Listener { return tls.NewListener(l, f.http.TLSConfig) }, f.log)
	go f.http.Serve(f.inside)
	return ended(f.http.Serve(l))
}

// Dial connects within this process, without TLS.
func (f *Remote) Dial(ctx context.Context) (net.Conn, error) { return f.inside.Dial(ctx) }

// Shutdown accepts no more callers, and waits for the requests in progress until ctx ends. It then
// ends the rest.
func (f *Remote) Shutdown(ctx context.Context) error {
	err := f.http.Shutdown(ctx)
	f.stop(errStopping)
	if err == nil {
		return nil
	}
	return errors.Join(err, f.http.Close())
}

type accessKey struct{}

// RemoteCaller is a caller from another machine whose access token is valid.
type RemoteCaller struct {
	Token  string
	UID    int // as in access.Pass
	Access api.Access
}

// CallerOf returns the caller of a request to RemoteOptions.MCP.
func CallerOf(r *http.Request) RemoteCaller { return r.Context().Value(accessKey{}).(RemoteCaller) }

// serve passes a request on once the access token was found valid. Until then its connection gives
// way to others, and a wrong token ends it: the next try costs its caller another handshake.
func (f *Remote) serve(w http.ResponseWriter, r *http.Request) {
	if new(http.CrossOriginProtection).Check(r) != nil {
		writeProblem(w, api.NewProblem(api.CodeCrossOrigin, "a web page of another origin asks for a change: ask from a program that is not a browser"))
		return
	}
	g := guest(r.Context())
	scheme, token, _ := strings.Cut(r.Header.Get(api.BearerHeader), " ")
	if g.Token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || g.Token == "" {
		w.Header().Set("Connection", "close")
		writeProblem(w, access.Unauthorized("want an access token: send the header Authorization: Bearer TOKEN, with one of dibs token new"))
		return
	}
	r.Header.Del(api.BearerHeader)
	r.Header.Del(api.ProcessHeader)
	r.Host = "dibs"
	r = r.WithContext(context.WithValue(r.Context(), guestKey{}, g))
	caller, refused := f.known(r)
	if refused != nil {
		if refused.Status == http.StatusUnauthorized {
			w.Header().Set("Connection", "close")
			f.refuse(r, refused)
		}
		writeProblem(w, refused)
		return
	}
	if r.TLS != nil { // and not from this process, see Dial
		leave, busy := f.enter(caller.UID)
		if busy != nil {
			writeProblem(w, busy)
			return
		}
		defer leave()
	}
	whole(r)
	if r.URL.Path != "/mcp" || f.mcp == nil {
		f.to.ServeHTTP(w, r)
		return
	}
	http.NewResponseController(w).SetWriteDeadline(time.Time{})
	ctx, end := context.WithCancel(context.WithValue(r.Context(), accessKey{}, caller))
	defer end()
	go func() {
		for clock.Pause(ctx, askAgain) == nil {
			if _, refused := f.known(r.WithContext(ctx)); refused != nil && refused.Status == http.StatusUnauthorized {
				end()
			}
		}
	}()
	f.mcp.ServeHTTP(w, r.WithContext(ctx))
}

// enter counts a connection of a caller until leave is called. busy says that the caller has as many as
// it may.
func (f *Remote) enter(uid int) (leave func(), busy *api.Problem) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open[uid] >= maxOpen {
		busy = api.NewProblem(api.CodeBusy, fmt.Sprintf("this caller has %d requests open, as many as it may: ask again in a moment", maxOpen))
		busy.TooOften(time.Second)
		return nil, busy
	}
	f.open[uid]++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.open[uid]--; f.open[uid] == 0 {
			delete(f.open, uid)
		}
	}, nil
}

// refuse logs that an access token was refused, one in warnEvery.
func (f *Remote) refuse(r *http.Request, why *api.Problem) {
	now, last := time.Now(), f.warned.Load()
	if (last == 0 || now.Sub(time.Unix(0, last)) >= warnEvery) && f.warned.CompareAndSwap(last, now.UnixNano()) {
		f.log.Warn("a caller from another machine was refused", "address", r.RemoteAddr, claim.AttrReason, why.Detail)
	}
}

// known asks the server, which may be another member's, whether it knows the caller of a request.
func (f *Remote) known(r *http.Request) (RemoteCaller, *api.Problem) {
	op := api.OpAccess
	ask, err := http.NewRequestWithContext(r.Context(), op.Method, "http://dibs"+op.Path, http.NoBody)
	if err != nil {
		panic(err) // constants only
	}
	answer := &recordedAnswer{ResponseWriter: &discarded{header: make(http.Header)}}
	f.to.ServeHTTP(answer, ask)
	caller, refused := RemoteCaller{Token: guest(r.Context()).Token}, new(api.Problem)
	switch {
	case answer.Status == http.StatusOK && json.Unmarshal(answer.Body, &caller.Access) == nil:
		caller.UID = access.NumberOf(caller.Access.ID)
		return caller, nil
	case json.Unmarshal(answer.Body, refused) == nil && refused.Code != "":
		return caller, refused
	}
	return caller, api.NewProblem(api.CodeInternal, "whether the access token is valid could not be found out: ask again")
}
