package emulator

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Addressed admits only requests whose host is localhost, an IP address or one of these names. This
// stops DNS rebinding: the page in a browser whose own name was made to resolve to this server
// still sends that name.
func Addressed(names []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.ToLower(host)
		_, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if err != nil && host != "localhost" && !slices.Contains(names, host) {
			http.Error(w, fmt.Sprintf("the request is for the host %.100q: ask for localhost or the address, or start the emulator with --host and that name", r.Host), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
