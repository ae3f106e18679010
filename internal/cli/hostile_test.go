package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"dibs/internal/api"
	"dibs/internal/cli"
	"dibs/internal/testkit"
)

// hostile is a text that does harm if it is printed unchanged: it clears the terminal, changes its
// title, overwrites the line, forges another line, and reverses the direction of writing.
const hostile = "Fix\x1b[2J\x1b]0;owned\x07 the\r\ndibs: forged line\u2028\u202e\u2066 login\x00\x7f\u009b31m\U000e0041"

// filled returns a value of a type of package api with hostile text wherever it has text.
func filled(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	if t == reflect.TypeFor[api.Time]() {
		v.Set(reflect.ValueOf(api.Time{Time: time.Now().Add(time.Hour)}))
		return v
	}
	switch t.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.Append(v, filled(t.Elem())))
	case reflect.Pointer:
		if t.Elem() == reflect.TypeFor[api.Claim]() || t.Elem() == reflect.TypeFor[api.Event]() || t.Elem() == reflect.TypeFor[api.TaskRef]() || t.Elem() == reflect.TypeFor[string]() {
			p := reflect.New(t.Elem())
			p.Elem().Set(filled(t.Elem()))
			v.Set(p)
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if v.Field(i).CanSet() {
				v.Field(i).Set(filled(t.Field(i).Type))
			}
		}
	}
	return v
}

// TestHostileText prints a hostile task, and the answers of a hostile daemon, with every command.
// Nothing in the output may affect a terminal, and nothing may look like a line of the command's
// own.
func TestHostileText(t *testing.T) {
	dir := testkit.ShortDir(t)
	socket := filepath.Join(dir, "d.sock")
	var media, body string
	var status int
	l := testkit.Got(net.Listen("unix", socket))(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })

	const id = "11111111-2222-3333-4444-555555555555"
	claimed, event := reflect.TypeFor[api.Claim](), reflect.TypeFor[api.Event]()
	for command, answer := range map[string]reflect.Type{
		"status": reflect.TypeFor[api.Status](), "tasks": reflect.TypeFor[api.Tasks](), "ready": reflect.TypeFor[api.Tasks](),
		"show " + id: reflect.TypeFor[api.Task](), "show --content " + id: reflect.TypeFor[api.TaskContent](), "claim " + id: claimed, "next": claimed, "renew": claimed, "release": claimed,
		"complete": claimed, "block": claimed, "fail": claimed, "sweep": reflect.TypeFor[api.Sweep](),
		"log": reflect.TypeFor[api.Log](), "events": event, "sync": reflect.TypeFor[api.Sync](),
		"agents": reflect.TypeFor[api.Agents](), "report": reflect.TypeFor[api.Report](),
	} {
		document := func(t reflect.Type) string {
			data, err := json.Marshal(filled(t).Interface())
			if err != nil {
				panic(err)
			}
			return string(data)
		}
		refused := filled(reflect.TypeFor[api.Problem]())
		for _, code := range []string{"", "held", "claim_lost", "ambiguous_claim", "notion_unavailable", hostile} {
			status, media, body = http.StatusOK, "application/json", document(answer)
			if answer == event {
				media, body = api.EventStream, "id: 1\nevent: x\ndata: "+body+"\n\n"
			}
			if code != "" {
				refused.FieldByName("Code").SetString(code)
				data := testkit.Got(json.Marshal(refused.Interface()))(t)
				status, media, body = http.StatusConflict, api.ProblemType, string(data)
			}
			for _, more := range [][]string{nil, {"--json"}} {
				args := append(append(strings.Fields(command), "--agent", "Sandman", "--socket", socket), more...)
				var stdout, stderr bytes.Buffer
				exit := cli.Main(t.Context(), args, nil, &stdout, &stderr)
				if code == "" && exit != 0 || stdout.Len()+stderr.Len() == 0 {
					t.Errorf("%v %s: exit code %d, %q, %q", args, code, exit, &stdout, &stderr)
				}
				for _, r := range stdout.String() + stderr.String() {
					if r != '\n' && !unicode.IsPrint(r) {
						t.Errorf("%v %s: prints %U: %q %q", args, code, r, &stdout, &stderr)
						break
					}
				}
				for line := range strings.Lines(stdout.String() + stderr.String()) {
					testkit.Check(t, !strings.HasPrefix(line, "dibs: forged"), "%v %s: prints a forged line: %q", args, code, line)
				}
				if more != nil {
					for line := range strings.Lines(stdout.String()) {
						testkit.Check(t, json.Valid([]byte(line)), "%v %s: prints %q, which is no JSON", args, code, line)
					}
				}
			}
		}
	}
}
