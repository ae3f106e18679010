package config

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write config.example.yaml anew")

const head = `dibs: every key, with its default.

dibs reads the file named by --config or DIBS_CONFIG, else $XDG_CONFIG_HOME/dibs/config.yaml
(~/.config/dibs/config.yaml) if it exists. A missing key has its default; an unknown key is an
error. The environment overrides the file: the variable of a key is DIBS_ and its path in capitals
with _ between the parts, so claim.write_window is DIBS_CLAIM_WRITE_WINDOW. A list in the
environment has commas between its items, or is a JSON array. Durations are written 90s, 15m,
1h30m.
`

// config.example.yaml is this package's code in YAML: the fields in their order, with their comments
// and defaults.
func TestExample(t *testing.T) {
	const file = "../config.example.yaml"
	c := Default()
	// They have no default.
	c.Databases.Tasks = "2f835e81-2bbb-81b6-9700-e18108a40b1f"
	c.Databases.TaskLog = "2fa35e81-2bbb-8180-8f74-cbd9acd08b52"
	c.Databases.MeshLog = "2fa35e81-2bbb-811a-b6f7-ff9eb7448c99"
	var out strings.Builder
	remark(&out, "", head)
	describe(t, &out, "", reflect.ValueOf(c), structs(t))
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := os.ReadFile(file); err != nil || string(is) != out.String() {
		t.Errorf("config.example.yaml is not what the code says (-file +code), %v; write it with go test ./config -run TestExample -update:\n%s",
			err, cmp.Diff(string(is), out.String()))
	}
}

// structs returns the package's struct types.
func structs(t *testing.T) map[string]*ast.StructType {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]*ast.StructType)
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if s, ok := spec.Type.(*ast.StructType); ok {
				all[spec.Name.Name] = s
			}
		}
		return true
	})
	return all
}

// zeroUnits matches the units of a duration that say nothing, after one that does.
var zeroUnits = regexp.MustCompile(`([hm])(0m)?0s$`)

// describe writes the keys of a section.
func describe(t *testing.T, out *strings.Builder, indent string, section reflect.Value, of map[string]*ast.StructType) {
	t.Helper()
	for _, f := range of[section.Type().Name()].Fields.List {
		field, _ := section.Type().FieldByName(f.Names[0].Name)
		key := field.Tag.Get("key")
		if key == "" {
			continue
		}
		value := section.FieldByIndex(field.Index)
		isSection := value.Kind() == reflect.Struct
		if indent == "" && (isSection || value.Kind() == reflect.Slice || f.Doc != nil) {
			out.WriteString("\n")
		}
		remark(out, indent, f.Doc.Text())
		if isSection {
			fmt.Fprintf(out, "%s%s:\n", indent, key)
			describe(t, out, indent+"  ", value, of)
			continue
		}
		text, err := written(value.Interface())
		if err != nil {
			t.Fatal(err)
		}
		if _, isDuration := value.Interface().(time.Duration); isDuration {
			text = zeroUnits.ReplaceAllString(text, "$1")
		}
		fmt.Fprintf(out, "%s%s: %s\n", indent, key, text)
	}
}

// remark writes a comment.
func remark(out *strings.Builder, indent, text string) {
	for line := range strings.Lines(text) {
		line = strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "  ")
		fmt.Fprintln(out, strings.TrimRight(indent+"# "+line, " "))
	}
}
