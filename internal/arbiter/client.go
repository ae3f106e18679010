package arbiter

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// Cluster says which etcd decides, and for whom.
type Cluster struct {
	// Endpoints are the addresses of etcd's members.
	Endpoints []string
	// Prefix begins the keys, and Workspace, the id of the tasks database, goes on: several
	// workspaces may share one etcd.
	Prefix, Workspace string
	// Name is what this member is called.
	Name string
	// CA, Cert and Key are files: the authority that etcd's certificates are of, empty for
	// those of the machine, and this client's own certificate and its key, empty for none.
	CA, Cert, Key string
	// Username and PasswordFile are for an etcd that asks for them.
	Username, PasswordFile string
}

// dialTime is how long is waited for a connection, or for an answer to a password.
const dialTime = 2 * time.Second

// again is how soon a connection that is lost is tried again: whoever waits for etcd should
// not have to wait long for this client as well.
var again = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
	MinConnectTimeout: dialTime,
}

// connect makes a client. Nothing is asked of etcd yet, unless there is a password. r watches
// over what it sends.
func (c Cluster) connect(r *reach) (*clientv3.Client, error) {
	security, err := c.tls()
	if err != nil {
		return nil, err
	}
	password, err := c.password()
	if err != nil {
		return nil, err
	}
	return clientv3.New(clientv3.Config{
		Endpoints: c.Endpoints, TLS: security, Username: c.Username, Password: password,
		DialTimeout: dialTime, DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		DialOptions:     []grpc.DialOption{grpc.WithConnectParams(again), grpc.WithChainUnaryInterceptor(r.unary)},
		MaxUnaryRetries: 4,            // so that whoever waits is told why
		Logger:          zap.NewNop(), // what goes wrong is in the errors
	})
}

// Check reports what is wrong with the files that c names.
func (c Cluster) Check() error {
	_, err := c.tls()
	_, perr := c.password()
	return errors.Join(err, perr)
}

func (c Cluster) tls() (*tls.Config, error) {
	secure := c.CA != "" || c.Cert != ""
	for _, e := range c.Endpoints {
		secure = secure || strings.HasPrefix(e, "https://")
	}
	if !secure {
		return nil, nil
	}
	for _, f := range []struct{ key, file string }{{"cluster.tls.ca", c.CA}, {"cluster.tls.cert", c.Cert}, {"cluster.tls.key", c.Key}} {
		if f.file == "" {
			continue
		}
		data, err := os.ReadFile(f.file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.key, err)
		}
		if block, _ := pem.Decode(data); block == nil {
			return nil, fmt.Errorf("%s: there is nothing in PEM form in %s", f.key, f.file)
		}
	}
	config, err := transport.TLSInfo{TrustedCAFile: c.CA, CertFile: c.Cert, KeyFile: c.Key}.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("cluster.tls: %w", err)
	}
	return config, nil
}

func (c Cluster) password() (string, error) {
	if c.PasswordFile == "" {
		return "", nil
	}
	data, err := os.ReadFile(c.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("cluster.password_file: %w", err)
	}
	password := strings.TrimRight(string(data), "\r\n")
	switch {
	case password == "":
		return "", fmt.Errorf("cluster.password_file: %s is empty", c.PasswordFile)
	case strings.ContainsAny(password, "\r\n"):
		return "", fmt.Errorf("cluster.password_file: %s has more than one line: it is to hold the password and nothing else", c.PasswordFile)
	}
	return password, nil
}

// keys is what the keys of the workspace begin with.
func (c Cluster) keys() string { return strings.TrimRight(c.Prefix, "/") + "/" + c.Workspace + "/" }

// where names the etcd in a sentence.
func (c Cluster) where() string { return "etcd at " + strings.Join(c.Endpoints, ", ") }
