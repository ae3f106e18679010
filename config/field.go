package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// field is one key and a pointer to its value in a Config.
type field struct {
	key    string
	target any // a pointer
}

// ByKey returns pointers to the settings of a part of a Config, all of type T, by their keys in it.
// part is a pointer to the part, such as Tasks.Statuses.
func ByKey[T any](part any) map[string]*T {
	v, settings := reflect.ValueOf(part).Elem(), make(map[string]*T)
	for i := range v.NumField() {
		settings[v.Type().Field(i).Tag.Get("key")] = v.Field(i).Addr().Interface().(*T)
	}
	return settings
}

// fieldsOf returns the keys of c, in the order of its declaration.
func fieldsOf(c *Config) []field {
	var fields []field
	var walk func(prefix string, v reflect.Value)
	walk = func(prefix string, v reflect.Value) {
		for i := range v.NumField() {
			name, isKey := v.Type().Field(i).Tag.Lookup("key")
			if !isKey {
				continue
			}
			key := prefix + name
			if f := v.Field(i); f.Kind() == reflect.Struct {
				walk(key+".", f)
			} else {
				fields = append(fields, field{key, f.Addr().Interface()})
			}
		}
	}
	walk("", reflect.ValueOf(c).Elem())
	return fields
}

// variables returns the environment variables of the key, in order of precedence.
func (f field) variables() []string {
	names := []string{prefix + strings.ToUpper(strings.ReplaceAll(f.key, ".", "_"))}
	if f.key == "notion.token" {
		names = append(names, "NOTION_TOKEN")
	}
	return names
}

// variable returns the environment variable that sets the key, "" if none does. An empty variable
// sets nothing.
func (f field) variable() string {
	for _, name := range f.variables() {
		if os.Getenv(name) != "" {
			return name
		}
	}
	return ""
}

// paths returns the file paths in the key's value.
func (f field) paths() []*string {
	switch f.key {
	case "notion.token_file", "journal.postgres_file", "socket", "state_dir", "remote.cert_file", "remote.key_file":
		return []*string{f.target.(*string)}
	case "notify":
		receivers := *f.target.(*[]Receiver)
		var all []*string
		for i := range receivers {
			all = append(all, &receivers[i].URLFile)
		}
		return all
	}
	return nil
}

// resolve makes a path absolute: ~ is the home directory, and a relative path begins in dir, or in
// the working directory if dir is empty.
func resolve(path *string, dir string) error {
	if *path == "" {
		return nil
	}
	if rest, ok := strings.CutPrefix(*path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return err
		}
		*path = filepath.Join(home, rest)
	}
	if !filepath.IsAbs(*path) {
		*path = filepath.Join(dir, *path)
	}
	abs, err := filepath.Abs(*path)
	*path = abs
	return err
}

// sectionKeys returns the keys directly below a section.
func sectionKeys(section string, fields []field) []string {
	var names []string
	for _, f := range fields {
		if rest, ok := strings.CutPrefix(f.key, section+"."); ok {
			name, _, _ := strings.Cut(rest, ".")
			names = append(names, name)
		}
	}
	return slices.Compact(names)
}

// nearest returns the name that was probably meant by an unknown one, or "": a similarly spelled
// one, else the only one with the same last part in any section. In variables, the section may be
// missing.
func nearest(unknown string, names []string) string {
	best, bestDistance := "", 1+max(2, len(unknown)/4)
	var namesakes []string
	for _, name := range names {
		if d := distance(unknown, name); d < bestDistance {
			best, bestDistance = name, d
		}
		if lastPart(unknown) == lastPart(name) || strings.HasSuffix(name, "_"+unknown) {
			namesakes = append(namesakes, name)
		}
	}
	if best == "" && len(namesakes) == 1 {
		return namesakes[0]
	}
	return best
}

// didYouMean ends an error about an unknown name.
func didYouMean(near string) string {
	if near == "" {
		return ""
	}
	return ": did you mean " + near + "?"
}

