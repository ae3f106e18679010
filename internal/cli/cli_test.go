package cli_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/template"
	"time"

	"dibs/internal/cli"
	"dibs/internal/testkit"

	"github.com/adrg/xdg"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	// The tests and dibs have small heaps. To collect them as often as usual takes a fifth of the processor.
	debug.SetGCPercent(400)
	// Most scripts wait for a daemon that waits. So more run side by side than there are cores.
	flag.Lookup("test.parallel").Value.Set("8")
	testscript.Main(m, programs)
}

// programs are what the test binary can be run as.
var programs = map[string]func(){
	"dibs": func() {
		// Like cmd/dibs.
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	},
	several: func() {
		if err := runSeveral(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	},
}

// takesSeconds skips a slow test with -short, and has it wait beside others.
func takesSeconds(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds: left out with -short")
	}
	t.Parallel()
}

// TestScripts runs the scripts in testdata. Besides the usual commands, they have
//
//	runs dibs COMMAND…   run a command of dibs that must succeed, in a process that runs others, see several
//	exits CODE COMMAND…  run a command that must end with this exit code; dibs as runs does, with exec before it in a process of its own
//	daemon FILE          answer on $DIBS_SOCKET as FILE says, see exchange
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_CONFIG_HOME", env.WorkDir+"/config")
			env.Setenv("XDG_STATE_HOME", env.WorkDir+"/state")
			env.Setenv("XDG_RUNTIME_DIR", "")
			env.Setenv("DIBS_SOCKET", env.WorkDir+"/d.sock")
			env.Setenv("DIBS_AGENT", "Sandman")
			env.Setenv("TZ", "UTC")
			env.Setenv("GORACE", "atexit_sleep_ms=10") // instead of a second at the end of each command
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"runs":  runs,
			"exits": exits,
			"daemon": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 1 {
					ts.Fatalf("usage: daemon file")
				}
				startDaemon(t, ts, args[0])
			},
		},
	})
}

// TestMainInterrupted interrupts a command that waits.
func TestMainInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal"))
	var stdout, stderr bytes.Buffer
	code := cli.Main(ctx, []string{"status", "--socket", "/nowhere/dibs.sock"}, nil, &stdout, &stderr)
	if code != 1 || stdout.Len() > 0 || stderr.String() != "dibs: stopped: interrupt signal\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
}

// brokenPipe is a stdout that cannot be written.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestMainCannotPrint runs a command that cannot write its output.
func TestMainCannotPrint(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"version", "--json"}} {
		var stderr bytes.Buffer
		if code := cli.Main(t.Context(), args, nil, brokenPipe{}, &stderr); code != 1 || !bytes.Contains(stderr.Bytes(), []byte("no space left on device")) {
			t.Errorf("%v: exit code %d, stderr %q", args, code, &stderr)
		}
	}
}

// initialized matches a package of dibs in a trace of a program's start, with the bytes it allocates.
var initialized = regexp.MustCompile(`(?m)^init (dibs/\S+) .* (\d+) bytes`)

