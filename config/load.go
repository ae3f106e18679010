package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"dibs/internal/kit/safefile"
	"dibs/internal/task"

	"github.com/spf13/viper"
)

// Options are the command line's settings of the configuration.
type Options struct {
	// File is the configuration file. If empty, it is $DIBS_CONFIG, else dibs/config.yaml in
	// $XDG_CONFIG_HOME if that exists.
	File string
	// New allows a missing file.
	New bool
	// FileOnly ignores the environment.
	FileOnly bool
	// Socket and StateDir, if set, take precedence over everything else.
	Socket, StateDir string
}

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

// locate returns the absolute path of the configuration file, or "" if there is none.
func locate(o Options) (string, error) {
	file, err := Path(o.File)
	if errors.Is(err, ErrNoHome) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	named := o.File != "" || os.Getenv("DIBS_CONFIG") != ""
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) && (o.New || !named) {
		return "", nil
	}
	return file, nil
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

// complete fills in the defaults that depend on the environment, and makes ids canonical. Validate
// reports invalid ids. Whoever names the socket can do without a state directory, unless it is the
// daemon.
func (c *Config) complete() error {
	var unknown error
	if c.StateDir == "" {
		var home string
		if home, unknown = StateHome(); unknown == nil {
			c.StateDir = filepath.Join(home, "dibs")
		}
	}
	if c.SocketByDefault = c.Socket == ""; c.SocketByDefault {
		dir := c.StateDir
		if runtime := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(runtime) {
			dir, unknown = filepath.Join(runtime, "dibs"), nil
		}
		c.Socket = SocketIn(dir)
	} else {
		unknown = nil
	}
	for _, f := range fieldsOf(c) {
		if names, ok := f.target.(*[]string); ok && strings.HasPrefix(f.key, "tasks.") {
			for i, name := range *names {
				(*names)[i] = task.Name(name)
			}
		} else if name, ok := f.target.(*string); ok && strings.HasPrefix(f.key, "tasks.") {
			*name = task.Name(*name)
		}
	}
	for i := range c.Agents {
		c.Agents[i].Name = task.Name(c.Agents[i].Name)
	}
	ids := []*string{&c.Databases.Tasks, &c.Databases.TaskLog, &c.Databases.MeshLog}
	for i := range c.Agents {
		ids = append(ids, &c.Agents[i].NotionUser)
	}
	for _, id := range ids {
		if canonical, err := task.ParseID(*id); err == nil {
			*id = string(canonical)
		}
	}
	return unknown
}

// quoted matches the pieces of the file in the parser's errors.
var quoted = regexp.MustCompile("`[^`]*`")

// parserSays returns a parser's error in one line, without quotes from the file, which may be the
// token.
func parserSays(err error) string {
	return strings.Join(strings.Fields(quoted.ReplaceAllString(err.Error(), "…")), " ")
}
