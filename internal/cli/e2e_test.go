package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/cli"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestEndToEnd runs scripts against real daemons, each a process of its own, on
// a board served in this process. Beside the usual commands, they have
//
//	runs dibs COMMAND…      run a command of dibs that must succeed, in a process that runs others, see several
//	exits CODE COMMAND…     run a command that must end with this exit code; dibs as runs does, with exec before it in a process of its own
//	board SEED              serve a board; $TASK1 to $TASK3 are the tasks of an empty one, $PAGE is an empty page
//	team FILE               serve a team's board; $BOARD is its database, $PAGE an empty page
//	postgres                start a PostgreSQL server for the journal of the daemons that are started from then on
//	serve NAME [ARG…]       start a daemon and wait until it serves; its log is NAME.log
//	emulate NAME [ARG…]     start an emulator on $EMULATOR, whose board is then the script's; its log is NAME.log
//	hook FILE               receive what is posted to $HOOK, each body as a line of the file
//	waitline FILE REGEXP    wait until a line of the file matches
//	member NAME KEY         set a variable to a text in the JSON that the last command printed
//	trial NAME [ARG…]       start a trial and wait until it serves; with --remote, $REMOTE is its URL and token.txt has a token
//	term NAME, kill9 NAME   end a daemon with SIGTERM, with SIGKILL
//	person TASK STATUS      set a task's status, as a person in Notion would
//	text TASK NAME TEXT     set a text of a task, as a person in Notion would
//	relate TASK [OTHER...]  make a task wait for others, as a person in Notion would
//	rename DB NAME NEW      rename a property of a database
//	property DB NAME TYPE   give a property of a database another type; - removes it
//	source DB NAME          give a database another data source, with a title and a status
//	option DB NAME OPTION   give a property of a database another option
//	unshare DB              take the connection's access to a database away
//	waitfor FILE            wait until there is such a file
//	waittask TASK STATUS    wait until a task has that status and, if it is open, until nobody has it
//	gone FILE               wait until the process whose id the file holds has ended
//	shows TASK STATUS NAME  check a task's status and claimed_by
//	page TASK FILE          add the Markdown in a file to a task's page, as a person would
//	comment TASK TEXT       comment on a task, as Maria
//	fault KIND PATH         have Notion fail in that way when it is asked for what lies there
//	asked ENDING            wait until Notion is asked for an address with that ending
//	tunnel FAR NEAR         have ssh forward the socket FAR as NEAR, see TestForwardedSocket
//	said TASK TEXT…         check the comments on a task, each as NAME: TEXT
func TestEndToEnd(t *testing.T) {
	takesSeconds(t)
	runEndToEnd(t, "testdata/e2e")
}

// runEndToEnd runs the scripts in a folder, with these folders before the PATH.
func runEndToEnd(t *testing.T, dir string, path ...string) {
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_CONFIG_HOME", env.WorkDir+"/config")
			env.Setenv("XDG_STATE_HOME", env.WorkDir+"/state")
			env.Setenv("XDG_RUNTIME_DIR", "")
			env.Setenv("DIBS_STATE_DIR", env.WorkDir+"/s")
			env.Setenv("GORACE", "atexit_sleep_ms=10")
			env.Setenv("PATH", strings.Join(append(path, env.Getenv("PATH")), string(filepath.ListSeparator)))
			for _, setting := range realTime {
				name, value, _ := strings.Cut(setting, "=")
				env.Setenv(name, value)
			}
			env.Values[boardKey{}] = &board{daemons: make(map[string]*exec.Cmd)}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"runs":  runs,
			"exits": exits,
			"board": startBoard,
			"postgres": func(ts *testscript.TestScript, _ bool, _ []string) {
				ts.Setenv("DIBS_JOURNAL_POSTGRES", pgtest.Run(t).URL())
			},
			"serve":   startServe,
			"emulate": emulate, "hook": hook, "waitline": waitLine, "member": member,
			"trial":  startTrial,
			"term":   func(ts *testscript.TestScript, _ bool, args []string) { end(ts, args[0], syscall.SIGTERM) },
			"kill9":  func(ts *testscript.TestScript, _ bool, args []string) { end(ts, args[0], syscall.SIGKILL) },
			"person": person, "text": setText, "relate": relate, "property": property, "rename": rename, "unshare": unshare, "option": addOption, "source": addSource,
			"shows": shows, "waitfor": waitFor, "waittask": waitTask, "gone": gone, "said": said,
			"tunnel": tunnel, "team": startTeam,
			"page": writePage, "comment": comment, "fault": fault, "asked": asked,
		},
	})
}

