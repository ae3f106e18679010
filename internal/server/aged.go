package server

import (
	"net/http"
	"strconv"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
)

// aged answers questions from memory while the journal cannot be reached. The header Age of such an
// answer says how old it is.
func (s *Server) aged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || api.OperationOf(r).Changes {
			next.ServeHTTP(w, r)
			return
		}
		ctx, recalled := broker.Recall(r.Context())
		question := r.WithContext(ctx)
		defer func() { r.Pattern = question.Pattern }() // observed reports it
		next.ServeHTTP(&agedWriter{ResponseWriter: w, server: s, recalled: recalled}, question)
	})
}

// agedWriter sets the Age of an answer.
type agedWriter struct {
	http.ResponseWriter
	server   *Server
	recalled *broker.Recalled
	begun    bool
}

func (w *agedWriter) WriteHeader(status int) {
	if !w.begun {
		w.begun = true
		w.age()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *agedWriter) Write(data []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(data)
}

// Unwrap gives http.ResponseController the connection.
func (w *agedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// unreached returns why the journal cannot be reached; nil if it can, as far as is known.
func (s *Server) unreached() error {
	_, why := s.journal.Away()
	return why
}

// age sets the header. Data that is always in memory, such as claims, is only known to be true as
// of the last contact with the journal: if this machine is cut off, another member may lead.
func (w *agedWriter) age() {
	if since, why := w.server.journal.Away(); why != nil {
		w.recalled.Since(since)
	}
	if at := w.recalled.At(); !at.IsZero() {
		w.Header().Set("Age", strconv.Itoa(int(max(0, time.Since(at)).Seconds())))
	}
}
