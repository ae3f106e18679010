package client_test

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/kit/selfsigned"
	"dibs/internal/testkit"
)

// authority signs certificates that this process trusts. The environment names it, and the proxy,
// before anything is asked: both are read once.
var authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// tunnelled is the address to which the proxy connects, whatever it is asked for: a host that begins
// with a number is refused with that status.
var tunnelled atomic.Value

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "dibs")
	if err == nil {
		authority.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		panic(err)
	}
	pair, signed := certify(time.Hour, "an authority", nil, &authority.key.PublicKey)
	authority.certificate = pair
	file := filepath.Join(dir, "authority.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600); err != nil {
		panic(err)
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := 0
		fmt.Sscanf(r.Host, "%d.", &status)
		to, err := net.Dial("tcp", fmt.Sprint(tunnelled.Load()))
		if r.Method != http.MethodConnect || r.Header.Get(api.BearerHeader) != "" || status > 0 || err != nil {
			w.WriteHeader(cmp.Or(status, http.StatusTeapot))
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		go io.Copy(to, conn)
		io.Copy(conn, to)
		conn.Close()
	}))
	for name, value := range map[string]string{"SSL_CERT_FILE": file, "SSL_CERT_DIR": dir, "HTTPS_PROXY": proxy.URL, "NO_PROXY": ".invalid"} {
		os.Setenv(name, value)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// certify returns a certificate of the authority, for a name or an address, that ends after a time;
// from then on for an hour, if that is negative. It is the authority's own if it has no addresses.
func certify(ends time.Duration, name string, addresses []net.IP, of *ecdsa.PublicKey) (*x509.Certificate, []byte) {
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(min(0, 2*ends) - time.Hour), NotAfter: now.Add(ends), DNSNames: []string{name}, IPAddresses: addresses,
		IsCA: addresses == nil, BasicConstraintsValid: true,
	}
	if ends > 24*time.Hour {
		template.NotBefore = now.Add(time.Hour)
	}
	above := authority.certificate
	if above == nil {
		above = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, above, of, authority.key)
	if err != nil {
		panic(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return made, der
}

// signed returns a certificate of the authority with its key.
func signed(t *testing.T, ends time.Duration, name string, addresses ...net.IP) tls.Certificate {
	key := testkit.Got(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	_, der := certify(ends, name, append([]net.IP{}, addresses...), &key.PublicKey)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// jwt returns a JWT with times that far from now.
func jwt(times map[string]time.Duration) string {
	said := make(map[string]int64)
	for name, d := range times {
		said[name] = time.Now().Add(d).Unix()
	}
	data, _ := json.Marshal(said)
	return "e30." + base64.RawURLEncoding.EncodeToString(data) + ".c2ln"
}

// fixed is a token that is always the same.
func fixed(token string) func(context.Context, string) (string, error) {
	return func(context.Context, string) (string, error) { return token, nil }
}

// A daemon at a URL gets the token only if its certificate is the right one; each trouble has a line of
// its own, with what to do, and nothing that is secret.
func TestAtURL(t *testing.T) {
	text := testkit.Got(selfsigned.New())(t)
	self := testkit.Got(tls.X509KeyPair(text, text))(t)
	here := net.IPv4(127, 0, 0, 1)
	good := signed(t, time.Hour, "dibs.test", here)
	own, other := selfsigned.Fingerprint(self.Certificate[0]), selfsigned.Fingerprint(good.Certificate[0])
	token := func(fingerprint string) string { return api.NewAccessToken(fingerprint).String() }
	const through = "https://dibs.test"
	for name, tt := range map[string]struct {
		with  tls.Certificate // of the server; http without one
		tls   uint16          // its version at most
		url   string          // empty: the server's, with https
		token string
		pin   string
		want  string // said; empty if it works
		code  api.Code
	}{
		"an authority's":                       {with: good, token: token("")},
		"an authority's, for a JWT":            {with: good, token: jwt(nil)},
		"its own, as the token says":           {with: self, token: token(own)},
		"its own, as the variable says":        {with: self, token: jwt(nil), pin: own},
		"its own, as the variable says rather": {with: self, token: token(other), pin: own},
		"another":                              {with: good, token: token(own), want: "another one than the access token, or DIBS_FINGERPRINT, says: nothing was sent: "},
		"another than the variable says":       {with: self, token: token(""), pin: other, want: "another one than"},
		"its own, and nothing says so":         {with: self, token: token(""), want: "set DIBS_FINGERPRINT to its SHA-256"},
		"an authority's for another name":      {with: signed(t, time.Hour, "other.test", net.IPv4(127, 0, 0, 2)), token: token(""), want: "mend the host in the URL"},
		"one that has ended":                   {with: signed(t, -time.Hour, "dibs.test", here), token: token(""), want: "set this machine's clock"},
		"one that has yet to begin":            {with: signed(t, 48*time.Hour, "dibs.test", here), token: token(""), want: "set this machine's clock"},
		"an old version of TLS":                {with: good, tls: tls.VersionTLS11, token: token(""), want: "protocol version"},
		"http on the port":                     {token: token(""), want: "does not speak TLS: nothing was sent: the port is that of remote.listen"},
		"http, as wanted":                      {token: token(""), url: "http"},
		"http, although there is a pin":        {token: token(own), url: "http", want: "http has none: want https: nothing was sent"},
		"a part of a token":                    {with: self, token: token(own)[:99], want: "is not whole, or was changed: copy it again: nothing was sent"},
		"nobody":                               {token: token(""), url: "https://127.0.0.1:1", want: "connection refused: mend the port"},
		"no such host":                         {token: token(""), url: "https://a..b.invalid", want: "no such host: mend the host"},
		"a proxy":                              {with: good, token: token(""), url: through},
		"a proxy, and its own certificate":     {with: self, token: token(own), url: through},
		"a proxy, and another certificate":     {with: good, token: token(own), url: through, want: "another one than"},
		"a proxy, and another name":            {with: good, token: token(""), url: "https://other.test", want: "mend the host"},
		"a proxy that wants a password":        {with: good, token: token(""), url: "https://407.test", want: "answered 407 Proxy Authentication Required: put the user"},
		"a proxy that does not let it through": {with: good, token: token(""), url: "https://403.test", want: "answered 403 Forbidden: have the daemon's host and port allowed there"},
		"another place":                        {with: good, token: token(""), url: "/elsewhere", want: "is not a dibs daemon", code: "-"},
		"a token that begins later":            {with: good, token: jwt(map[string]time.Duration{"nbf": time.Hour}), url: "/refuse", want: "no; by this machine's clock", code: api.CodeUnauthorized},
		"a token that has begun":               {with: good, token: jwt(map[string]time.Duration{"nbf": -time.Hour}), url: "/refuse", want: "no", code: api.CodeUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				place, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
				testkit.Check(t, r.Header.Get(api.BearerHeader) == "Bearer "+tt.token, "%s asks with %v", r.URL, r.Header)
				w.Header().Set("Content-Type", "application/json")
				switch place {
				case "refuse":
					w.Header().Set("Content-Type", api.ProblemType)
					w.WriteHeader(http.StatusUnauthorized)
					_ = json.NewEncoder(w).Encode(api.NewProblem(api.CodeUnauthorized, "no"))
				case "elsewhere":
					http.Redirect(w, r, "/v1/access", http.StatusTemporaryRedirect)
				default:
					io.WriteString(w, `{"agent":"Sandman"}`)
				}
			}))
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			if tt.with.Certificate == nil {
				s.Start()
			} else {
				s.TLS = &tls.Config{Certificates: []tls.Certificate{tt.with}, MaxVersion: tt.tls}
				s.TLS.MinVersion = min(tt.tls, tls.VersionTLS12)
				s.StartTLS()
			}
			defer s.Close()
			address := s.Listener.Addr().String()
			tunnelled.Store(address)
			at := tt.url
			switch {
			case at == "http":
				at = "http://" + address + "/"
			case at == "" || at[0] == '/':
				at = "https://" + address + tt.url
			}
			c := testkit.Got(client.At(client.Remote{URL: at, Token: fixed(tt.token), Fingerprint: tt.pin}))(t)
			got, err := client.Do(t.Context(), c, api.OpAccess, struct{}{})
			reached := int32(0)
			if tt.want == "" || tt.code != "" {
				reached = 1
			}
			testkit.Check(t, asked.Load() == reached, "asked %d times, want %d", asked.Load(), reached)
			if tt.want == "" {
				testkit.Check(t, err == nil && got.Agent == "Sandman", "%v, %v", got, err)
				return
			}
			said := fmt.Sprint(err)
			away, unreachable := errors.AsType[*client.UnreachableError](err)
			p, refused := errors.AsType[*api.Problem](err)
			testkit.Check(t, strings.Contains(said, tt.want) && !strings.Contains(said, "\n") && !strings.Contains(said, tt.token), "said %q, want %q in a line", said, tt.want)
			testkit.Check(t, unreachable == (tt.code == "") && (!unreachable || !away.Sent) && refused == (tt.code == api.CodeUnauthorized) && (!refused || p.Code == tt.code), "%#v", err)
			testkit.Check(t, tt.want != "no" || said == "no", "said %q", said)
		})
	}
	for at, want := range map[string]string{
		"":                          "want one such as https://",
		"/run/dibs.sock":            "want one such as https://",
		"ftp://example.com":         "want one such as https://",
		"https://":                  "want one such as https://",
		"http://dibs.example.com":   "want https",
		"https://me:secret@host":    "want https://host",
		"https://host:7333/?a=b":    "want https://host:7333/",
		"https://me:secret@h st/ x": "want one such as https://",
	} {
		_, err := client.At(client.Remote{URL: at})
		testkit.Check(t, strings.Contains(fmt.Sprint(err), want) && !strings.Contains(err.Error(), "secret"), "%q: %v, want %q", at, err, want)
	}
}