// realTime are the settings of daemons in real time, with a board in this process. That has
// practically no rate limit, and there is only one daemon at a time: so the settle wait may be
// short, and the write window longer than two requests ever take, even on a busy machine. Many
// scripts fail tasks in a row.
var realTime = []string{
	"DIBS_CLAIM_EXCLUSIVE=true", "DIBS_CLAIM_WRITE_WINDOW=20s", "DIBS_CLAIM_SETTLE=100ms",
	"DIBS_NOTION_RATE=100", "DIBS_NOTION_BURST=100", "DIBS_CLAIM_BREAKER_FAILURES=0",
}

// workspaceOf returns the settings for a board.
func workspaceOf(url string, notion *emulator.Emulator) []string {
	settings := []string{"DIBS_NOTION_BASE_URL=" + url, "NOTION_TOKEN=" + notion.Token()}
	if dbs := notion.Databases(); dbs != (emulator.Databases{}) {
		settings = append(settings,
			"DIBS_DATABASES_TASKS="+dbs.Tasks, "DIBS_DATABASES_TASK_LOG="+dbs.TaskLog, "DIBS_DATABASES_MESH_LOG="+dbs.MeshLog)
	}
	return settings
}

type boardKey struct{}

// board is a script's board.
type board struct {
	notion  *emulator.Emulator
	daemons map[string]*exec.Cmd
}

func boardOf(ts *testscript.TestScript) *board { return ts.Value(boardKey{}).(*board) }

func startBoard(ts *testscript.TestScript, _ bool, args []string) {
	notion, err := emulator.New(emulator.Options{})
	ts.Check(err)
	dbs, err := notion.Seed(args[0])
	ts.Check(err)
	url := serveBoard(ts, notion)
	if args[0] == "empty" {
		for _, name := range []string{"TASK1", "TASK2", "TASK3"} {
			title := map[string]any{"title": []any{map[string]any{"text": map[string]any{"content": "The task " + name}}}}
			id, err := notion.CreatePage(dbs.Tasks, map[string]any{"Name": title})
			ts.Check(err)
			ts.Setenv(name, id)
		}
		newPage(ts, url, notion.Token())
	}
}

// serveBoard serves a board to a script, whose settings name it, and returns its address.
func serveBoard(ts *testscript.TestScript, notion *emulator.Emulator) (url string) {
	server := httptest.NewServer(notion)
	ts.Defer(func() {
		server.Close()
		notion.Close()
	})
	for _, setting := range workspaceOf(server.URL, notion) {
		name, value, _ := strings.Cut(setting, "=")
		ts.Setenv(name, value)
	}
	boardOf(ts).notion = notion
	return server.URL
}

// startServe starts a daemon.
func startServe(ts *testscript.TestScript, _ bool, args []string) {
	start(ts, args[0], append([]string{"serve", "--json"}, args[1:]...))
}

// startTrial starts a trial: a board with a daemon.
func startTrial(ts *testscript.TestScript, _ bool, args []string) {
	line := start(ts, args[0], append([]string{"try", "--json"}, args[1:]...))
	var trial struct{ Remote struct{ URL, Token string } }
	ts.Check(json.Unmarshal([]byte(line), &trial))
	ts.Setenv("REMOTE", trial.Remote.URL)
	ts.Check(os.WriteFile(ts.MkAbs("token.txt"), []byte(trial.Remote.Token), 0o600))
}

// start starts a server on a socket. It serves once it prints its first line, which it returns.
func start(ts *testscript.TestScript, name string, args []string) string {
	line := launch(ts, name, args)
	if !strings.Contains(line, `"socket":`) {
		ts.Fatalf("daemon %s said %q", name, line)
	}
	return line
}

// environment names the variables of a server.
var environment = []string{
	"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "DIBS_STATE_DIR", "DIBS_SOCKET", "GORACE",
	"DIBS_CLAIM_WRITE_WINDOW", "DIBS_CLAIM_SETTLE", "DIBS_CLAIM_EXCLUSIVE", "DIBS_CLAIM_BREAKER_FAILURES", "DIBS_NOTION_RATE", "DIBS_NOTION_BURST", "DIBS_NOTION_COMMENTS", "DIBS_TASKS_FIELDS", "DIBS_TASKS_PROPERTIES_TOUCHES",
	"DIBS_TASKS_STATUSES_REVIEW", "DIBS_TASKS_STATUSES_FAILED", "DIBS_CLAIM_MAX_ATTEMPTS", "DIBS_CLAIM_TODOS", "DIBS_CLAIM_REVIEW", "DIBS_JOURNAL_POSTGRES", "DIBS_CLUSTER_NAME", "DIBS_WEBHOOK_LISTEN", "DIBS_WEBHOOK_PATH",
	"DIBS_NOTION_BASE_URL", "NOTION_TOKEN", "DIBS_DATABASES_TASKS", "DIBS_DATABASES_TASK_LOG", "DIBS_DATABASES_MESH_LOG",
}

