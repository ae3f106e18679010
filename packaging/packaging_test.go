// Package packaging_test checks the files that are shipped with the program.
package packaging_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/claim"
	"dibs/internal/daemon/metrics"
	"dibs/internal/testkit"

	"github.com/spf13/viper"
)

// exported returns the daemon's metrics with their labels.
func exported(t *testing.T) map[string]map[string]bool {
	t.Helper()
	m := metrics.New(metrics.Options{
		Version: "v1", WriteWindow: time.Second, Settle: 2 * time.Second, Log: slog.New(slog.DiscardHandler),
		Standing: func(context.Context) (metrics.State, error) {
			return metrics.State{
				Requests: []metrics.Requests{{Endpoint: "pages.get", Status: 200, N: 1}}, Waiting: map[string]int{"claim": 0},
				Held: map[string]int{"Sandman": 1}, Outbox: []metrics.Backlog{{Log: "mesh"}}, Cluster: new(metrics.Cluster),
			}, nil
		},
	})
	m.Claimed("Sandman", nil, time.Second)
	m.Wrote(time.Second, nil)
	m.Saved(claim.Change{Holds: []claim.Hold{claim.Hold{}}, Facts: []claim.Fact{claim.Fact{Kind: claim.KindGranted}}})
	m.Answered("GET /v1/status", 200)
	recorder := httptest.NewRecorder()
	m.Handler().ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	names := make(map[string]map[string]bool)
	for _, found := range regexp.MustCompile(`(?m)^(dibs_\w+)(?:\{(.*)\})? `).FindAllStringSubmatch(recorder.Body.String(), -1) {
		labels := map[string]bool{"instance": true, "job": true}
		for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(found[2], -1) {
			labels[label[1]] = true
		}
		names[found[1]] = labels
	}
	return names
}

var (
	metric   = regexp.MustCompile(`\b(dibs_\w+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"`)
	grouping = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// faults returns what is wrong with a query: unbalanced brackets, unknown metrics and labels.
func faults(query string, names map[string]map[string]bool) []string {
	var found []string
	if strings.Count(query, "(") != strings.Count(query, ")") || strings.Count(query, "{") != strings.Count(query, "}") {
		found = append(found, "brackets do not match")
	}
	known := make(map[string]bool)
	for _, use := range metric.FindAllStringSubmatch(query, -1) {
		labels, ok := names[use[1]]
		if !ok {
			found = append(found, "no metric is called "+use[1])
		}
		for label := range labels {
			known[label] = true
		}
		for _, m := range matcher.FindAllStringSubmatch(use[2], -1) {
			if !labels[m[1]] {
				found = append(found, use[1]+" has no label "+m[1])
			}
		}
	}
	for _, by := range grouping.FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(by[1], ",") {
			if label = strings.TrimSpace(label); !known[label] {
				found = append(found, "no metric in it has the label "+label)
			}
		}
	}
	return found
}

func TestDashboard(t *testing.T) {
	names := exported(t)
	data := testkit.Got(os.ReadFile("metrics/dashboard.json"))(t)
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
	}
	testkit.Must(t, json.Unmarshal(data, &dashboard))
	var shown []string
	ids := make(map[int]bool)
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d, %q, has %d queries", p.ID, p.Title, len(p.Targets))
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			if found := faults(target.Expr, names); len(found) > 0 {
				t.Errorf("%s: %s: %v", p.Title, target.Expr, found)
			}
			shown = append(shown, target.Expr)
		}
	}
	// Every metric is on a panel, except those that are only useful in alerts.
	all := strings.Join(shown, "\n")
	for name := range names {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if !strings.Contains(all, base) && !slices.Contains([]string{
			"dibs_build_info", "dibs_clock_skew_seconds", "dibs_mirror_tasks", "dibs_notion_permits_max", "dibs_claim_writes_late_total",
		}, base) {
			t.Errorf("%s is on no panel", name)
		}
	}
}

func TestAlerts(t *testing.T) {
	names := exported(t)
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	readYAML(t, "metrics/alerts.yaml", &file)
	seen := make(map[string]bool)
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if seen[r.Alert] || r.Alert == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.Labels["severity"] == "" {
				t.Errorf("alert %q lacks something, or is there twice: %+v", r.Alert, r)
			}
			seen[r.Alert] = true
			if found := faults(r.Expr, names); len(found) > 0 {
				t.Errorf("%s: %s: %v", r.Alert, r.Expr, found)
			}
			if _, err := time.ParseDuration(r.For); r.For != "" && err != nil {
				t.Errorf("%s: %v", r.Alert, err)
			}
		}
	}
	testkit.Check(t, len(seen) >= 10, "found %d alerts", len(seen))
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	v := viper.New()
	v.SetConfigFile(path)
	testkit.Must(t, errors.Join(v.ReadInConfig(), v.Unmarshal(into)))
}

