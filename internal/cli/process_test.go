package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"dibs/internal/cli"

	"github.com/adrg/xdg"
	"github.com/rogpeppe/go-internal/testscript"
)

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