// launch starts a server and returns the first line that it prints.
func launch(ts *testscript.TestScript, name string, args []string) string {
	log, err := os.Create(filepath.Join(ts.MkAbs("."), name+".log"))
	ts.Check(err)
	defer log.Close()
	dibs, err := exec.LookPath(filepath.Join(binDir(ts), "dibs"))
	ts.Check(err)
	cmd := exec.Command(dibs, args...)
	cmd.Dir, cmd.Stderr = ts.MkAbs("."), log
	for _, key := range environment {
		if value := ts.Getenv(key); value != "" {
			cmd.Env = append(cmd.Env, key+"="+value)
		}
	}
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	boardOf(ts).daemons[name] = cmd
	ts.Defer(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		io.Copy(io.Discard, out)
		ts.Fatalf("daemon %s did not come up: %v; its log:\n%s", name, err, ts.ReadFile(name+".log"))
	}
	return line
}

// binDir returns the folder of the program under test.
func binDir(ts *testscript.TestScript) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, "dibs")); err == nil {
			return dir
		}
	}
	ts.Fatalf("no dibs on the PATH")
	return ""
}

func addSource(ts *testscript.TestScript, _ bool, args []string) {
	_, err := boardOf(ts).notion.AddDataSource(args[0], args[1], map[string]any{
		"Name": map[string]any{"title": map[string]any{}}, "status": map[string]any{"status": map[string]any{"options": []any{map[string]any{"name": "OPEN"}}}},
	})
	ts.Check(err)
}

func end(ts *testscript.TestScript, name string, signal syscall.Signal) {
	cmd := boardOf(ts).daemons[name]
	ts.Check(cmd.Process.Signal(signal))
	err := cmd.Wait()
	if signal == syscall.SIGTERM && err != nil {
		ts.Fatalf("daemon %s: %v; its log:\n%s", name, err, ts.ReadFile(name+".log"))
	}
}

func person(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(boardOf(ts).notion.EditPage(args[0], map[string]any{
		"status": map[string]any{"status": map[string]any{"name": args[1]}},
	}))
}

func setText(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(boardOf(ts).notion.EditPage(args[0], map[string]any{
		args[1]: map[string]any{"rich_text": []any{map[string]any{"text": map[string]any{"content": args[2]}}}},
	}))
}

// relate sets depends_on.
func relate(ts *testscript.TestScript, _ bool, args []string) {
	list := []any{}
	for _, id := range args[1:] {
		list = append(list, map[string]any{"id": id})
	}
	ts.Check(boardOf(ts).notion.EditPage(args[0], map[string]any{"depends_on": map[string]any{"relation": list}}))
}

func shows(ts *testscript.TestScript, _ bool, args []string) {
	p, ok := boardOf(ts).notion.Page(args[0])
	if got, want := p.Select("status")+" "+p.Text("claimed_by"), strings.Join(args[1:], " "); !ok || strings.TrimSpace(got) != want {
		ts.Fatalf("task %s shows %q, want %q", args[0], got, want)
	}
}

// until waits, a bounded number of times, for another process.
func until(ts *testscript.TestScript, what string, done func() bool) {
	for range 1000 {
		if done() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	ts.Fatalf("%s: not within twenty seconds", what)
}

func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	until(ts, args[0], func() bool {
		_, err := os.Stat(ts.MkAbs(args[0]))
		return err == nil
	})
}

func waitTask(ts *testscript.TestScript, _ bool, args []string) {
	until(ts, args[0]+" is "+args[1], func() bool {
		p, ok := boardOf(ts).notion.Page(args[0])
		return ok && p.Select("status") == args[1]
	})
	socket := filepath.Join(ts.Getenv("DIBS_STATE_DIR"), "dibs.sock")
	if _, err := os.Stat(socket); err != nil || args[1] != string(task.Open) {
		return // a daemon elsewhere is asked by its script
	}
	// A page is open a moment before the daemon has ended the claim on it.
	until(ts, "the end of the claim on "+args[0], func() bool {
		live, err := client.Do(context.Background(), client.New(socket), api.OpListClaims, api.AgentFilter{})
		return err == nil && !slices.ContainsFunc(live.Claims, func(c api.Claim) bool { return string(c.Task.ID) == args[0] })
	})
}

