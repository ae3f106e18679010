package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"dibs/internal/api"
	"dibs/internal/kit/selfsigned"
)

// Remote says where a daemon on another machine is asked, and how.
type Remote struct {
	// URL is the daemon's: https, or http to this machine.
	URL string
	// Token returns the access token, or a JWT, for a request. refused is the one that the daemon has
	// just refused, if there may be another; else it is empty. The error is that of the request.
	Token func(ctx context.Context, refused string) (string, error)
	// Fingerprint is the SHA-256 of the only certificate that is believed, whatever its name. Empty
	// means the token's; if that has none, the certificate is verified as usual.
	Fingerprint string
}

// bearer begins the header with the token.
const bearer = "Bearer "

// connecting limits how long it takes to connect, and then to agree on the encryption.
const connecting = 10 * time.Second

// At returns a client of the daemon at a URL. It shows a token only once the daemon's certificate was
// verified. It goes through the proxy that the environment names. The error says what is wrong with
// the URL.
func At(r Remote) (*Client, error) {
	u, err := url.Parse(strings.TrimSpace(r.URL))
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("it is not a URL of a daemon: want one such as https://dibs.example.com:7333")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("there is more in it than a host and a path: want https://%s%s", u.Host, u.Path)
	case strings.ContainsFunc(u.Hostname(), func(r rune) bool { return r > unicode.MaxASCII }): // the pin is for the name on the wire
		return nil, fmt.Errorf("the host %q is not ASCII: write it as xn--…", u.Hostname())
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, fmt.Errorf("http://%s would send the access token over the network unencrypted: want https", u.Host)
	}
	base := strings.TrimRight(u.String(), "/")
	c := &Client{name: base, base: base, remote: true, bearer: r.Token}
	d := net.Dialer{Timeout: connecting}
	c.use(verifying(func(token string) (*http.Transport, error) {
		t := c.transport(d.DialContext)
		t.Proxy, t.TLSHandshakeTimeout = http.ProxyFromEnvironment, connecting
		t.OnProxyConnectResponse = func(_ context.Context, proxy *url.URL, _ *http.Request, answer *http.Response) error {
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			return &proxyError{proxy.Host, answer.Status, answer.StatusCode}
		}
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		pin := r.Fingerprint
		parsed, ok := api.ParseAccessToken(token)
		if !ok && strings.HasPrefix(token, api.TokenPrefix) {
			return nil, errors.New("the access token is not whole, or was changed: copy it again")
		}
		if pin == "" {
			pin = parsed.Fingerprint
		}
		if pin != "" && u.Scheme == "http" {
			return nil, errors.New("the access token names the daemon's certificate, and http has none: want https")
		}
		if pin != "" {
			t.TLSClientConfig = pinned(pin, u.Hostname())
		}
		return t, nil
	}))
	return c, nil
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// verifying makes a transport for each request, since the token may say which certificate is believed.
type verifying func(token string) (*http.Transport, error)

func (v verifying) RoundTrip(r *http.Request) (*http.Response, error) {
	t, err := v(strings.TrimPrefix(r.Header.Get(api.BearerHeader), bearer))
	if err != nil {
		return nil, &refusedError{err}
	}
	return t.RoundTrip(r)
}

// refusedError refuses a request that would not be safe. Nothing was sent.
type refusedError struct{ error }

// pinned returns a configuration that believes one certificate only from host, and from anybody else,
// such as a proxy, what is usual.
func pinned(fingerprint, host string) *tls.Config {
	if _, err := netip.ParseAddr(host); err == nil {
		host = "" // addresses are not sent as names
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // in favour of VerifyConnection
		VerifyConnection: func(s tls.ConnectionState) error {
			if s.ServerName != "" && s.ServerName != strings.TrimSuffix(host, ".") {
				with := x509.VerifyOptions{DNSName: s.ServerName, Intermediates: x509.NewCertPool()}
				for _, c := range s.PeerCertificates[1:] {
					with.Intermediates.AddCert(c)
				}
				_, err := s.PeerCertificates[0].Verify(with)
				return err
			}
			if selfsigned.Fingerprint(s.PeerCertificates[0].Raw) != fingerprint {
				return errAnother
			}
			return nil
		},
	}
}

// errAnother refuses a certificate that is not the pinned one.
var errAnother = errors.New("its certificate is another one than the access token, or DIBS_FINGERPRINT, says")

// proxyError says that a proxy does not let a connection through.
type proxyError struct {
	proxy, status string
	code          int
}

func (e *proxyError) Error() string {
	return fmt.Sprintf("the proxy %s answered %s", e.proxy, e.status)
}

