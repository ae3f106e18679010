package config

import "fmt"

// etcd says what replaces the keys of machines that coordinated through etcd.
const etcd = "as machines share a journal in PostgreSQL now: take it out, and set journal.postgres, see docs/cluster.md"

// former has the keys that are no longer read, and what to do instead.
var former = map[string]string{
	"cluster.etcd": etcd, "cluster.prefix": etcd, "cluster.tls": etcd, "cluster.tls.ca": etcd, "cluster.tls.cert": etcd, "cluster.tls.key": etcd,
	"cluster.username": etcd, "cluster.password_file": etcd,
	"names.prefix": "as minted names begin with agent: take it out, and name agents with --agent or DIBS_AGENT",
	"names.keep":   "as sessions keep their names for a week: take it out, and name agents with --agent or DIBS_AGENT",
}

// FormerError refuses a key that is no longer read.
type FormerError struct{ key, written, in string }

func (e *FormerError) Error() string {
	return fmt.Sprintf("%s is no longer read, %s%s", e.written, former[e.key], e.in)
}

// Setting returns the key.
func (e *FormerError) Setting() string { return e.key }

// formerOf returns the former key that a variable set; empty if there is none.
func formerOf(variable string) string {
	for key := range former {
		if variable == (field{key: key}).variables()[0] {
			return key
		}
	}
	return ""
}
