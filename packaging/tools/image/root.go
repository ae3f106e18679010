package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the daemon's, who is nobody outside of the container.
const user = 65532

// root makes the image's root file system, as a tar: the program, the certificates by which it
// knows Notion, and the folders it writes to. No shell, no package, no other user.
func root(program []byte, made time.Time) ([]byte, error) {
	var certificates bytes.Buffer
	for c := range bundle.Roots() {
		// Go's bundle has certificates that count only with a condition, which a file cannot say.
		if c.Constraint == nil {
			if err := pem.Encode(&certificates, &pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate}); err != nil {
				return nil, err
			}
		}
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		name    string
		mode    int64
		owner   int
		content []byte
	}{
		{"etc/", 0o755, 0, nil},
		{"etc/dibs/", 0o755, 0, nil},
		{"etc/ssl/", 0o755, 0, nil},
		{"etc/ssl/certs/", 0o755, 0, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, 0, certificates.Bytes()},
		{"run/", 0o755, 0, nil},
		{"run/dibs/", 0o700, user, nil},
		{"tmp/", 0o1777, 0, nil},
		{"usr/", 0o755, 0, nil},
		{"usr/bin/", 0o755, 0, nil},
		{"usr/bin/dibs", 0o755, 0, program},
		{"var/", 0o755, 0, nil},
		{"var/lib/", 0o755, 0, nil},
		{"var/lib/dibs/", 0o700, user, nil},
	} {
		header := &tar.Header{Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.content)), ModTime: made}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return out.Bytes(), w.Close()
}
