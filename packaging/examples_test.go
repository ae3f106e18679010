package packaging_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dibs/config"
	"dibs/internal/cli"
	"dibs/internal/testkit"

	"github.com/tailscale/hujson"
	"go.yaml.in/yaml/v3"
)

// settings are variables of a process. Those from elsewhere are empty.
type settings map[string]string

// example is what an example says of the daemon.
type example struct {
	file  string   // its configuration
	env   settings // its variables
	ports []int    // where it is asked
}

type (
	compose struct {
		Services map[string]struct {
			Image, Restart, User string
			CapDrop              []string `yaml:"cap_drop"`
			Environment          settings
			Configs              []struct{ Source, Target string }
			Volumes, Secrets     []string
			Build                struct {
				Dockerfile string `yaml:"dockerfile_inline"`
			}
			DependsOn  map[string]struct{ Condition string } `yaml:"depends_on"`
			WorkingDir string                                `yaml:"working_dir"`
			Command    []string
		}
		Configs map[string]struct{ Content string }
		Secrets map[string]struct{ File string }
		Volumes map[string]struct{}
	}
	devcontainer struct {
		Name, Image             string
		RunArgs, Mounts         []string
		ContainerEnv, RemoteEnv settings
		PostCreateCommand       string
		PostStartCommand        string
	}
	workflow struct {
		Name string
		On   struct {
			Dispatch struct{} `yaml:"workflow_dispatch"`
			Schedule []struct{ Cron string }
		}
		Permissions map[string]string
		Jobs        map[string]struct {
			RunsOn  string `yaml:"runs-on"`
			Minutes int    `yaml:"timeout-minutes"`
			Env     settings
			Steps   []struct{ Uses, Run string }
		}
	}
	metadata struct {
		Name   string
		Labels settings
	}
	probe struct {
		Exec             struct{ Command []string }
		TCPSocket        struct{ Port string } `yaml:"tcpSocket"`
		TimeoutSeconds   int                   `yaml:"timeoutSeconds"`
		FailureThreshold int                   `yaml:"failureThreshold"`
	}
	container struct {
		Name, Image string
		Env         []struct {
			Name, Value string
			ValueFrom   struct {
				Secret struct{ Name, Key string } `yaml:"secretKeyRef"`
			} `yaml:"valueFrom"`
		}
		Ports []struct {
			Name string
			Port int `yaml:"containerPort"`
		}
		StartupProbe    probe `yaml:"startupProbe"`
		LivenessProbe   probe `yaml:"livenessProbe"`
		SecurityContext struct {
			Escalation   bool `yaml:"allowPrivilegeEscalation"`
			Capabilities struct{ Drop []string }
		} `yaml:"securityContext"`
	}
	manifest struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   metadata
	}
	deployment struct {
		manifest `yaml:",inline"`
		Spec     struct {
			Replicas int
			Selector struct {
				MatchLabels settings `yaml:"matchLabels"`
			}
			Template struct {
				Metadata metadata
				Spec     struct {
					ServiceLinks    *bool `yaml:"enableServiceLinks"`
					AccountToken    *bool `yaml:"automountServiceAccountToken"`
					SecurityContext struct {
						NonRoot bool `yaml:"runAsNonRoot"`
					} `yaml:"securityContext"`
					Containers []container
				}
			}
		}
	}
	service struct {
		manifest `yaml:",inline"`
		Spec     struct {
			Selector settings
			Affinity string `yaml:"sessionAffinity"`
			Ports    []struct {
				Name   string
				Port   int
				Target string `yaml:"targetPort"`
			}
		}
	}
)

// strictly decodes the documents of a YAML file. An unknown key, or one that is there twice, is an error.
func strictly(t *testing.T, text string, into ...any) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	for _, one := range into {
		testkit.Must(t, d.Decode(one))
	}
}

// examples read the files of the folder.
var examples = map[string]func(*testing.T, string) example{
	"compose.yaml": func(t *testing.T, text string) example {
		var c compose
		strictly(t, text, &c)
		server, agent := c.Services["dibs"], c.Services["agent"]
		for _, s := range []struct{ is, want string }{
			{server.Configs[0].Target, server.Environment["DIBS_CONFIG"]},
			{agent.Environment["DIBS_TOKEN_FILE"], "/run/secrets/" + agent.Secrets[0]},
			{c.Secrets[agent.Secrets[0]].File, "agent.token"},
		} {
			testkit.Check(t, s.is == s.want, "%q, want %q", s.is, s.want)
		}
		return example{file: c.Configs[server.Configs[0].Source].Content, env: server.Environment}
	},
	"devcontainer.json": func(t *testing.T, text string) example {
		plain, err := hujson.Standardize([]byte(text))
		testkit.Must(t, err)
		var c devcontainer
		d := json.NewDecoder(bytes.NewReader(plain))
		d.DisallowUnknownFields()
		testkit.Must(t, d.Decode(&c))
		testkit.Check(t, len(c.Mounts) == 1 && strings.Contains(c.Mounts[0], "target="+c.ContainerEnv["DIBS_TOKEN_FILE"]+","), "no mount is the token's file: %q", c.Mounts)
		return example{file: indented(text)}
	},
	"github-actions.yml": func(t *testing.T, text string) example {
		var w workflow
		strictly(t, text, &w)
		testkit.Check(t, w.Permissions["id-token"] == "write", "the job may not ask for a JWT: %v", w.Permissions)
		job := w.Jobs["agent"]
		e := example{file: indented(text)}
		c := e.load(t)
		testkit.Check(t, len(c.Remote.OIDC) == 1 && strings.Contains(job.Env["DIBS_TOKEN_COMMAND"], "audience="+c.Remote.OIDC[0].Audience+`"`), "the audience of the JWT is not that of %+v", c.Remote.OIDC)
		return e
	},
	"kubernetes.yaml": func(t *testing.T, text string) example {
		var d deployment
		var s service
		strictly(t, text, &d, &s)
		pod := d.Spec.Template
		for _, is := range []settings{d.Metadata.Labels, d.Spec.Selector.MatchLabels, s.Spec.Selector} {
			testkit.Same(t, pod.Metadata.Labels, is, "labels")
		}
		env := make(settings)
		c := pod.Spec.Containers[0]
		for _, v := range c.Env {
			env[v.Name] = v.Value
			testkit.Check(t, (v.Value == "") == strings.Contains(text, "--from-literal="+v.ValueFrom.Secret.Key+"=") && v.Value+v.ValueFrom.Secret.Name != "", "%s: the secret is not made: %+v", v.Name, v)
		}
		testkit.Check(t, pod.Spec.ServiceLinks != nil && !*pod.Spec.ServiceLinks, "the Service sets variables of pods that are no settings")
		testkit.Check(t, c.Ports[0].Name == s.Spec.Ports[0].Target && c.Ports[0].Name == c.LivenessProbe.TCPSocket.Port, "the port is not %s everywhere", c.Ports[0].Name)
		return example{env: env, ports: []int{c.Ports[0].Port, s.Spec.Ports[0].Port}}
	},
}