// A command is asked for a token as seldom as possible: before a JWT ends, and once one is refused.
func TestTokenOf(t *testing.T) {
	lasting, short := jwt(map[string]time.Duration{"exp": time.Hour}), jwt(map[string]time.Duration{"exp": 10 * time.Second})
	for name, tt := range map[string]struct {
		command string // which gets the number of times that it was asked in $n
		refuse  bool   // the first
		want    string // the tokens of three requests, or the error
	}{
		"a token":            {"echo t$n", false, "t1 t1 t1"},
		"a refused token":    {"echo t$n", true, "t1 t2 t2"},
		"a JWT":              {"echo " + lasting + "$n", false, lasting + "1 " + lasting + "1 " + lasting + "1"},
		"a JWT that ends":    {"echo " + short + "$n", false, short + "1 " + short + "2 " + short + "3"},
		"it fails":           {"echo first >&2; echo it is locked >&2; exit 3", false, "DIBS_TOKEN_COMMAND gave no access token: it is locked"},
		"it fails silently":  {"exit 3", false, "DIBS_TOKEN_COMMAND gave no access token: exit status 3"},
		"it prints nothing":  {":", false, "DIBS_TOKEN_COMMAND gave no access token: it printed nothing"},
		"it prints too much": {"echo the secret", false, "DIBS_TOKEN_COMMAND gave no access token: it printed more than one word"},
	} {
		t.Run(name, func(t *testing.T) {
			count := filepath.Join(t.TempDir(), "n")
			token := client.TokenOf(`echo >>"` + count + `"; n=$(grep -c "" "` + count + `"); ` + tt.command)
			var got []string
			refused := ""
			for range 3 {
				text, err := token(t.Context(), refused)
				if err != nil {
					got = []string{err.Error()}
					break
				}
				if got = append(got, text); tt.refuse && len(got) == 1 {
					refused = text
				} else {
					refused = ""
				}
			}
			testkit.Check(t, strings.Join(got, " ") == tt.want, "got %q, want %q", got, tt.want)
		})
	}
}