// TestPackageContents checks that the files of a package exist.
func TestPackageContents(t *testing.T) {
	var file struct {
		Contents []struct{ Src, Dst string }
		Scripts  map[string]string
	}
	readYAML(t, "nfpm.yaml", &file)
	paths := []string{}
	for _, c := range file.Contents {
		if !strings.HasPrefix(c.Src, "${PROGRAM}/") { // made by build.sh
			paths = append(paths, c.Src)
		}
		testkit.Check(t, strings.HasPrefix(c.Dst, "/"), "%s goes to %q", c.Src, c.Dst)
	}
	for _, script := range file.Scripts {
		paths = append(paths, script)
		if out, err := exec.Command("sh", "-n", filepath.Join("..", script)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", script, err, out)
		}
	}
	testkit.Check(t, len(paths) >= 10, "found %d files only", len(paths))
	for _, path := range paths {
		if _, err := os.Stat(filepath.Join("..", path)); err != nil {
			t.Error(err)
		}
	}
	if _, err := config.Load(config.Options{File: "config.yaml"}); err != nil {
		t.Errorf("the configuration that packages install: %v", err)
	}
}

// TestConfigurationAndUnits checks that the systemd units and the configuration for the commands
// agree.
func TestConfigurationAndUnits(t *testing.T) {
	c := testkit.Got(config.Load(config.Options{File: "config.yaml", FileOnly: true}))(t)
	for file, wanted := range map[string][]string{
		"systemd/dibs.service": {
			"ExecStart=/usr/bin/dibs serve --config /etc/dibs/config.yaml --state-dir " + c.StateDir + " --socket " + c.Socket,
			"LoadCredential=notion-token:" + c.Notion.TokenFile, "Environment=DIBS_SOCKET_GROUP=" + c.SocketGroup,
		},
		"systemd/dibs.socket": {"ListenStream=" + c.Socket, "SocketGroup=" + c.SocketGroup, "SocketMode=0660"},
	} {
		data := testkit.Got(os.ReadFile(file))(t)
		for _, line := range wanted {
			testkit.Check(t, strings.Contains(string(data), "\n"+line+"\n"), "%s lacks %s", file, line)
		}
	}
}

// TestStartsGoOn checks that starts are not limited: otherwise a machine that boots without a
// network would have no daemon.
func TestStartsGoOn(t *testing.T) {
	for _, file := range []string{"systemd/dibs.service", "systemd/user/dibs.service"} {
		data := testkit.Got(os.ReadFile(file))(t)
		for _, line := range []string{"StartLimitIntervalSec=0", "Restart=on-failure"} {
			testkit.Check(t, strings.Contains(string(data), "\n"+line+"\n"), "%s lacks %s", file, line)
		}
	}
}

// TestUnits lets systemd verify the units, if there is a systemd.
func TestUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze here")
	}
	dir := t.TempDir()
	for _, unit := range []string{"systemd/dibs.service", "systemd/dibs.socket", "systemd/user/dibs.service"} {
		data := testkit.Got(os.ReadFile(unit))(t)
		// The program need not be installed, nor its man page.
		text := strings.ReplaceAll(string(data), "/usr/bin/dibs", "/bin/true")
		text = regexp.MustCompile(`(?m)^Documentation=.*\n`).ReplaceAllString(text, "")
		path := filepath.Join(dir, unit)
		testkit.Must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
	}
	for _, unit := range []string{"systemd/dibs.service", "systemd/user/dibs.service"} {
		cmd := exec.Command(analyze, "verify", filepath.Join(dir, unit))
		cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+filepath.Dir(filepath.Join(dir, unit))+":")
		out, err := cmd.CombinedOutput()
		if strings.Contains(string(out), "dibs") || err != nil && len(out) == 0 {
			t.Errorf("%s: %v\n%s", unit, err, out)
		}
	}
}

func TestPlist(t *testing.T) {
	file := testkit.Got(os.Open("launchd/dibs.plist"))(t)
	defer file.Close()
	// In a dict, keys and values alternate.
	var keys, values int
	depth := 0
	for d := xml.NewDecoder(file); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			if depth++; depth == 3 {
				if e.Name.Local == "key" {
					keys++
				} else {
					values++
				}
			}
		case xml.EndElement:
			depth--
		}
	}
	testkit.Check(t, keys != 0 && keys == values, "%d keys and %d values", keys, values)
}

// TestFaults checks the check.
func TestFaults(t *testing.T) {
	names := exported(t)
	for _, query := range []string{
		`dibs_no_such_metric`, `sum(dibs_mirror_tasks`, `dibs_mirror_tasks{agent="x"}`, `sum by (agent) (dibs_mirror_tasks)`,
	} {
		testkit.Check(t, len(faults(query, names)) != 0, "%s was not found to be wrong", query)
	}
}
