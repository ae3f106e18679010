package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/adrg/xdg"
	"github.com/go-viper/mapstructure/v2"
)

// Path returns the path of the configuration file, which may not exist: the given one, else
// $DIBS_CONFIG, else dibs/config.yaml in $XDG_CONFIG_HOME.
func Path(file string) (string, error) {
	if file == "" {
		file = os.Getenv("DIBS_CONFIG")
	}
	if file == "" {
		home, err := below("XDG_CONFIG_HOME", xdg.ConfigHome)
		if err != nil {
			return "", err
		}
		file = filepath.Join(home, "dibs", "config.yaml")
	}
	return filepath.Abs(file)
}

// YAML returns the content of a configuration file for c: the values that differ from the defaults.
// The token is left out; other secrets are not.
func (c Config) YAML() ([]byte, error) {
	plain := Default()
	plain.complete()
	defaults := fieldsOf(&plain)
	var out bytes.Buffer
	var section []string
	for i, f := range fieldsOf(&c) {
		value, initial := reflect.ValueOf(f.target).Elem(), reflect.ValueOf(defaults[i].target).Elem()
		same := reflect.DeepEqual(value.Interface(), initial.Interface()) || value.Kind() == reflect.Slice && value.Len()+initial.Len() == 0
		if f.key == "notion.token" || same {
			continue
		}
		written, err := written(value.Interface())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.key, err)
		}
		path := strings.Split(f.key, ".")
		last := len(path) - 1
		for depth, name := range path[:last] {
			if depth >= len(section) || section[depth] != name {
				fmt.Fprintf(&out, "%s%s:\n", strings.Repeat("  ", depth), name)
				section = append(section[:depth:depth], name)
			}
		}
		section = section[:last]
		fmt.Fprintf(&out, "%s%s: %s\n", strings.Repeat("  ", last), path[last], written)
	}
	return out.Bytes(), nil
}

// bare matches texts that need no quotes in YAML.
var bare = regexp.MustCompile(`^([A-Za-z_/][\w/.-]*|[0-9a-f]{8}-[0-9a-f-]{27})$`)

// words are the exceptions that need quotes.
var words = regexp.MustCompile(`(?i)^(y|n|yes|no|on|off|true|false|null)$`)

// written formats a value as YAML: plain text, or JSON, which YAML includes.
func written(value any) (string, error) {
	switch v := value.(type) {
	case time.Duration:
		return v.String(), nil
	case []Agent, []Receiver:
		var sections []map[string]any
		d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{TagName: "key", Result: &sections})
		if err == nil {
			err = d.Decode(v)
		}
		if err != nil {
			return "", err
		}
		items := make([]any, len(sections))
		for i, section := range sections {
			if url, ok := section["url"].(Secret); ok {
				section["url"] = string(url)
			}
			if items[i] = section; len(section) == 1 && section["name"] != nil {
				items[i] = section["name"]
			}
		}
		value = items
	case Secret:
		value = string(v)
	default:
		if text := reflect.ValueOf(value); text.Kind() == reflect.String && bare.MatchString(text.String()) && !words.MatchString(text.String()) {
			return text.String(), nil
		}
	}
	data, err := json.Marshal(value)
	return string(data), err
}
