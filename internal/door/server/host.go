package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"dibs/internal/api"
)

// addressed refuses requests whose Host is neither this machine nor the daemon. This stops a
// browser that a hostile page sent here through a forwarded port: it names the page's host. A
// browser that asks for a change from a page of another origin is refused, too.
func addressed(next http.Handler) http.Handler {
	var origins http.CrossOriginProtection
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocal(r.Host) {
			writeProblem(w, api.NewProblem(api.CodeWrongHost, fmt.Sprintf("the request is for the host %.100q: ask for http://dibs or http://localhost", r.Host)))
			return
		}
		if origins.Check(r) != nil {
			writeProblem(w, api.NewProblem(api.CodeCrossOrigin, "a web page of another origin asks for a change: ask from a program that is not a browser"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLocal reports whether a Host header can mean this daemon. HTTP/1.0 has none, so an empty one
// can.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	switch strings.ToLower(host) {
	case "", "dibs", "localhost":
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.IsLoopback()
}
