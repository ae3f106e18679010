package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// prefix begins the names of dibs' environment variables.
const prefix = "DIBS_"

// otherVariables are variables of dibs that set no key: the two options of the command line, the
// session's id, the variables that dibs sets for the commands that it runs, and those of shell
// completion.
var otherVariables = []string{
	prefix + "CONFIG", prefix + "AGENT", prefix + "SESSION",
	prefix + "TASK_ID", prefix + "TASK_KEY", prefix + "TASK_TITLE", prefix + "TASK_URL", prefix + "TASK_FILE", prefix + "SUMMARY_FILE", prefix + "USAGE_FILE", prefix + "CLAIM_ID", prefix + "FENCE",
	prefix + "EVENT", prefix + "TEXT", prefix + "TASK", prefix + "URL",
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
