package doctor_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dibs/internal/api"
	"dibs/internal/api/apitest"
	"dibs/internal/api/client"
	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/doctor"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The etcd of a cluster is tried as it is configured; where there is no cluster, nothing is said.
func TestCluster(t *testing.T) {
	etcd, another := arbitertest.Start(t), arbitertest.Start(t)
	full := arbitertest.Start(t)
	if _, err := pb.NewMaintenanceClient(full.Client("", "").ActiveConnection()).Alarm(t.Context(), &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE}); err != nil {
		t.Fatal(err)
	}
	asking := arbitertest.StartAuth(t, "root's", "secret", "/somewhere/", 300)
	loose := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(loose, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(loose, 0o644); err != nil { // whatever the umask
		t.Fatal(err)
	}
	type finding struct {
		check         string
		level         doctor.Level
		found, remedy string
	}
	const nobody = "http://127.0.0.1:1"
	for name, tt := range map[string]struct {
		etcd           []string
		user, password string
		want           []finding
	}{
		"it answers": {etcd: []string{etcd.URL()}, want: []finding{
			{"cluster.etcd", doctor.OK, etcd.URL() + ", etcd 3.", ""},
			{"cluster", doctor.OK, "etcd answers at " + etcd.URL() + ", and may be read and written to, in ", ""},
		}},
		"nobody is there": {etcd: []string{nobody}, want: []finding{
			{"cluster.etcd", doctor.Error, "etcd at " + nobody + " cannot be reached: dial tcp 127.0.0.1:1: connect: connection refused", "etcdctl endpoint health"},
			{"cluster", doctor.Error, "etcd at " + nobody + " cannot be reached", "see that etcd runs"},
		}},
		"one of two is there": {etcd: []string{nobody, etcd.URL()}, want: []finding{
			{"cluster.etcd", doctor.Warning, "connection refused (1 of 2 answer)", "see that etcd runs"},
			{"cluster.etcd", doctor.OK, "leader", ""},
			{"cluster", doctor.OK, "etcd answers", ""},
		}},
		"members of two": {etcd: []string{etcd.URL(), another.URL()}, want: []finding{
			{"cluster.etcd", doctor.OK, etcd.URL(), ""},
			{"cluster.etcd", doctor.Error, another.URL() + " is of another etcd than " + etcd.URL(), "list the members of one etcd"},
			{"cluster", doctor.OK, "etcd answers", ""},
		}},
		"another name of the same": {etcd: []string{strings.Replace(etcd.URL(), "127.0.0.1", "localhost", 1)}, want: []finding{
			{"cluster.etcd", doctor.OK, "leader", ""},
			{"cluster", doctor.OK, "etcd answers", ""},
		}},
		"no space is left": {etcd: []string{full.URL()}, want: []finding{
			{"cluster.etcd", doctor.Error, full.URL() + " takes nothing more, as its quota is used up: 0.", "etcdctl alarm disarm"},
			{"cluster", doctor.Error, "it takes nothing more, as its quota is used up", "etcdctl alarm disarm"},
		}},
		"a password is missing": {etcd: []string{etcd.URL()}, user: "dibs", password: "/nowhere", want: []finding{
			{"cluster.etcd", doctor.Error, "cluster.password_file: open /nowhere: no such file", ""},
			{"cluster", doctor.Error, "cluster.password_file: ", ""},
		}},
		"a user without rights, and a password for all": {etcd: []string{asking.URL()}, user: "dibs", password: loose, want: []finding{
			{"cluster.secrets", doctor.Warning, loose + ", which others may be able to read (mode 0644)", "chmod 600 " + loose},
			{"cluster.etcd", doctor.OK, asking.URL(), ""},
			{"cluster", doctor.Error, "user dibs may not read and write below /dibs/", "etcdctl role grant-permission ROLE --prefix=true readwrite /dibs/"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, end := newWorld(t)
			defer end()
			c := &w.options.Config.Cluster
			c.Etcd, c.Username, c.PasswordFile = tt.etcd, tt.user, tt.password
			got := doctor.Run(t.Context(), w.options).Findings
			got = slices.DeleteFunc(got, func(f doctor.Finding) bool { return !strings.HasPrefix(f.Check, "cluster") })
			for i, f := range got {
				if i >= len(tt.want) {
					t.Errorf("%+v, which was not to be found", f)
					continue
				}
				want := tt.want[i]
				if f.Check != want.check || f.Level != want.level || !strings.Contains(f.Found, want.found) || !strings.Contains(f.Remedy, want.remedy) || (f.Remedy == "") != (f.Level == doctor.OK) {
					t.Errorf("%+v\nwant %+v", f, want)
				}
			}
			if len(got) < len(tt.want) {
				t.Errorf("not found: %+v", tt.want[len(got):])
			}
			keys, err := etcd.Client("", "").Get(context.Background(), "/dibs/", clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err != nil || keys.Count != 0 {
				t.Errorf("%d keys were left in etcd, %v", keys.Count, err)
			}
		})
	}
}

// member is the client of a daemon that is the member north of a cluster, beside south.
func member(t *testing.T, etcd string) *client.Client {
	pipe := apitest.NewPipe()
	serving := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		status := &api.ClusterStatus{Name: "north", Etcd: []string{etcd}}
		var said any = api.Status{Version: "test", PID: 7, Warnings: []string{}, Cluster: status}
		if r.URL.Path == "/v1/cluster" {
			said = api.Cluster{ClusterStatus: *status, Members: []api.Member{
				{Name: "north", Self: true}, {Name: "south", Differs: []string{"notion.rate 5, and 3 here"}},
			}}
		}
		if err := json.NewEncoder(rw).Encode(said); err != nil {
			t.Error(err)
		}
	})}
	go serving.Serve(pipe)
	t.Cleanup(func() { serving.Close() })
	return client.Over("pipe", pipe.Dial)
}

// A daemon that is a member where no cluster is configured is named, and not what it does without.
func TestMemberOfAClusterThatIsNotConfigured(t *testing.T) {
	w, end := newWorld(t)
	defer end()
	w.options.Daemon = member(t, "http://127.0.0.1:1")
	var got []string
	for _, f := range doctor.Run(t.Context(), w.options).Findings {
		if f.Check == "cluster" && f.Level == doctor.Warning {
			got = append(got, f.Found)
		}
		if f.Check == "settings" && strings.Contains(f.Found, "claim.settle") {
			t.Error(f.Found)
		}
	}
	if want := []string{"the daemon is member north of a cluster, and cluster.etcd is not configured"}; !slices.Equal(got, want) {
		t.Errorf("found %q", got)
	}
}

// The doctor says what the daemon knows of the other members.
func TestMembersOfTheCluster(t *testing.T) {
	etcd := arbitertest.Start(t)
	w, end := newWorld(t)
	defer end()
	w.options.Config.Cluster.Etcd = []string{etcd.URL()}
	w.options.Daemon = member(t, etcd.URL())
	var got []doctor.Finding
	for _, f := range doctor.Run(t.Context(), w.options).Findings {
		if f.Check == "cluster.members" {
			got = append(got, f)
		}
	}
	if len(got) != 2 || got[0].Level != doctor.Warning || got[0].Found != "member south has notion.rate 5, and 3 here" || got[0].Remedy != api.SameInCluster ||
		got[1].Level != doctor.OK || got[1].Found != "north, south" {
		t.Errorf("found %+v", got)
	}
}