func lastPart(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// distance returns the Levenshtein distance of two keys.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// prefix begins the names of dibs' environment variables.
const prefix = "DIBS_"

// otherVariables are variables of dibs that set no key: options of the command line and of install.sh,
// the session's id, where a daemon on another machine is and what it is shown, the variables that dibs
// sets for the commands that it runs, and those of shell completion.
var otherVariables = []string{
	prefix + "CONFIG", prefix + "AGENT", prefix + "SESSION", prefix + "DOWNLOADS",
	prefix + "URL", prefix + "TOKEN", prefix + "TOKEN_FILE", prefix + "TOKEN_COMMAND", prefix + "FINGERPRINT",
	prefix + "TASK_ID", prefix + "TASK_KEY", prefix + "TASK_TITLE", prefix + "TASK_URL", prefix + "TASK_FILE", prefix + "SUMMARY_FILE", prefix + "USAGE_FILE", prefix + "CLAIM_ID", prefix + "FENCE",
	prefix + "WORKTREE", prefix + "BRANCH", prefix + "BASE", prefix + "ATTEMPT", prefix + "PUBLISHED",
	prefix + "EVENT", prefix + "TEXT", prefix + "TASK",
	prefix + "ACTIVE_HELP", prefix + "COMPLETION_DESCRIPTIONS",
}

// secretVariables has the names of the variables that set a secret key.
var secretVariables = sync.OnceValue(func() map[string]bool {
	var c Config
	names := make(map[string]bool)
	for _, f := range fieldsOf(&c) {
		if _, secret := f.target.(*Secret); secret || f.key == "notify" {
			for _, name := range f.variables() {
				names[name] = true
			}
		}
	}
	return names
})

// Environment returns this process's environment without secrets, for programs that dibs starts. The
// variables of PostgreSQL, which begin with PG, are the journal's if that is shared, and may hold its
// password. Otherwise they are the programs' own.
func Environment(shared bool) []string {
	return slices.DeleteFunc(os.Environ(), func(setting string) bool {
		name, _, _ := strings.Cut(setting, "=")
		return secretVariables()[name] || shared && strings.HasPrefix(name, "PG")
	})
}

// unknownVariables returns an error for each variable with dibs' prefix that sets nothing. It does
// not repeat the value, which may be the token.
func unknownVariables(fields []field) []error {
	known := slices.Clone(otherVariables)
	for _, f := range fields {
		known = append(known, f.variables()...)
	}
	var bare []string // without the prefix, which makes all names similar
	for _, name := range known {
		if rest, ours := strings.CutPrefix(name, prefix); ours {
			bare = append(bare, rest)
		}
	}
	environment := os.Environ()
	slices.Sort(environment)
	var errs []error
	for _, entry := range environment {
		name, value, _ := strings.Cut(entry, "=")
		rest, ours := strings.CutPrefix(name, prefix)
		if !ours || value == "" || slices.Contains(known, name) {
			continue
		}
		if key := formerOf(name); key != "" {
			errs = append(errs, &FormerError{key: key, written: name + " in the environment"})
			continue
		}
		near := nearest(rest, bare)
		if near != "" {
			near = prefix + near
		}
		errs = append(errs, fmt.Errorf("unknown variable %s in the environment%s", name, didYouMean(near)))
	}
	return errs
}

// etcd says what replaces the keys of machines that coordinated through etcd.
const etcd = "as machines share a journal in PostgreSQL now: take it out, and set journal.postgres, see docs/cluster.md"

// former has the keys that are no longer read, and what to do instead.
var former = map[string]string{
	"cluster.etcd": etcd, "cluster.prefix": etcd, "cluster.tls": etcd, "cluster.tls.ca": etcd, "cluster.tls.cert": etcd, "cluster.tls.key": etcd,
	"cluster.username": etcd, "cluster.password_file": etcd,
	"names.prefix": "as minted names begin with agent: take it out, and name agents with --agent or DIBS_AGENT",
	"names.keep":   "as sessions keep their names for a week: take it out, and name agents with --agent or DIBS_AGENT",
}

// FormerError refuses a key that is no longer read.
type FormerError struct{ key, written, in string }

func (e *FormerError) Error() string {
	return fmt.Sprintf("%s is no longer read, %s%s", e.written, former[e.key], e.in)
}

// Setting returns the key.
func (e *FormerError) Setting() string { return e.key }

// formerOf returns the former key that a variable set; empty if there is none.
func formerOf(variable string) string {
	for key := range former {
		if variable == (field{key: key}).variables()[0] {
			return key
		}
	}
	return ""
}

// Changed returns the keys whose values differ.
func Changed(before, after Config) []string {
	a, b := fieldsOf(&before), fieldsOf(&after)
	var keys []string
	for i := range a {
		if !reflect.DeepEqual(reflect.ValueOf(a[i].target).Elem().Interface(), reflect.ValueOf(b[i].target).Elem().Interface()) {
			keys = append(keys, a[i].key)
		}
	}
	return keys
}
