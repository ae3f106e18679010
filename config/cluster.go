package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Cluster says which etcd decides between the daemons of several machines.
type Cluster struct {
	// Etcd are the addresses of etcd's members; none means that this daemon is alone.
	Etcd []string `key:"etcd"`
	// Prefix is what the keys in etcd begin with.
	Prefix string `key:"prefix"`
	// Name is what this member is called; empty means as its machine is.
	Name string     `key:"name"`
	TLS  ClusterTLS `key:"tls"`
	// Listen is where the other members reach this one, such as :7331; empty for a free port at
	// the address by which this machine reaches PostgreSQL. Advertise is what they are told
	// to call instead.
	Listen    string `key:"listen"`
	Advertise string `key:"advertise"`
	// Username and PasswordFile, a file that holds nothing but the password, are for an etcd
	// that asks for them.
	Username     string `key:"username"`
	PasswordFile string `key:"password_file"`
}

// ClusterTLS are files in PEM form: the authority that etcd's certificates are of, empty for
// those that the machine trusts, and this client's own certificate and key, if etcd asks for one.
type ClusterTLS struct {
	CA   string `key:"ca"`
	Cert string `key:"cert"`
	Key  string `key:"key"`
}

// Set reports whether there is a cluster.
func (c Cluster) Set() bool { return len(c.Etcd) > 0 }

// mostName is how long a member's name may be.
const mostName = 64

// validate complains about the settings of a cluster. Without one they do not matter.
func (c Cluster) validate() []error {
	var errs []error
	for _, a := range []struct{ key, address string }{{"listen", c.Listen}, {"advertise", c.Advertise}} {
		host, port, err := net.SplitHostPort(a.address)
		if n, perr := strconv.ParseUint(port, 10, 16); a.address != "" && (err != nil || perr != nil || a.key == "advertise" && (host == "" || n == 0)) {
			errs = append(errs, fmt.Errorf("cluster.%s: %q: want host:port, such as 10.0.0.1:7331", a.key, a.address))
		}
	}
	if !c.Set() {
		return errs
	}
	if !strings.HasPrefix(c.Prefix, "/") || strings.TrimRight(c.Prefix, "/") == "" || strings.ContainsAny(c.Prefix, " \t\r\n") {
		errs = append(errs, fmt.Errorf("cluster.prefix: %q: want a slash and a name, such as /dibs", c.Prefix))
	}
	if len(c.Name) > mostName || strings.ContainsFunc(c.Name, func(r rune) bool { return r < ' ' }) {
		errs = append(errs, fmt.Errorf("cluster.name: want at most %d characters in one line, got %q", mostName, c.Name))
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		errs = append(errs, errors.New("cluster.tls: cert and key go together: set both or neither"))
	}
	if (c.Username == "") != (c.PasswordFile == "") {
		errs = append(errs, errors.New("cluster.username and cluster.password_file go together: set both or neither"))
	}
	for i, e := range c.Etcd {
		if err := c.validateEndpoint(e); err != nil {
			errs = append(errs, err)
		} else if slices.ContainsFunc(c.Etcd[:i], func(other string) bool { return strings.TrimRight(other, "/") == strings.TrimRight(e, "/") }) {
			errs = append(errs, fmt.Errorf("cluster.etcd: %s is listed twice", e))
		}
	}
	return errs
}

// validateEndpoint complains about an address of etcd, and never repeats what may be a secret.
func (c Cluster) validateEndpoint(e string) error {
	u, err := url.Parse(e)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return fmt.Errorf("cluster.etcd: %q is not an address of etcd: want a URL such as https://10.0.0.1:2379", hideSecrets(e))
	case u.User != nil:
		return fmt.Errorf("cluster.etcd: %q has a user or a password in a URL, which would be logged: set cluster.username and cluster.password_file", hideSecrets(e))
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("cluster.etcd: %q has something behind host and port: leave it out", hideSecrets(e))
	case u.Scheme == "http" && (c.TLS.CA != "" || c.TLS.Cert != ""):
		return fmt.Errorf("cluster.etcd: %q is not encrypted, although cluster.tls is set: use https", hideSecrets(e))
	}
	host, port, err := net.SplitHostPort(u.Host)
	switch n, perr := strconv.ParseUint(port, 10, 16); {
	case err != nil || port == "":
		return fmt.Errorf("cluster.etcd: %q has no port: etcd's is 2379", hideSecrets(e))
	case host == "":
		return fmt.Errorf("cluster.etcd: %q has no host: want a URL such as https://10.0.0.1:2379", hideSecrets(e))
	case perr != nil || n == 0:
		return fmt.Errorf("cluster.etcd: %q has a port that is none: want 1 to 65535; etcd's is 2379", hideSecrets(e))
	}
	return nil
}
