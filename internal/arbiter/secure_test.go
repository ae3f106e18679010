package arbiter_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/journal"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// fileOf writes a file that holds some text.
func fileOf(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// use opens a cluster and uses its table.
func use(t *testing.T, c arbiter.Cluster) error {
	t.Helper()
	j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	e, err := arbiter.Open(t.Context(), c, j, testLog(t))
	if err != nil {
		return err
	}
	defer e.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return e.Probe(ctx)
}

// Certificates and passwords are as etcd's own clients take them. What is wrong with them is
// said in one line, with what to do.
func TestCertificatesAndPasswords(t *testing.T) {
	const here = "127.0.0.1"
	ours, others := arbitertest.NewAuthority(t), arbitertest.NewAuthority(t)
	secure := arbitertest.StartTLS(t, ours, arbitertest.Certificate{Hosts: []string{here}}, "").URL()
	old := arbitertest.StartTLS(t, ours, arbitertest.Certificate{Hosts: []string{here}, Until: -time.Minute}, "").URL()
	elsewhere := arbitertest.StartTLS(t, ours, arbitertest.Certificate{Hosts: []string{"etcd.example"}}, "").URL()
	older := arbitertest.StartTLS(t, ours, arbitertest.Certificate{Hosts: []string{here}}, "TLS1.2").URL()
	plain := arbitertest.Start(t).URL()
	asking := arbitertest.StartAuth(t, "root's", "secret", "/dibs/", 300).URL()
	tls := func(url string, cert arbitertest.Certificate) arbiter.Cluster {
		c := arbiter.Cluster{Endpoints: []string{url}, CA: ours.File}
		c.Cert, c.Key = ours.Issue(cert)
		return c
	}
	foreign := tls(secure, arbitertest.Certificate{})
	foreign.Cert, foreign.Key = others.Issue(arbitertest.Certificate{})
	distrusted := tls(secure, arbitertest.Certificate{})
	distrusted.CA = others.File
	unknown := distrusted
	unknown.CA = ""
	mixed := tls(secure, arbitertest.Certificate{})
	mixed.Key = foreign.Key
	noCA := tls(secure, arbitertest.Certificate{})
	noCA.CA = fileOf(t, "no certificate")
	user := func(url, password string) arbiter.Cluster {
		return arbiter.Cluster{Endpoints: []string{url}, Username: "dibs", PasswordFile: fileOf(t, password)}
	}
	outside := user(asking, "secret")
	outside.Prefix = "/other"
	for name, tt := range map[string]struct {
		cluster     arbiter.Cluster
		said        string // empty if all is well
		found, todo string
	}{
		"certificates":                          {cluster: tls(secure, arbitertest.Certificate{})},
		"a password":                            {cluster: user(asking, "secret\n")},
		"a password where none is asked for":    {cluster: user(plain, "secret\r\n")},
		"no certificate":                        {arbiter.Cluster{Endpoints: []string{secure}, CA: ours.File}, "cannot be used", "it asks for a certificate", "set cluster.tls.cert and cluster.tls.key"},
		"no certificate, TLS 1.2":               {arbiter.Cluster{Endpoints: []string{older}, CA: ours.File}, "cannot be used", "it asks for a certificate", "set cluster.tls.cert and cluster.tls.key"},
		"a certificate that has expired":        {tls(secure, arbitertest.Certificate{Until: -time.Minute}), "cannot be used", "the certificate in cluster.tls.cert has expired", "renew it"},
		"a certificate of another authority":    {foreign, "cannot be used", "it does not trust the authority of the certificate in cluster.tls.cert", "--trusted-ca-file"},
		"another authority":                     {distrusted, "cannot be used", "its certificate is of an authority that is not trusted here", "set cluster.tls.ca"},
		"the machine's authorities":             {unknown, "cannot be used", "its certificate is of an authority that is not trusted here", "set cluster.tls.ca"},
		"etcd's certificate has expired":        {tls(old, arbitertest.Certificate{}), "cannot be used", "its certificate has expired", "renew it"},
		"etcd's certificate is for other names": {tls(elsewhere, arbitertest.Certificate{}), "cannot be used", "its certificate is for other names", "use an address that it names"},
		"a key of another certificate":          {mixed, "cluster.tls", "private key does not match public key", ""},
		"an authority that is none":             {noCA, "cluster.tls.ca", "there is nothing in PEM form in " + noCA.CA, ""},
		"http":                                  {arbiter.Cluster{Endpoints: []string{"http" + strings.TrimPrefix(secure, "https")}}, "cannot be reached", "it speaks TLS", "write https"},
		"https":                                 {arbiter.Cluster{Endpoints: []string{"https" + strings.TrimPrefix(plain, "http")}}, "cannot be reached", "at their handshake", "write http in place of https"},
		"nobody there":                          {arbiter.Cluster{Endpoints: []string{"http://127.0.0.1:1"}}, "cannot be reached", "127.0.0.1:1: connect: connection refused", ""},
		"a wrong password":                      {user(asking, "sacret"), "cannot be used", "it refuses the password of user dibs", "cluster.password_file"},
		"no password":                           {arbiter.Cluster{Endpoints: []string{asking}}, "cannot be used", "it asks for a user", "cluster.username"},
		"a user without rights":                 {outside, "cannot be used", "user dibs may not read and write below /other/board/", "etcdctl role grant-permission"},
		"an empty file":                         {user(asking, "\n"), "cluster.password_file", "is empty", ""},
		"more than the password":                {user(asking, "secret\nmore\n"), "cluster.password_file", "has more than one line", "nothing else"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := tt.cluster
			if c.Prefix == "" {
				c.Prefix = "/dibs"
			}
			c.Workspace, c.Name = "board", "a"
			for i, err := range []error{use(t, c), c.Look(t.Context()).Err} {
				switch {
				case (err == nil) != (tt.said == ""):
					t.Errorf("%d: %v", i, err)
				case err == nil:
				case !strings.Contains(err.Error(), tt.said) || !strings.Contains(err.Error(), tt.found) || !strings.Contains(err.Error(), tt.todo) || strings.Contains(err.Error(), "\n"):
					t.Errorf("%d: %v\nwant %s: %s: %s", i, err, tt.said, tt.found, tt.todo)
				}
			}
		})
	}
}