// TestStartsLight starts dibs and looks at what its packages make before main. Every command pays
// for that, so templates and costly patterns are made at first use.
func TestStartsLight(t *testing.T) {
	cmd := exec.Command("dibs", "version")
	cmd.Env = append(cmd.Environ(), "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	testkit.Must(t, cmd.Run())
	packages := initialized.FindAllStringSubmatch(trace.String(), -1)
	testkit.Require(t, len(packages) != 0, "no package of dibs is in the trace %q", &trace)
	for _, p := range packages {
		if bytes, err := strconv.Atoi(p[2]); err != nil || bytes > 80<<10 {
			t.Errorf("%s allocates %s bytes at the start of each command; make what is large at first use, with sync.OnceValue", p[1], p[2])
		}
	}
}

// several is the test binary as a program that runs several commands, one after the other. A
// script's "runs dibs COMMAND" runs there: a program's start costs ten times what most commands do.
// With "exec dibs COMMAND" it is a process of its own, which it has to be if it has something on
// stdin, a terminal, signals or children, or runs in the background.
const several = "dibs-several"

// order is a command to run, and outcome what became of it.
type (
	order struct {
		Args, Env []string
		Dir       string
	}
	outcome struct {
		Code           int
		Stdout, Stderr []byte
	}
)

// runSeveral runs the commands that it reads.
func runSeveral(orders io.Reader, outcomes io.Writer) error {
	os.Stdout = os.Stderr // what a command prints there, beside the stdout it is given, is no outcome
	from, to := json.NewDecoder(orders), json.NewEncoder(outcomes)
	for {
		var o order
		if err := from.Decode(&o); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		os.Clearenv()
		for _, setting := range o.Env {
			name, value, _ := strings.Cut(setting, "=")
			os.Setenv(name, value)
		}
		if err := os.Chdir(o.Dir); err != nil {
			return err
		}
		xdg.Reload() // it reads the environment when a program starts
		var stdout, stderr bytes.Buffer
		code := cli.Main(context.Background(), o.Args, strings.NewReader(""), &stdout, &stderr)
		if err := to.Encode(outcome{code, stdout.Bytes(), stderr.Bytes()}); err != nil {
			return err
		}
	}
}

// process is one that runs several commands.
type process struct {
	orders   *json.Encoder
	outcomes *json.Decoder
}

// idle are the processes that run nothing at the moment. They end with the tests, which close their stdin.
var idle struct {
	sync.Mutex
	processes []process
}

// run runs a command in a process that runs nothing else meanwhile.
func run(o order) (out outcome, err error) {
	idle.Lock()
	var p process
	if n := len(idle.processes); n > 0 {
		p, idle.processes = idle.processes[n-1], idle.processes[:n-1]
	}
	idle.Unlock()
	if p.orders == nil {
		cmd := exec.Command(several)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return out, err
		}
		answers, err := cmd.StdoutPipe()
		if err != nil {
			return out, err
		}
		if err := cmd.Start(); err != nil {
			return out, err
		}
		p = process{json.NewEncoder(in), json.NewDecoder(answers)}
	}
	if err := p.orders.Encode(o); err != nil {
		return out, err
	}
	if err := p.outcomes.Decode(&out); err != nil {
		return out, err
	}
	idle.Lock()
	idle.processes = append(idle.processes, p)
	idle.Unlock()
	return out, nil
}

// set matches where a script sets a variable.
var set = regexp.MustCompile(`(?m)^env (\w+)=`)

// variables returns the names of the variables that any script sets: a script does not tell which
// it has.
var variables = sync.OnceValues(func() (names map[string]bool, err error) {
	names = make(map[string]bool)
	for _, pattern := range []string{"testdata/*.txtar", "testdata/*/*.txtar"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			for _, m := range set.FindAllSubmatch(text, -1) {
				names[string(m[1])] = true
			}
		}
	}
	return names, nil
})

// inOne runs a script's command in a process that runs several, and returns its exit code.
func inOne(ts *testscript.TestScript, args []string) int {
	names, err := variables()
	ts.Check(err)
	o := order{Args: args, Dir: ts.MkAbs(".")}
	add := func(name string) {
		if value := ts.Getenv(name); value != "" {
			o.Env = append(o.Env, name+"="+value)
		}
	}
	for name := range names {
		add(name)
	}
	for _, name := range append(environment, "PATH", "TZ", "DIBS_AGENT", "TMPDIR", "LANG") {
		if !names[name] {
			add(name)
		}
	}
	o.Env = append(o.Env, "PWD="+o.Dir)
	out, err := run(o)
	ts.Check(err)
	ts.Stdout().Write(out.Stdout)
	ts.Stderr().Write(out.Stderr)
	return out.Code
}

// runs runs a command of dibs that must succeed or, after "!", must not.
func runs(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || args[0] != "dibs" {
		ts.Fatalf("usage: runs dibs command")
	}
	if code := inOne(ts, args[1:]); neg != (code != 0) {
		ts.Fatalf("exit code %d", code)
	}
}

// exits runs a command that must end with this exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code command [args…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if args[1] == "dibs" {
		got = inOne(ts, args[2:])
	} else {
		got = inItsOwn(ts, args[1:])
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// inItsOwn runs a command, perhaps after "exec", in a process of its own, and returns its exit code.
func inItsOwn(ts *testscript.TestScript, args []string) int {
	if args[0] == "exec" {
		args = args[1:]
	}
	err := ts.Exec(args[0], args[1:]...)
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return failed.ExitCode()
	}
	ts.Check(err)
	return 0
}

