package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"dibs/internal/kit/safefile"
)

// keyFile is the name of the file with a member's key and certificate, in the state directory.
const keyFile = "member.pem"

// keyOf returns the key and certificate of the member with this state directory. It creates them on
// first use. The certificate is self-signed: members trust those in the database.
func keyOf(dir string) (tls.Certificate, error) {
	return loadKey(dir, write)
}

// loadKey is keyOf with a function that stores a new key.
func loadKey(dir string, keep func(path string, key []byte) error) (tls.Certificate, error) {
	path := filepath.Join(dir, keyFile)
	kept, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		if kept, err = newKey(); err == nil {
			err = keep(path, kept)
		}
	}
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("the key of this member: %w", err)
	}
	made, err := tls.X509KeyPair(kept, kept)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("the key of this member: %s: %w: remove the file, and another one is made", path, err)
	}
	return made, nil
}

// newKey returns a new key and its certificate in PEM form.
func newKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	// The certificate never expires: it is revoked by publishing another one in the database.
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "dibs"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // none, see RFC 5280, 4.1.2.5
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...), nil
}

func read(path string) ([]byte, error) {
	f, err := safefile.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// write writes a file atomically.
func write(path string, data []byte) error {
	f, err := safefile.Open(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
