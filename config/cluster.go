package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Cluster says how the other daemons on a shared journal reach this one, see journal.postgres.
type Cluster struct {
	// Name is this member's name; empty for the machine's.
	Name string `key:"name"`
	// Listen is the address for the other members, such as :7331; empty for a free port at the
	// address by which this machine reaches PostgreSQL. If they need another address, it is
	// Advertise.
	Listen    string `key:"listen"`
	Advertise string `key:"advertise"`
}

// mostName is the longest name of a member, in bytes.
const mostName = 64

func (c Cluster) validate() []error {
	var errs []error
	if len(c.Name) > mostName || strings.ContainsFunc(c.Name, func(r rune) bool { return r < ' ' }) {
		errs = append(errs, fmt.Errorf("cluster.name: want at most %d characters in one line, got %q", mostName, c.Name))
	}
	for _, a := range []struct {
		key, address string
		reached      bool // other members connect to it
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
