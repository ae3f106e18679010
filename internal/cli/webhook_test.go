package cli_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"sync"

	"dibs/internal/emulator"

	"github.com/rogpeppe/go-internal/testscript"
)

// emulate starts an emulator in a process of its own, and points the script at it.
func emulate(ts *testscript.TestScript, _ bool, args []string) {
	line := launch(ts, args[0], append([]string{"emulator", "--json"}, args[1:]...))
	var where struct {
		URL, Token string
		Databases  emulator.Databases
	}
	ts.Check(json.Unmarshal([]byte(line), &where))
	for name, value := range map[string]string{
		"DIBS_NOTION_BASE_URL": where.URL, "NOTION_TOKEN": where.Token,
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