func gone(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[0])))
	ts.Check(err)
	until(ts, "the end of process "+args[0], func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

// maria is a person in every workspace.
const maria = "3e5b7a90-1c2d-4f3e-8a4b-5c6d7e8f9a01"

func writePage(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(boardOf(ts).notion.WriteMarkdown(args[0], ts.ReadFile(args[1])))
}

func comment(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(boardOf(ts).notion.AddComment(args[0], maria, args[1]))
}

func fault(ts *testscript.TestScript, _ bool, args []string) {
	boardOf(ts).notion.Inject(emulator.Fault{Kind: emulator.FaultKind(args[0]), Path: args[1], Delay: time.Hour})
}

func asked(ts *testscript.TestScript, _ bool, args []string) {
	until(ts, "a request for "+args[0], func() bool {
		return slices.ContainsFunc(boardOf(ts).notion.Requests(), func(r emulator.Request) bool { return strings.HasSuffix(r.Path, args[0]) })
	})
}

// said checks the comments on a task.
func said(ts *testscript.TestScript, _ bool, args []string) {
	var got []string
	for _, m := range boardOf(ts).notion.Comments(args[0]) {
		got = append(got, m.Name+": "+m.Text)
	}
	if want := args[1:]; !slices.Equal(got, want) {
		ts.Fatalf("comments %q, want %q", got, want)
	}
}

// startTeam serves a board that a file describes: the schema of its tasks and its rows, as in the API.
func startTeam(ts *testscript.TestScript, _ bool, args []string) {
	var b struct {
		Schema map[string]any
		Rows   []map[string]any
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &b))
	notion, err := emulator.New(emulator.Options{})
	ts.Check(err)
	newPage(ts, serveBoard(ts, notion), notion.Token())
	id, err := notion.CreateDatabase("Team", b.Schema)
	ts.Check(err)
	for _, row := range b.Rows {
		_, err := notion.CreatePage(id, row)
		ts.Check(err)
	}
	ts.Setenv("BOARD", id)
}

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
		testkit.Must(t, json.NewDecoder(out).Decode(&where))
		stop()
		io.Copy(io.Discard, out)
		if code := <-ended; code != 0 {
			t.Fatalf("exit code %d: %s", code, &stderr)
		}
		e := testkit.Got(emulator.New(emulator.Options{StateFile: state}))(t)
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

// newPage makes an empty page in the workspace, as $PAGE.
func newPage(ts *testscript.TestScript, url, token string) {
	body := `{"parent":{"workspace":true},"properties":{"title":{"title":[{"text":{"content":"Team"}}]}}}`
	req, err := http.NewRequest("POST", url+"/v1/pages", strings.NewReader(body))
	ts.Check(err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Notion-Version", "2025-09-03")
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	var page struct {
		ID string `json:"id"`
	}
	ts.Check(json.NewDecoder(resp.Body).Decode(&page))
	ts.Setenv("PAGE", page.ID)
}

// property changes the type of a database's property, or removes it.
func property(ts *testscript.TestScript, _ bool, args []string) {
	var schema any
	if args[2] != "-" {
		schema = map[string]any{args[2]: map[string]any{}}
	}
	ts.Check(boardOf(ts).notion.EditSchema(args[0], map[string]any{args[1]: schema}))
}

// rename renames a property of a database.
func rename(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(boardOf(ts).notion.EditSchema(args[0], map[string]any{args[1]: map[string]any{"name": args[2]}}))
}

// addOption adds an option to a property.
func addOption(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(boardOf(ts).notion.AddOption(args[0], args[1], args[2]))
}

// unshare revokes the connection's access to a database.
func unshare(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(boardOf(ts).notion.Unshare(args[0]))
}

// TestMCPClients runs the scripts in testdata/mcp, in which third-party clients use dibs mcp.
// .ci/mcp installs them in the folder named by TEST_CLIENTS.
func TestMCPClients(t *testing.T) {
	takesSeconds(t)
	dir := os.Getenv("TEST_CLIENTS")
	switch {
	case dir == "" && os.Getenv("CI") == "true":
		t.Fatal("TEST_CLIENTS is not set: export TEST_CLIENTS=$(.ci/mcp)")
	case dir == "":
		t.Skip("the clients are not there: export TEST_CLIENTS=$(.ci/mcp)")
	}
	runEndToEnd(t, "testdata/mcp", filepath.Join(dir, "node_modules", "node", "bin"), filepath.Join(dir, "node_modules", ".bin"))
}
