package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"dibs/internal/kit/safefile"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
)

// Load returns the configuration in effect. Its error lists everything that is wrong, one line
// each.
func Load(o Options) (Config, error) {
	c, err := Reach(o)
	if err != nil {
		return Config{}, err
	}
	return c, nil
}

// Reach is Load for a caller that needs to know where the daemon is: it returns what could be read
// of an invalid configuration, too.
func Reach(o Options) (Config, error) {
	c, errs := read(o)
	if len(errs) == 0 {
		return c, c.Validate()
	}
	return c, errors.Join(errs...)
}

// read returns the settings that could be read, and the errors of the others.
func read(o Options) (Config, []error) {
	var errs []error
	file, err := locate(o)
	if err != nil {
		errs = append(errs, err)
	}
	v, err := readFile(file)
	if err != nil {
		errs, v = append(errs, err), viper.New()
	}
	c := Default()
	fields := fieldsOf(&c)
	errs = append(errs, unknownKeys(v, fields, file)...)
	if !o.FileOnly {
		errs = append(errs, unknownVariables(fields)...)
	}
	if v.GetString("notion.token") != "" && v.GetString("notion.token_file") != "" {
		errs = append(errs, fmt.Errorf("notion.token and notion.token_file are both set: keep one of them (in %s)", file))
	}
	for _, f := range fields {
		if err := f.read(v, o, file); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.key, err))
		} else if f.target == &c.Notion.Token && (o.FileOnly || f.variable() == "") && c.Notion.Token != "" {
			c.Notion.TokenOrigin = file
		}
	}
	for path, given := range map[*string]string{&c.Socket: o.Socket, &c.StateDir: o.StateDir} {
		if given == "" {
			continue
		}
		if *path, err = filepath.Abs(given); err != nil {
			errs = append(errs, err)
		}
	}
	if err := c.complete(); err != nil {
		errs = append(errs, err)
	}
	return c, errs
}

// read sets the key to its value in the environment or the file, if any.
func (f field) read(v *viper.Viper, o Options, file string) error {
	variable := ""
	if !o.FileOnly {
		_ = v.BindEnv(append([]string{f.key}, f.variables()...)...) // cannot fail with a name
		variable = f.variable()
	}
	if v.Get(f.key) == nil {
		return nil
	}
	if err := f.decode(v, variable != ""); err != nil {
		return fmt.Errorf("%w (in %s)", err, cmp.Or(variable, file))
	}
	dir := filepath.Dir(file)
	if variable != "" {
		dir = ""
	}
	for _, path := range f.paths() {
		if err := resolve(path, dir); err != nil {
			return err
		}
	}
	return nil
}

// Keys returns all keys, in the order of the documentation.
func Keys() []string {
	var c Config
	var keys []string
	for _, f := range fieldsOf(&c) {
		keys = append(keys, f.key)
	}
	return keys
}

// readFile reads the file alone; an empty path is an empty file.
func readFile(file string) (*viper.Viper, error) {
	v := viper.New()
	if file == "" {
		return v, nil
	}
	f, err := safefile.OpenNamed(file)
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	defer f.Close()
	v.SetConfigType("yaml")
	if err := v.ReadConfig(f); err != nil {
		if bad, ok := errors.AsType[viper.ConfigParseError](err); ok {
			return nil, fmt.Errorf("configuration file %s: %s", file, parserSays(errors.Unwrap(bad)))
		}
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	return v, nil
}

// unknownKeys returns an error for everything in the file that is not a key.
func unknownKeys(written *viper.Viper, fields []field, file string) []error {
	keys := written.AllKeys()
	slices.Sort(keys)
	var errs []error
	for _, key := range keys {
		below := sectionKeys(key, fields)
		above := slices.IndexFunc(fields, func(f field) bool { return strings.HasPrefix(key, f.key+".") })
		switch {
		case slices.ContainsFunc(fields, func(f field) bool { return f.key == key }):
		case former[key] != "":
			errs = append(errs, &FormerError{key, key, fmt.Sprintf(" (in %s)", file)})
		case len(below) > 0 && written.Get(key) == nil: // an empty section
		case len(below) > 0:
			errs = append(errs, fmt.Errorf("%s: want a section with some of the keys %s (in %s)", key, strings.Join(below, ", "), file))
		case above >= 0:
			errs = append(errs, fmt.Errorf("%s: want a value, got a section (in %s)", fields[above].key, file))
		default:
			errs = append(errs, fmt.Errorf("unknown key %s in %s%s", key, file, didYouMean(nearest(key, Keys()))))
		}
	}
	return errs
}

// quoted matches the pieces of the file in the parser's errors.
var quoted = regexp.MustCompile("`[^`]*`")

// parserSays returns a parser's error in one line, without quotes from the file, which may be the
// token.
func parserSays(err error) string {
	return strings.Join(strings.Fields(quoted.ReplaceAllString(err.Error(), "…")), " ")
}

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

	"remote.oidc": "an issuer has issuer, audience, subject and agent",
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
