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
	case []Agent:
		agents := make([]any, len(v))
		for i, a := range v {
			agents[i] = a.written()
		}
		value = agents
	case Secret:
		value = string(v)
	case []Receiver:
		receivers := make([]any, len(v))
		for i, r := range v {
			receivers[i] = r.written()
		}
		value = receivers
	default:
		if text := reflect.ValueOf(value); text.Kind() == reflect.String && bare.MatchString(text.String()) && !words.MatchString(text.String()) {
			return text.String(), nil
		}
	}
	data, err := json.Marshal(value)
	return string(data), err
}

// written returns the agent's value in the file: its name, or a section.
func (a Agent) written() any {
	if len(a.UIDs) == 0 && a.NotionUser == "" && !a.Lead && a.MaxPerAgent == nil && a.MaxPerDay == 0 && a.MaxUSDPerDay == 0 {
		return a.Name
	}
	full := map[string]any{"name": a.Name}
	if len(a.UIDs) > 0 {
		full["uids"] = a.UIDs
	}
	if a.NotionUser != "" {
		full["notion_user"] = a.NotionUser
	}
	if a.Lead {
		full["lead"] = true
	}
	if a.MaxPerAgent != nil {
		full["max_per_agent"] = *a.MaxPerAgent
	}
	if a.MaxPerDay > 0 {
		full["max_per_day"] = a.MaxPerDay
	}
	if a.MaxUSDPerDay > 0 {
		full["max_usd_per_day"] = a.MaxUSDPerDay
	}
	return full
}
