package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Cluster says how this daemon is to be reached by those with which it shares its journal, see
// journal.postgres.
type Cluster struct {
	// Name is what this member is called; empty means as its machine is.
	Name string `key:"name"`
	// Listen is where the other members reach this one, such as :7331; empty for a free port at
	// the address by which this machine reaches PostgreSQL. Advertise is what they are told
	// to call instead.
	Listen    string `key:"listen"`
	Advertise string `key:"advertise"`
}

// mostName is how long a member's name may be.
const mostName = 64

func (c Cluster) validate() []error {
	var errs []error
	if len(c.Name) > mostName || strings.ContainsFunc(c.Name, func(r rune) bool { return r < ' ' }) {
		errs = append(errs, fmt.Errorf("cluster.name: want at most %d characters in one line, got %q", mostName, c.Name))
	}
	for _, a := range []struct {
		key, address string
		reached      bool // by others
	}{{"listen", c.Listen, false}, {"advertise", c.Advertise, true}} {
		if a.address == "" {
			continue
		}
		host, port, err := net.SplitHostPort(a.address)
		n, perr := strconv.ParseUint(port, 10, 16)
		if err != nil || perr != nil || a.reached && (host == "" || n == 0) {
			errs = append(errs, fmt.Errorf("cluster.%s: %q: want an address such as 10.0.0.1:7331", a.key, a.address))
		}
	}
	return errs
}

// former are the keys of the time when machines worked together by way of etcd.
var former = []string{
	"cluster.etcd", "cluster.prefix", "cluster.tls", "cluster.tls.ca", "cluster.tls.cert", "cluster.tls.key", "cluster.username", "cluster.password_file",
}

// instead says what to write in their place.
const instead = "is no longer read, as machines share a journal in PostgreSQL now: take it out, and set journal.postgres, see docs/cluster.md"
