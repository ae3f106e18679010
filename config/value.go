package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
)

// decode stores the value that the key has in the file or the environment. Values from the file must
// have the right type; those from the environment are strings. The error is about the first mistake,
// in check's words: those of mapstructure name types of Go.
func (f field) decode(v *viper.Viper, fromEnvironment bool) error {
	var found mapstructure.Metadata
	err := v.UnmarshalKey(f.key, f.target, func(c *mapstructure.DecoderConfig) {
		c.TagName, c.Metadata = "key", &found
		c.MatchName = func(key, name string) bool { return key == name }
		c.DecodeHook = func(from, to reflect.Value) (any, error) {
			whole := to.Addr().Interface() == f.target
			if text, ok := from.Interface().(string); ok && whole && fromEnvironment {
				value, err := spelled(text, to.Kind())
				if err != nil {
					return nil, err
				}
				from = reflect.ValueOf(value)
			}
			return check(from, to, whole)
		}
	})
	if bad, ok := errors.AsType[*mapstructure.DecodeError](err); ok {
		key := place.ReplaceAllString(bad.Name(), "")
		err = bad.Unwrap()
		if m, ok := errors.AsType[mismatch](err); ok && ofAgents[key] != "" && strings.HasSuffix(m.want, "number") {
			err = fmt.Errorf(ofAgents[key], m.got)
		}
		if key != "" {
			err = fmt.Errorf("%s: %w", key, err)
		}
	} else if len(found.Unused) > 0 {
		err = fmt.Errorf("%s: unknown key: %s", place.ReplaceAllString(slices.Min(found.Unused), ""), known[f.key])
	}
	return err
}

// place matches what mapstructure says of an item's place in its list.
var place = regexp.MustCompile(`\[\d+\]\.?`)

// known says which keys the sections in a list have.
var known = map[string]string{
	"agents": "an agent has name, uids, notion_user, lead, max_per_agent, max_per_day and max_usd_per_day",
	"notify": "a receiver has url, url_file or command, and form, on and insecure",
}

// mostUSD is the largest limit of money.
const mostUSD = 1_000_000

// ofAgents says which numbers an agent's section may have.
var ofAgents = map[string]string{
	"uids":            "%v is not a user id: want a whole number",
	"max_per_agent":   "%v: want a whole number, 0 (any number) or more",
	"max_per_day":     "%v: want a whole number, 0 (any number) or more",
	"max_usd_per_day": "%v: want US dollars, 0.01 to " + strconv.Itoa(mostUSD) + ", or 0 for any amount",
}

// mismatch is an error about a value of the wrong type.
type mismatch struct {
	want string
	got  any
	hint string
}

func (m mismatch) Error() string { return fmt.Sprintf("want %s, got %v%s", m.want, m.got, m.hint) }

// spelled returns what a text in the environment stands for in a key of that kind, else the text. A
// list has commas between its items, or is a JSON array.
func spelled(text string, kind reflect.Kind) (any, error) {
	switch kind {
	case reflect.Bool:
		if b, err := strconv.ParseBool(text); err == nil {
			return b, nil
		}
	case reflect.Int:
		if n, err := strconv.Atoi(text); err == nil {
			return n, nil
		}
	case reflect.Float64:
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			return n, nil
		}
	case reflect.Slice:
		var items []any
		if strings.HasPrefix(strings.TrimSpace(text), "[") {
			if err := json.Unmarshal([]byte(text), &items); err != nil {
				return nil, fmt.Errorf("want names with commas between them or a JSON array: %w", err)
			}
			return items, nil
		}
		for name := range strings.SplitSeq(text, ",") {
			items = append(items, strings.TrimSpace(name))
		}
		return items, nil
	}
	return text, nil
}

// null stands for a missing value in a list or a section, which mapstructure would leave out.
type null string

// check refuses a value of the wrong type for its place, or a number in a section that is out of
// range. whole says that it is a key's whole value. Errors repeat neither secrets nor lists and
// sections, in which there may be one.
func check(from, to reflect.Value, whole bool) (any, error) {
	raw := from.Interface()
	text, isText := raw.(string)
	list, isList := raw.([]any)
	section, isSection := raw.(map[string]any)
	m := mismatch{got: raw}
	switch {
	case isList:
		m.got = "a list"
		for i, item := range list {
			list[i] = cmp.Or(item, any(null("nothing")))
		}
	case isSection:
		m.got = "a section"
		for key, value := range section {
			section[key] = cmp.Or(value, any(null("nothing")))
		}
	}
	n, isNumber := 0.0, from.CanConvert(reflect.TypeFor[float64]())
	if isNumber {
		n = from.Convert(reflect.TypeFor[float64]()).Float()
	}
	ok, kind := true, to.Kind()
	switch to.Interface().(type) {
	case Secret, Receiver:
		m.got = "something else"
	case Agent:
		if !isSection {
			raw, kind = Agent{Name: text}, reflect.String
		}
	case time.Duration:
		if d, err := time.ParseDuration(text); err == nil {
			return d, nil
		}
		ok, m.want = false, "a duration such as 90s or 30m"
	}
	switch kind {
	case reflect.String:
		ok, m.want, m.hint = isText, "text", ": if that is meant, put it in quotes"
	case reflect.Bool:
		ok, m.want = from.Kind() == kind, "true or false"
	case reflect.Int:
		ok, m.want = from.Kind() == kind || !whole && isNumber && n == math.Trunc(n), "a whole number"
		ok = ok && (whole || n >= 0 && n <= math.MaxUint32)
	case reflect.Float64:
		ok, m.want = isNumber && (whole || n == 0 || n >= 0.01 && n <= mostUSD), "a number"
	case reflect.Struct:
		ok, m.want = isSection, "sections such as {url: …, on: [ask, block]}"
	case reflect.Slice:
		if ok, m.want = isList, "a list"; to.Type().Elem().Kind() == reflect.Int {
			m.want = "a list of user ids"
		} else if isText {
			return []any{text}, nil
		}
	}
	if !ok {
		return nil, m
	}
	return raw, nil
}
