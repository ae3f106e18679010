package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"dibs/internal/cli"
	"dibs/internal/notion/emulator"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestEmulatorTasks fills a new state, and only a new one.
func TestEmulatorTasks(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state.json")
	for _, tasks := range []string{"45", "7"} {
		ctx, stop := context.WithCancel(t.Context())
		out, in := io.Pipe()
		var stderr bytes.Buffer
		ended := make(chan int, 1)
		go func() {
			ended <- cli.Main(ctx, []string{"emulator", "--json", "--seed", "empty", "--state", state, "--tasks", tasks}, nil, in, &stderr)
			in.Close()
		}()
		var where struct{ Databases emulator.Databases }
		if err := json.NewDecoder(out).Decode(&where); err != nil {
			t.Fatal(err)
		}
		stop()
		io.Copy(io.Discard, out)
		if code := <-ended; code != 0 {
			t.Fatalf("exit code %d: %s", code, &stderr)
		}
		e, err := emulator.New(emulator.Options{StateFile: state})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(e.Pages(where.Databases.Tasks)); n != 45 {
			t.Errorf("--tasks %s: %d tasks, want 45", tasks, n)
		}
	}
}

// emulate starts an emulator in a process of its own, and points the script at it.
func emulate(ts *testscript.TestScript, _ bool, args []string) {
	line := launch(ts, args[0], append([]string{"emulator", "--json"}, args[1:]...))
	var where struct {
		URL, Token string
		Databases  emulator.Databases
	}
	ts.Check(json.Unmarshal([]byte(line), &where))
	for name, value := range map[string]string{
		"EMULATOR": strings.TrimPrefix(where.URL, "http://"), "DIBS_NOTION_BASE_URL": where.URL, "NOTION_TOKEN": where.Token,
		"DIBS_DATABASES_TASKS": where.Databases.Tasks, "DIBS_DATABASES_TASK_LOG": where.Databases.TaskLog, "DIBS_DATABASES_MESH_LOG": where.Databases.MeshLog,
	} {
		ts.Setenv(name, value)
	}
}

// hook keeps what is posted to $HOOK.
func hook(ts *testscript.TestScript, _ bool, args []string) {
	file, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // of a sender that is gone it is cut, and no line matches
		mu.Lock()
		defer mu.Unlock()
		file.Write(append(body, '\n'))
	}))
	ts.Defer(func() {
		server.Close()
		file.Close()
	})
	ts.Setenv("HOOK", server.URL+"/notion")
}

func waitLine(ts *testscript.TestScript, _ bool, args []string) {
	line := regexp.MustCompile("(?m)" + args[1])
	until(ts, args[0]+" has a line like "+args[1], func() bool {
		data, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && line.Match(data)
	})
}

// member sets a variable to a text in the JSON that the last command printed.
func member(ts *testscript.TestScript, _ bool, args []string) {
	var m map[string]any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &m))
	text, ok := m[args[1]].(string)
	if !ok || text == "" {
		ts.Fatalf("there is no text %s in %v", args[1], m)
	}
	ts.Setenv(args[0], text)
}
