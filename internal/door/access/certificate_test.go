package access_test

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/door/access"
	"dibs/internal/kit/selfsigned"
	"dibs/internal/testkit"
)

// kept is an access.Storage, which fails with err.
type kept struct {
	texts map[string]string
	err   error
}

func (k *kept) Meta(_ context.Context, key string) (string, error) { return k.texts[key], k.err }

func (k *kept) SetMeta(_ context.Context, key, value string) error {
	if k.err == nil {
		k.texts[key] = value
	}
	return k.err
}

// shown returns the fingerprint of a certificate.
func shown(t *testing.T, c *access.Certificate) string {
	t.Helper()
	pair := testkit.Got(c.Get(nil))(t)
	return selfsigned.Fingerprint(pair.Certificate[0])
}

// TestOwnCertificate: it is made once for all who share the storage, and is there while that is away.
func TestOwnCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &kept{texts: make(map[string]string)}
		own := access.Own(store.Meta)
		_, err := own.Get(nil)
		testkit.Fails(t, err, "has made no certificate yet")
		first := testkit.Got(access.Make(t.Context(), store))(t)
		again := testkit.Got(access.Make(t.Context(), store))(t)
		time.Sleep(time.Second)
		testkit.Check(t, len(first) == 64 && first == again && shown(t, own) == first && shown(t, access.Own(store.Meta)) == first, "made %s, then %s", first, again)
		time.Sleep(time.Minute)
		store.err = errors.New("away")
		testkit.Check(t, shown(t, own) == first, "another one while the storage is away")
		_, err = access.Make(t.Context(), store)
		testkit.Fails(t, err, "away")
	})
}

// TestCertificateInFiles: a renewed one is shown within seconds, half of one never.
func TestCertificateInFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
		write := func() string {
			pair := testkit.Got(selfsigned.New())(t)
			testkit.Must(t, errors.Join(os.WriteFile(file, pair, 0o600), os.WriteFile(key, pair, 0o600)))
			read := testkit.Got(tls.X509KeyPair(pair, pair))(t)
			return selfsigned.Fingerprint(read.Certificate[0])
		}
		_, err := access.FromFiles(file, key)
		testkit.Fails(t, err, "remote.cert_file and remote.key_file: ")
		first := write()
		c := testkit.Got(access.FromFiles(file, key))(t)
		testkit.Check(t, shown(t, c) == first, "it shows another one")
		second := write()
		time.Sleep(10 * time.Second)
		testkit.Check(t, shown(t, c) == second, "it does not show the new one")
		testkit.Must(t, os.WriteFile(key, []byte("half"), 0o600))
		time.Sleep(10 * time.Second)
		testkit.Check(t, shown(t, c) == second, "it shows none while half of it is written")
	})
}