// A request whose token is refused is sent again with a new one, once.
func TestNewToken(t *testing.T) {
	for name, tt := range map[string]struct {
		tokens []string
		want   string // the tokens of the requests
		works  bool
	}{
		"a new one":          {[]string{"old", "good"}, "old good", true},
		"the same":           {[]string{"old", "old"}, "old", false},
		"a new one, refused": {[]string{"old", "older", "good"}, "old older", false},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				testkit.Check(t, string(body) == `{"to":"all","text":"hello"}`, "sent %q", body)
				got = append(got, strings.TrimPrefix(r.Header.Get(api.BearerHeader), "Bearer "))
				w.Header().Set("Content-Type", "application/json")
				if got[len(got)-1] != "good" {
					w.Header().Set("Content-Type", api.ProblemType)
					w.WriteHeader(http.StatusUnauthorized)
					_ = json.NewEncoder(w).Encode(api.NewProblem(api.CodeUnauthorized, "no"))
					return
				}
				io.WriteString(w, "{}")
			}))
			defer s.Close()
			given := -1
			c := testkit.Got(client.At(client.Remote{URL: s.URL, Token: func(context.Context, string) (string, error) {
				given++
				return tt.tokens[given], nil
			}}))(t)
			_, err := client.Do(t.Context(), c, api.OpSend, api.Keyed("", api.MessageRequest{To: "all", Text: "hello"}))
			testkit.Check(t, strings.Join(got, " ") == tt.want && (err == nil) == tt.works, "asked with %q, want %q: %v", got, tt.want, err)
		})
	}
}