// exchange is a request that a script's daemon expects, and its answer. A file lists them in order,
// with empty lines between them, each as
//
//	METHOD PATH [BODY]
//	[Header: value …]
//	STATUS BODY
//
// The key * matches any key, and must then be the same everywhere. The answer is a template:
// {{in "12m"}} is the time in twelve minutes, and {{task}} and {{claim}} are common pieces of JSON.
type exchange struct {
	method, path, body string
	header             map[string]string
	status             int
	answer             *template.Template
}

const (
	taskJSON  = `"id":"11111111-2222-3333-4444-555555555555","title":"Fix the login","url":"https://notion.example/1","status":"IN_PROGRESS","priority":"high"`
	claimJSON = `"id":"01KA8XQ5V8ZJ6N3T4R7W9Y2M1D","agent":"Sandman","task":{` + taskJSON + `}`
)

var pieces = template.FuncMap{
	"in": func(d string) (string, error) {
		length, err := time.ParseDuration(d)
		return time.Now().Add(length).UTC().Format("2006-01-02T15:04:05.000Z"), err
	},
	"task":  func() string { return taskJSON },
	"claim": func() string { return claimJSON },
}

func readExchanges(text string) ([]exchange, error) {
	var list []exchange
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		lines := strings.Split(strings.TrimSpace(block), "\n")
		e := exchange{header: make(map[string]string)}
		e.method, e.path, _ = strings.Cut(lines[0], " ")
		e.path, e.body, _ = strings.Cut(e.path, " ")
		for _, line := range lines[1 : len(lines)-1] {
			name, value, _ := strings.Cut(line, ": ")
			e.header[name] = value
		}
		status, answer, _ := strings.Cut(lines[len(lines)-1], " ")
		var err error
		if e.status, err = strconv.Atoi(status); err != nil {
			return nil, fmt.Errorf("in %q: %w", block, err)
		}
		if e.answer, err = template.New("answer").Funcs(pieces).Parse(answer); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// fakeDaemon answers exchanges, each once and in order. It fails the test for unexpected requests,
// and for exchanges that did not happen.
type fakeDaemon struct {
	t      *testing.T
	script string
	mu     sync.Mutex
	left   []exchange
	key    string // the key that matched *
}

func startDaemon(t *testing.T, ts *testscript.TestScript, file string) {
	exchanges, err := readExchanges(ts.ReadFile(file))
	ts.Check(err)
	d := &fakeDaemon{t: t, script: ts.Name(), left: exchanges}
	l, err := net.Listen("unix", ts.Getenv("DIBS_SOCKET"))
	ts.Check(err)
	s := &http.Server{Handler: d}
	go s.Serve(l)
	ts.Defer(func() {
		s.Close()
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, e := range d.left {
			t.Errorf("%s: the daemon was not asked: %s %s %s", d.script, e.method, e.path, e.body)
		}
	})
}

func (d *fakeDaemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		d.t.Errorf("%s: %v", d.script, err)
	}
	if len(d.left) == 0 {
		d.t.Errorf("%s: the daemon was asked once more: %s %s %s", d.script, r.Method, r.RequestURI, body)
		return
	}
	e := d.left[0]
	d.left = d.left[1:]
	got := fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, body)
	if want := fmt.Sprintf("%s %s %s", e.method, e.path, e.body); got != want {
		d.t.Errorf("%s: request (-want +got):\n%s", d.script, gocmp.Diff(want, got))
	}
	for _, name := range []string{"Idempotency-Key"} {
		got := r.Header.Get(name)
		if e.header[name] == "*" {
			d.key = cmp.Or(d.key, got)
			e.header[name] = cmp.Or(d.key, "any key")
		}
		if got != e.header[name] {
			d.t.Errorf("%s: %s %s has %s: %q, want %q", d.script, e.method, e.path, name, got, e.header[name])
		}
	}
	var answer bytes.Buffer
	if err := e.answer.Execute(&answer, nil); err != nil || !json.Valid(answer.Bytes()) {
		d.t.Errorf("%s: the answer %s is no JSON (%v)", d.script, &answer, err)
	}
	media := "application/json"
	if e.status >= http.StatusBadRequest {
		media = "application/problem+json"
	}
	w.Header().Set("Content-Type", media)
	w.WriteHeader(e.status)
	w.Write(answer.Bytes())
}
