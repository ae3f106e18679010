package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// prefix is what the names of our environment variables begin with.
const prefix = "DIBS_"

// otherVariables are those that mean something to dibs and set no key: the two
// options of the command line, what tells sessions apart, what dibs run gives to its
// command, and what the completion of commands looks at.
var otherVariables = []string{
	prefix + "CONFIG", prefix + "AGENT", prefix + "SESSION",
	prefix + "TASK_ID", prefix + "TASK_TITLE", prefix + "TASK_URL", prefix + "TASK_FILE", prefix + "CLAIM_ID", prefix + "FENCE",
	prefix + "ACTIVE_HELP", prefix + "COMPLETION_DESCRIPTIONS",
}

// HoldsSecret reports whether the environment variable of that name sets a key whose value is
// secret, such as the token. Programs that dibs starts for others do not get those.
func HoldsSecret(name string) bool {
	var c Config
	return slices.ContainsFunc(fieldsOf(&c), func(f field) bool {
		_, secret := f.target.(*Secret)
		return secret && slices.Contains(f.variables(), name)
	})
}

// unknownVariables complains about every variable that looks as if it were for
// dibs and sets nothing. Its value is not repeated: it may be the token.
func unknownVariables(fields []field) []error {
	known := slices.Clone(otherVariables)
	for _, f := range fields {
		known = append(known, f.variables()...)
	}
	var bare []string // without the prefix, which would make all of them alike
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
		if slices.ContainsFunc(former, func(key string) bool { return name == (field{key: key}).variables()[0] }) {
			errs = append(errs, fmt.Errorf("%s in the environment %s", name, instead))
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
