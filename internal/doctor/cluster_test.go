package doctor_test

import (
	"strings"
	"testing"

	"dibs/internal/arbiter/arbitertest"
	"dibs/internal/doctor"
)

// The etcd of a cluster is tried as it is configured; where there is no cluster, nothing is said.
func TestCluster(t *testing.T) {
	etcd := arbitertest.Start(t)
	for name, tt := range map[string]struct {
		etcd, password string
		level          doctor.Level
		found          string
	}{
		"it answers":            {etcd: etcd.URL(), level: doctor.OK, found: "etcd answers at " + etcd.URL()},
		"nobody is there":       {etcd: "http://127.0.0.1:1", level: doctor.Error, found: "etcd at http://127.0.0.1:1 cannot be reached"},
		"a password is missing": {etcd: etcd.URL(), password: "/nowhere", level: doctor.Error, found: "cluster.password_file: "},
	} {
		t.Run(name, func(t *testing.T) {
			w, end := newWorld(t)
			defer end()
			w.options.Config.Cluster.Etcd, w.options.Config.Cluster.PasswordFile = []string{tt.etcd}, tt.password
			for _, f := range doctor.Run(t.Context(), w.options).Findings {
				if f.Check == "cluster" {
					if f.Level != tt.level || !strings.Contains(f.Found, tt.found) {
						t.Errorf("%+v, want %v: %s", f, tt.level, tt.found)
					}
					return
				}
			}
			t.Error("the cluster was not looked at")
		})
	}
}
