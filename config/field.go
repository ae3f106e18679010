package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
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
	case "notion.token_file", "journal.postgres_file", "socket", "state_dir":
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