// diagnose returns what to do if no connection to a daemon at a URL came about, and what is wrong.
func diagnose(err error) (advice string, what error) {
	proxy, proxied := errors.AsType[*proxyError](err)
	_, unsafe := errors.AsType[*refusedError](err)
	_, unresolved := errors.AsType[*net.DNSError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, misnamed := errors.AsType[x509.HostnameError](err)
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	_, garbled := errors.AsType[tls.RecordHeaderError](err)
	slow, _ := errors.AsType[net.Error](err)
	op, _ := errors.AsType[*net.OpError](err)
	what = reason(err)
	if failed, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		what = failed.Err
	}
	switch {
	case unsafe:
		return "nothing was sent", what
	case proxied && proxy.code == http.StatusProxyAuthRequired:
		return "put the user and the password for it into HTTPS_PROXY, or the daemon's host into NO_PROXY", what
	case proxied:
		return "have the daemon's host and port allowed there, or put the host into NO_PROXY", what
	case op != nil && op.Op == "proxyconnect": // as net/http calls it
		return "mend HTTPS_PROXY, or put the daemon's host into NO_PROXY", fmt.Errorf("the proxy cannot be used: %w", what)
	case errors.Is(err, errAnother):
		return "nothing was sent: the daemon has a new certificate, or somebody is in between: ask whoever runs it, and have a new token made", errAnother
	case isInvalid && invalid.Reason == x509.Expired:
		return "nothing was sent: set this machine's clock, or, if it is right, have the daemon's certificate renewed", what
	case unknown || misnamed || isInvalid:
		return "nothing was sent: if the daemon made its certificate itself, set DIBS_FINGERPRINT to its SHA-256; else mend the host in the URL, or name the authority's file in SSL_CERT_FILE", what
	case garbled || errors.Is(err, http.ErrSchemeMismatch):
		return "nothing was sent: the port is that of remote.listen in the daemon's configuration", errors.New("what listens there does not speak TLS")
	case unresolved:
		return "mend the host in the URL, or this machine's DNS", what
	case errors.Is(err, syscall.ECONNREFUSED):
		return "mend the port in the URL, or have the daemon started, with remote.listen in its configuration", what
	case errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES):
		return "a sandbox keeps this process from the network: have a person allow the daemon's host", what
	case slow != nil && slow.Timeout():
		return "its machine is off, or something in between, such as a firewall, drops what is sent", what
	}
	return "look at the URL, this machine's network and HTTPS_PROXY", what
}

// jwt is what a JWT says about itself, as far as it matters here: seconds since 1970.
type jwt struct {
	Expires   float64 `json:"exp"`
	NotBefore float64 `json:"nbf"`
	Issued    float64 `json:"iat"`
}

// readJWT returns what a token says about itself; nothing if it is no JWT.
func readJWT(token string) (c jwt) {
	if parts := strings.Split(token, "."); len(parts) == 3 {
		if data, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
			_ = json.Unmarshal(data, &c) // what it does not say is zero
		}
	}
	return c
}

// doubtful says what is odd, by this machine's clock, about a refused token; empty if nothing is.
func doubtful(header string, now time.Time) string {
	c := readJWT(strings.TrimPrefix(header, bearer))
	if at := time.Unix(int64(max(c.NotBefore, c.Issued)), 0); at.After(now) {
		return fmt.Sprintf("; by this machine's clock, %s, it begins only at %s: set the clock that is wrong", now.UTC().Format(time.RFC3339), at.UTC().Format(time.RFC3339))
	}
	return ""
}

const (
	// asksFor is how long the command may take that prints a token, margin how long before the end of
	// a JWT it is asked again, and maxToken the most bytes that count.
	asksFor  = 30 * time.Second
	margin   = 30 * time.Second
	maxToken = 64 << 10
)

// TokenOf returns a Remote.Token that runs a command of sh, and takes what it prints for the token. It
// runs it again before a JWT ends, and once the daemon refuses what it printed.
func TokenOf(command string) func(ctx context.Context, refused string) (string, error) {
	var mu sync.Mutex
	var token string
	var until time.Time // zero for ever
	return func(ctx context.Context, refused string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if token != "" && token != refused && (until.IsZero() || time.Now().Before(until)) {
			return token, nil
		}
		printed, err := output(ctx, command)
		if err != nil {
			return "", fmt.Errorf("DIBS_TOKEN_COMMAND gave no access token: %w", err)
		}
		token, until = printed, time.Time{}
		if c := readJWT(token); c.Expires > 0 {
			until = time.Unix(int64(c.Expires), 0).Add(-margin)
		}
		return token, nil
	}
}

// output runs a command of sh, and returns the word that it prints.
func output(ctx context.Context, command string) (string, error) {
	asking, cancel := context.WithTimeout(ctx, asksFor)
	defer cancel()
	cmd := exec.CommandContext(asking, "sh", "-c", command)
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	token := string(bytes.TrimSpace(out.Bytes()))
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case asking.Err() != nil:
		return "", fmt.Errorf("it took longer than %v", asksFor)
	case err != nil:
		said := strings.TrimSpace(errs.String())
		return "", errors.New(api.Collapse(cmp.Or(said[strings.LastIndexByte(said, '\n')+1:], err.Error())))
	case token == "":
		return "", errors.New("it printed nothing")
	case len(token) > maxToken || strings.ContainsAny(token, " \t\r\n"):
		return "", errors.New("it printed more than one word")
	}
	return token, nil
}