// openAs opens the cluster as the user dibs, whose password is in the file.
func openAs(t *testing.T, etcd *arbitertest.Etcd, file string) *arbiter.Etcd {
	t.Helper()
	j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	e, err := arbiter.Open(t.Context(), arbiter.Cluster{
		Endpoints: []string{etcd.URL()}, Prefix: "/dibs", Workspace: "board", Name: "a", Username: "dibs", PasswordFile: file,
	}, j, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// What etcd hands out for a password ends, at the latest when etcd is restarted; nobody notices.
func TestPasswordIsShownAgain(t *testing.T) {
	etcd := arbitertest.StartAuth(t, "root's", "secret", "/dibs/", 300)
	e := openAs(t, etcd, fileOf(t, "secret"))
	run, err := e.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, restarted := range []bool{false, true} {
		if restarted {
			etcd.Stop()
			etcd.Begin()
			wait(t, "etcd is back", func() bool { return e.Probe(t.Context()) == nil })
		}
		if err := e.Announce(t.Context(), arbiter.Member{}); err != nil {
			t.Error("the lease of a member: ", err)
		}
		if _, err := e.Extend(t.Context(), run); err != nil {
			t.Error("the lease of a share: ", err)
		}
		if members, err := e.Members(t.Context()); err != nil || len(members) != 1 {
			t.Error(members, err)
		}
		row := arbiter.Row{Member: e.Member(), Claim: attempt(agentA, taskOne)}
		if grant, err := e.Take(t.Context(), row, time.Minute, 0); err != nil || (grant.Fence != 0) == restarted {
			t.Errorf("grant %+v, %v", grant, err)
		}
	}
}

// A password that was changed in etcd is read from its file as soon as it is there: nobody has to
// be started again, and who watches goes on.
func TestPasswordIsChanged(t *testing.T) {
	etcd := arbitertest.StartAuth(t, "root's", "secret", "/dibs/", 300)
	file := fileOf(t, "secret")
	e := openAs(t, etcd, file)
	if _, err := e.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	watching, err := e.Watch(t.Context(), e.Key("thing")+"/", 0)
	if err != nil {
		t.Fatal(err)
	}

	root := etcd.Client("root", "root's")
	if _, err := root.UserChangePassword(t.Context(), "dibs", "another"); err != nil {
		t.Fatal(err)
	}
	row := arbiter.Row{Member: e.Member(), Claim: attempt(agentA, taskOne)}
	for range 2 {
		if _, err := e.Take(t.Context(), row, time.Minute, 0); err == nil || !strings.Contains(err.Error(), "it refuses the password of user dibs") {
			t.Fatalf("with the former password: %v", err)
		}
	}
	if err := os.WriteFile(file, []byte("another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if grant, err := e.Take(t.Context(), row, time.Minute, 0); err != nil || grant.Fence == 0 {
		t.Fatalf("with the new password: %+v, %v", grant, err)
	}
	for w := range watching { // of the connection that was ended
		if len(w.Events) > 0 {
			t.Errorf("it told of %v", w.Events)
		}
	}
	resp, err := e.Commit(t.Context(), nil, []clientv3.Op{clientv3.OpGet(e.Key("thing"))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	watching, err = e.Watch(t.Context(), e.Key("thing")+"/", resp.Header.Revision+1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Commit(t.Context(), nil, []clientv3.Op{clientv3.OpPut(e.Key("thing", "1"), "put")}, nil); err != nil {
		t.Fatal(err)
	}
	if w := <-watching; len(w.Events) != 1 {
		t.Errorf("it told of %+v", w)
	}
}

// What etcd has handed out for a password ends while something is watched. Who watches something
// else from then on is told of it, and so is who has watched before.
func TestWatchesOutliveWhatEtcdHandsOut(t *testing.T) {
	etcd := arbitertest.StartAuth(t, "root's", "secret", "/dibs/", 1)
	file := fileOf(t, "secret")
	e, other := openAs(t, etcd, file), openAs(t, etcd, file)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	put := func(key string) {
		t.Helper()
		if _, err := other.Commit(ctx, nil, []clientv3.Op{clientv3.OpPut(other.Key(key, "1"), "put")}, nil); err != nil {
			t.Fatal(err)
		}
	}
	told := make(chan string, 100)
	watch := func(key string) {
		t.Helper()
		resp, err := e.Commit(ctx, nil, []clientv3.Op{clientv3.OpGet(e.Key(key))}, nil) // as who watches does
		if err != nil {
			t.Fatal(err)
		}
		changes, err := e.Watch(ctx, e.Key(key)+"/", resp.Header.Revision+1)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for w := range changes {
				if err := w.Err(); err != nil {
					told <- key + ": " + err.Error()
					return
				}
				for range w.Events {
					told <- key
				}
			}
			told <- key + " ended"
		}()
	}
	want := func(keys ...string) {
		t.Helper()
		var got []string
		for range keys {
			select {
			case s := <-told:
				got = append(got, s)
			case <-time.After(5 * time.Second):
				got = append(got, "nothing")
			}
		}
		if slices.Sort(got); !slices.Equal(got, keys) {
			t.Errorf("told %q, want %q", got, keys)
		}
	}
	watch("first")
	put("first")
	want("first")
	for _, next := range []string{"second", "third"} {
		idle := time.Now()
		wait(t, "what was handed out has ended", func() bool { return time.Since(idle) > 3500*time.Millisecond })
		watch(next)
		put("first")
		put(next)
		want("first", next)
	}
}
