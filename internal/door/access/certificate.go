package access

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"dibs/internal/kit/selfsigned"
)

const (
	// metaCertificate is the key of the daemon's own key and certificate, in PEM.
	metaCertificate = "access.certificate"
	// reread is how often at most a certificate is read again.
	reread = 10 * time.Second
	// rereading is how long that may take.
	rereading = 2 * time.Second
)

// Certificate is what a daemon shows to callers from other machines. It is safe for concurrent use.
type Certificate struct {
	read func(context.Context) (tls.Certificate, error)

	mu      sync.Mutex // guards all below; never locked while the certificate is read
	last    *tls.Certificate
	err     error     // why there is none
	at      time.Time // of the last reading
	reading bool
}

// FromFiles is the certificate in a file, with its key in another. They may be replaced at any time. It
// fails if they cannot be used now.
func FromFiles(certificate, key string) (*Certificate, error) {
	c := &Certificate{read: func(context.Context) (tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			err = fmt.Errorf("remote.cert_file and remote.key_file: %w: want a certificate and its key, in PEM", err)
		}
		return pair, err
	}}
	_, err := c.Get(nil)
	return c, err
}

// Own is the daemon's own certificate, in the storage that meta reads. It is there once Make was called.
func Own(meta func(ctx context.Context, key string) (string, error)) *Certificate {
	return &Certificate{read: func(ctx context.Context) (tls.Certificate, error) {
		pair, err := meta(ctx, metaCertificate)
		if err == nil && pair == "" {
			err = errors.New("the daemon that leads has made no certificate yet")
		}
		if err != nil {
			return tls.Certificate{}, err
		}
		return tls.X509KeyPair([]byte(pair), []byte(pair))
	}}
}

// Get returns the certificate for a connection, see tls.Config.GetCertificate. While it cannot be read,
// or is being read, it is the last one.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	age := time.Since(c.at)
	if c.reading && c.last != nil || age < reread && c.err == nil && c.last != nil || age < time.Second && c.err != nil {
		return c.last, c.err
	}
	c.reading = true
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), rereading)
	defer cancel()
	pair, err := c.read(ctx)
	c.mu.Lock()
	c.reading, c.at = false, time.Now()
	if err == nil {
		c.last, c.err = &pair, nil
	} else if c.last == nil {
		c.err = err
	}
	return c.last, c.err
}

// Make makes the daemon's own certificate, unless the storage has one, and returns its fingerprint.
func Make(ctx context.Context, s Storage) (fingerprint string, err error) {
	text, err := s.Meta(ctx, metaCertificate)
	if err == nil && text == "" {
		var pair []byte
		if pair, err = selfsigned.New(); err == nil {
			text = string(pair)
			err = s.SetMeta(ctx, metaCertificate, text)
		}
	}
	if err != nil {
		return "", err
	}
	pair, err := tls.X509KeyPair([]byte(text), []byte(text))
	if err != nil {
		return "", fmt.Errorf("the daemon's own certificate in the journal cannot be read: %w", err)
	}
	return selfsigned.Fingerprint(pair.Certificate[0]), nil
}
