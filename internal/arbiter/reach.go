package arbiter

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// reachTime is how long is waited for a connection while all that were tried failed: a little,
// as one that was lost is soon there again. Whoever waits is told why after that.
const reachTime = 300 * time.Millisecond

// reach makes requests fail with the reason if there is no connection. Etcd's client would
// wait for one as long as it may.
type reach struct {
	mu      sync.Mutex
	failed  time.Time   // since when there is no connection; zero if there was one last
	refused atomic.Bool // etcd has refused the password
}

// patience is for how much longer a connection is waited for.
func (r *reach) patience(cc *grpc.ClientConn) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case cc.GetState() != connectivity.TransientFailure:
		r.failed = time.Time{}
		return 0
	case r.failed.IsZero():
		r.failed = time.Now()
	}
	return reachTime - time.Since(r.failed)
}

func (r *reach) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if patience := r.patience(cc); patience > 0 {
		waiting, cancel := context.WithTimeout(ctx, patience)
		cc.WaitForStateChange(waiting, connectivity.TransientFailure)
		cancel()
	}
	err := invoke(ctx, method, req, reply, cc, append(opts, grpc.WaitForReady(false))...)
	switch {
	case err == nil && method == pb.Auth_Authenticate_FullMethodName:
		r.refused.Store(false)
	case err != nil && strings.Contains(err.Error(), refusedPassword):
		r.refused.Store(true)
	}
	return err
}

// refusedPassword is how etcd says that it is another one.
const refusedPassword = "authentication failed, invalid user"

// What to do about some of the reasons.
const (
	renames  = "give it one for the address in cluster.etcd, or use an address that it names"
	ownCert  = "set cluster.tls.cert and cluster.tls.key to a certificate for clients, of an authority in its --trusted-ca-file"
	password = "set cluster.username and cluster.password_file to what etcdctl --user takes"
)

// reasons are what keeps etcd from being used, as etcd or the way to it says so, and as people
// are told. The first that fits counts.
var reasons = []struct{ said, found, remedy string }{
	{refusedPassword, "it refuses the password of %user%", password},
	{"user name is empty", "it asks for a user", password},
	{"permission denied", "%user% may not read and write below %prefix%", "etcdctl role grant-permission ROLE --prefix=true readwrite %prefix%, and etcdctl user grant-role USER ROLE"},
	{"database space exceeded", "it takes nothing more, as its quota is used up", "compact and defragment it, then run etcdctl alarm disarm; --auto-compaction-retention=1h keeps it from growing"},
	{"certificate signed by unknown authority", "its certificate is of an authority that is not trusted here", "set cluster.tls.ca to the certificate of the authority that signed it"},
	{"certificate has expired or is not yet valid", "its certificate has expired, or is not valid yet", "renew it, and look at this machine's clock"},
	{"certificate is valid for", "its certificate is for other names", renames},
	{"doesn't contain any", "its certificate is for other names", renames},
	{"certificate is not valid for any", "its certificate is for other names", renames},
	{"tls: certificate required", "it asks for a certificate", ownCert},
	{"remote error: tls: expired certificate", "the certificate in cluster.tls.cert has expired", "renew it"},
	{"remote error: tls: unknown certificate authority", "it does not trust the authority of the certificate in cluster.tls.cert", ownCert},
	{"remote error: tls", "it refuses the certificate in cluster.tls.cert", ownCert},
	{"unexpected HTTP status code", "something else answers there", "look at cluster.etcd"},
}

// away is the error of a request that came to nothing.
func (c Cluster) away(err error) error {
	if errors.Is(err, ErrAway) {
		return err
	}
	said := strings.Join(strings.Fields(err.Error()), " ")
	if errors.Is(err, context.DeadlineExceeded) {
		said = "no answer in time, or no leader"
	}
	if closed.MatchString(said) {
		said = c.whyClosed(said)
	}
	for _, r := range reasons {
		if strings.Contains(said, r.said) {
			user := "user " + c.Username
			if c.Username == "" {
				user = "the user of the certificate"
			}
			if r.remedy == ownCert && c.Cert == "" { // not every etcd says that it wants one
				r.found = "it asks for a certificate"
			}
			fill := strings.NewReplacer("%user%", user, "%prefix%", c.keys())
			return &unusable{fmt.Sprintf("%s cannot be used: %s: %s", c.where(), fill.Replace(r.found), fill.Replace(r.remedy))}
		}
	}
	for _, before := range []string{`desc = "`, "desc = ", "while dialing: ", "handshake failed: "} {
		if i := strings.LastIndex(said, before); i >= 0 {
			said = strings.TrimSuffix(said[i+len(before):], `"`)
		}
	}
	return fmt.Errorf("%s %w: %s", c.where(), ErrAway, said)
}

// unusable is the error of an etcd that answers, and is away all the same.
type unusable struct{ text string }

func (u *unusable) Error() string { return u.text }

func (u *unusable) Is(target error) bool { return target == ErrAway }

// closed is what is said of a connection that the other side has closed: by chance one or
// another of these, with other ports each time.
var closed = regexp.MustCompile(`broken pipe|connection reset by peer|\bEOF\b|error reading (server preface|from server)|use of closed network connection`)

// shakeTime is for how long a handshake is waited for, and what comes after it.
const shakeTime = 300 * time.Millisecond

// whyClosed is what is said by an etcd that closes connections: one that refuses a certificate
// says so only when the handshake is over.
func (c Cluster) whyClosed(said string) string {
	config, err := c.tls()
	if err != nil {
		return err.Error()
	}
	ctx, cancel := context.WithTimeout(context.Background(), shakeTime)
	defer cancel()
	for _, e := range c.Endpoints {
		u, err := url.Parse(e)
		if err != nil {
			continue
		}
		if u.Scheme == "http" {
			if shakes(ctx, u.Host) {
				return "it speaks TLS: write https in place of http in cluster.etcd"
			}
			continue
		}
		conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", u.Host)
		var none tls.RecordHeaderError
		switch {
		case errors.As(err, &none), err != nil && closed.MatchString(err.Error()):
			return "it closes connections at their handshake: if it does not speak TLS, write http in place of https in cluster.etcd"
		case err != nil:
			continue
		}
		conn.SetReadDeadline(time.Now().Add(shakeTime))
		_, err = conn.Read(make([]byte, 1))
		conn.Close()
		if err != nil && strings.Contains(err.Error(), "remote error: tls") {
			return err.Error()
		}
	}
	return "the connection was closed"
}

// shakes reports whether somebody speaks TLS at an address.
func shakes(ctx context.Context, address string) bool {
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, "tcp", address)
	if err == nil {
		conn.Close()
	}
	_, reached := errors.AsType[*net.OpError](err)
	return err == nil || !reached && strings.Contains(err.Error(), "certificate")
}