var (
	prose    = regexp.MustCompile(`^\s*(#|//) ?\S`)
	comment  = regexp.MustCompile(`^\s*(#|//)( {3}|$)`)
	variable = regexp.MustCompile(`\bDIBS_\w+`)
	address  = regexp.MustCompile(`https://[\w.-]+:(\d+)`)
	word     = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`)
	called   = regexp.MustCompile("(?:^|.*[\\s\"`])dibs ([a-z].*)")
)

// indented returns what first stands indented in the comments of a file.
func indented(text string) string {
	var all strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); comment.MatchString(line) {
			all.WriteString(comment.ReplaceAllString(line, "") + "\n")
		}
	}
	first, _, _ := strings.Cut(strings.TrimLeft(all.String(), "\n"), "\n\n")
	return first
}

// load reads the configuration as the daemon does.
func (e example) load(t *testing.T) config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	testkit.Must(t, os.WriteFile(file, []byte(e.file), 0o600))
	for name, value := range e.env {
		switch {
		case name == "DIBS_CONFIG":
			continue
		case value == "":
			value = "postgres://db.example.com/dibs" // as of a secret
		}
		t.Setenv(name, value)
	}
	c, err := config.Load(config.Options{File: file})
	testkit.Must(t, err)
	return c
}

// commands returns what follows "dibs " in each line, as far as it is one command. In comments only what
// is indented counts.
func commands(text string) (all [][]string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, "[dibs, ") {
			line = strings.NewReplacer("[", " ", "]", " ", ",", "").Replace(line)
		}
		found := called.FindStringSubmatch(line)
		if found == nil || prose.MatchString(line) {
			continue
		}
		var args []string
		for _, w := range word.FindAllString(found[1], -1) {
			begin, _, over := strings.Cut(w, "`")
			if strings.ContainsAny(w[:1], "#>|&;`") {
				break
			}
			if args = append(args, strings.Trim(begin, `'",)`)); over {
				break
			}
		}
		all = append(all, args)
	}
	return all
}

// wrong says what is wrong with a command line; empty if its command and all of its flags exist.
func wrong(t *testing.T, args []string) string {
	var out, errs bytes.Buffer
	own := slices.Index(args, "--")
	if own < 0 {
		own = len(args)
	}
	if cli.Main(t.Context(), slices.Insert(slices.Clone(args), own, "--help"), strings.NewReader(""), &out, &errs) != 0 {
		return errs.String()
	}
	if own > 1 && strings.Contains(out.String(), "dibs "+args[0]+" [command]") { // another word would be one
		return "there is no " + args[1]
	}
	return ""
}

// TestExamples reads the examples: their keys, variables, commands and ports are those of the program.
func TestExamples(t *testing.T) {
	files := testkit.Got(os.ReadDir("examples"))(t)
	testkit.Check(t, len(files) == len(examples), "%d examples are read, of %d", len(examples), len(files))
	for name, read := range examples {
		t.Run(name, func(t *testing.T) {
			text := string(testkit.Got(os.ReadFile(filepath.Join("examples", name)))(t))
			e := read(t, text)
			port := e.load(t).Remote.Listen
			for _, at := range e.ports {
				testkit.Same(t, port, ":"+strconv.Itoa(at), "a port")
			}
			sound(t, text, port)
		})
	}
}

// TestExamplesOfRemote holds the page to what the examples are held to.
func TestExamplesOfRemote(t *testing.T) {
	sound(t, string(testkit.Got(os.ReadFile("../docs/remote.md"))(t)), ":7333")
}

// sound looks at the addresses, the variables and the commands of a text.
func sound(t *testing.T, text, port string) {
	t.Helper()
	found := 0
	for _, at := range address.FindAllStringSubmatch(text, -1) {
		testkit.Check(t, ":"+at[1] == port, "%s: the daemon listens at %s", at[0], port)
	}
	for _, name := range variable.FindAllString(text, -1) {
		t.Setenv(name, "1")
		_, err := config.Load(config.Options{})
		testkit.Check(t, err == nil || !strings.Contains(err.Error(), "unknown variable "+name), "there is no variable %s", name)
		testkit.Must(t, os.Unsetenv(name)) // Setenv restores it
	}
	for _, args := range commands(text) {
		found++
		if problem := wrong(t, args); problem != "" {
			t.Errorf("dibs %s: %s", strings.Join(args, " "), problem)
		}
	}
	testkit.Check(t, found > 0, "no command was found")
}
