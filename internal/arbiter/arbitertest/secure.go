package arbitertest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Authority signs certificates.
type Authority struct {
	t      testing.TB
	folder string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	// File is its own certificate.
	File string
}

// Certificate is what a certificate says. Its zero value is that of a client, which lasts for
// an hour.
type Certificate struct {
	Name  string   // of whom it is, as etcd reads it
	Hosts []string // names and addresses of a server
	Until time.Duration
}

// NewAuthority returns an authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, folder: t.TempDir()}
	a.key = a.newKey()
	template := &x509.Certificate{
		SerialNumber: a.serial(), Subject: pkix.Name{CommonName: "An authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	a.cert = a.sign(template, template, a.key)
	a.File = a.write("ca.pem", "CERTIFICATE", a.cert.Raw)
	return a
}

// Issue returns the files of a certificate and its key.
func (a *Authority) Issue(c Certificate) (cert, key string) {
	a.t.Helper()
	if c.Until == 0 {
		c.Until = time.Hour
	}
	own, serial := a.newKey(), a.serial()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: c.Name},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(c.Until),
	}
	for _, h := range c.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		a.t.Fatal(err)
	}
	name := serial.Text(16)
	return a.write(name+".pem", "CERTIFICATE", a.sign(template, a.cert, own).Raw), a.write(name+".key", "PRIVATE KEY", der)
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *Authority) serial() *big.Int {
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

// sign makes the certificate of a key.
func (a *Authority) sign(template, parent *x509.Certificate, of *ecdsa.PrivateKey) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, of.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

func (a *Authority) write(name, kind string, der []byte) string {
	file := filepath.Join(a.folder, name)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return file
}

// StartTLS starts an etcd with a certificate of an authority, that asks clients for one of
// its own. Newest is the newest version of TLS that it speaks, such as TLS1.2; empty for any.
func StartTLS(t testing.TB, a *Authority, server Certificate, newest string) *Etcd {
	t.Helper()
	cert, key := a.Issue(server)
	return start(t, func(e *Etcd, c *embed.Config) {
		e.client.Scheme = "https"
		c.ListenClientUrls[0].Scheme, c.AdvertiseClientUrls[0].Scheme = "https", "https"
		c.ClientTLSInfo.CertFile, c.ClientTLSInfo.KeyFile = cert, key
		c.ClientTLSInfo.TrustedCAFile, c.ClientTLSInfo.ClientCertAuth = a.File, true
		c.TlsMaxVersion = newest
	})
}

// StartAuth starts an etcd that asks for a password, with the user root, and one called dibs
// who may read and write what begins with prefix. A token that it hands out lasts for seconds.
func StartAuth(t testing.TB, rootPassword, password, prefix string, seconds uint) *Etcd {
	t.Helper()
	e := start(t, func(_ *Etcd, c *embed.Config) { c.AuthTokenTTL, c.BcryptCost = seconds, 4 })
	client := e.Client("", "")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var failed error
	note := func(err error) {
		if failed == nil {
			failed = err
		}
	}
	add := func(user, password, role string) {
		_, err := client.UserAdd(ctx, user, password)
		note(err)
		_, err = client.RoleAdd(ctx, role)
		note(err)
		_, err = client.UserGrantRole(ctx, user, role)
		note(err)
	}
	add("root", rootPassword, "root")
	add("dibs", password, "dibs")
	_, err := client.RoleGrantPermission(ctx, "dibs", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite))
	note(err)
	_, err = client.AuthEnable(ctx)
	note(err)
	if failed != nil {
		t.Fatal(failed)
	}
	return e
}

// Client is a client of it that is not dibs's, without TLS.
func (e *Etcd) Client(user, password string) *clientv3.Client {
	e.t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{e.URL()}, Username: user, Password: password, DialTimeout: 10 * time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { client.Close() })
	return client
}
