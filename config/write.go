package config

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"dibs/internal/kit/safefile"
	"dibs/internal/task"

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

// maxSocketPath is the longest path of a socket on every system: macOS has 104 bytes including the
// final zero, Linux a few more.
const maxSocketPath = 103

// ErrNoHome says that no directory of this user is known.
var ErrNoHome = errors.New("HOME is not set, so there is no place for files of this user: set HOME (or DIBS_CONFIG, DIBS_STATE_DIR and DIBS_SOCKET)")

// StateHome returns the directory in which programs keep the state of this user.
func StateHome() (string, error) { return below("XDG_STATE_HOME", xdg.StateHome) }

// below returns a directory that a variable names, or that is below HOME.
func below(variable, dir string) (string, error) {
	if os.Getenv("HOME") == "" && !filepath.IsAbs(os.Getenv(variable)) {
		return "", ErrNoHome
	}
	return dir, nil
}

// ShortDir returns dir if the path of a socket below it has room for that many bytes, else a
// directory of this machine that is shorter.
func ShortDir(dir string, room int) string {
	for _, short := range []string{dir, filepath.Join("/run/user", strconv.Itoa(os.Getuid())), "/tmp"} {
		if len(short)+room > maxSocketPath {
			continue
		}
		if info, err := os.Stat(short); short == dir || err == nil && info.IsDir() {
			return short
		}
	}
	return dir
}

// SocketIn returns the path of the socket in a directory. If that is too long for a socket, it is
// in a short directory that is named after the long one.
func SocketIn(dir string) string {
	const name = "dibs.sock"
	if short := ShortDir(dir, len("/"+name)); short != dir {
		sum := sha256.Sum256([]byte(dir))
		dir = filepath.Join(short, fmt.Sprintf("dibs-%d-%x", os.Getuid(), sum[:6]))
	}
	return filepath.Join(dir, name)
}

// WriteFile writes c as YAML to a file that only this user can read, and makes its directory if
// necessary. It fails if the file exists, unless replace is set: then it renames the old file to
// .bak, and whoever could read that may read the new one, because a daemon may run as another user.
//
// What root writes into another user's folder belongs to that user. Owner and mode are changed
// through the descriptor of the new file, and everything happens in the opened folder, even if
// something else takes its name meanwhile.
func (c Config) WriteFile(path string, replace bool) error {
	data, err := c.YAML()
	if err != nil {
		return err
	}
	dir, err := openFolder(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("the directory of the configuration file: %w", err)
	}
	defer dir.Close()
	if err := writeIn(dir, filepath.Base(path), data, replace); err != nil {
		return fmt.Errorf("the configuration file %s: %w", path, err)
	}
	return nil
}

func writeIn(dir *os.Root, name string, data []byte, replace bool) error {
	temporary := ".config-" + strings.ToLower(rand.Text()) + ".yaml"
	f, err := dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer dir.Remove(temporary)
	var old fs.FileInfo
	if replace {
		if old, err = dir.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			old, err = nil, nil
		}
	}
	if err == nil {
		err = give(f, dir, old)
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if old != nil {
		if err := dir.Rename(name, name+".bak"); err != nil {
			return err
		}
	}
	// Unlike Rename, Link fails if there is a file.
	return dir.Link(temporary, name)
}

// give changes a new file's owner to that of its folder, or, if that is this user, to the owner of
// the file that it replaces. It gives read permission to those who could read the old file. old may
// be nil.
func give(f *os.File, dir *os.Root, old fs.FileInfo) error {
	folder, err := dir.Stat(".")
	if err != nil {
		return err
	}
	if old != nil && (!old.Mode().IsRegular() || folder.Mode().Perm()&0o002 != 0) {
		old = nil // anybody may have made it
	}
	uid, gid := safefile.Owner(folder), safefile.Group(folder)
	mode := fs.FileMode(0o600)
	mine := uid == os.Geteuid()
	if old != nil && (mine || safefile.Owner(old) == uid) {
		// Only the folder's owner can have put it there like this.
		uid, gid, mode = safefile.Owner(old), safefile.Group(old), old.Mode().Perm()&^0o022
	} else if mine {
		return nil
	}
	if uid < 0 {
		return f.Chmod(mode)
	}
	if os.Geteuid() != 0 {
		uid = -1
	}
	if err := f.Chown(uid, gid); err != nil {
		mode &^= 0o070 // the group is not the one that could read the old file
	}
	return f.Chmod(mode)
}

// openFolder opens a directory. It makes it and its parents if necessary, each owned by the owner
// of its parent.
func openFolder(path string) (*os.Root, error) {
	dir, err := os.OpenRoot(path)
	if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
		return dir, err
	}
	above, err := openFolder(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer above.Close()
	name := filepath.Base(path)
	if err := above.Mkdir(name, 0o700); err != nil {
		return nil, err
	}
	dir, err = above.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if err := inherit(dir, above); err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// inherit gives a directory that root has just made to the owner of its parent. That owner may have
// put another one in its place: a directory with something in it is left as it is.
func inherit(dir, above *os.Root) error {
	info, err := above.Stat(".")
	if err != nil || os.Geteuid() != 0 || safefile.Owner(info) <= 0 {
		return err
	}
	made, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer made.Close()
	if _, err := made.ReadDir(1); !errors.Is(err, io.EOF) {
		return err
	}
	return made.Chown(safefile.Owner(info), safefile.Group(info))
}
