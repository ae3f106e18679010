// Package place finds out what a pattern or a path means that is given in a folder: in
// which repository it is, and where in there. It looks at the file system as the caller
// sees it, and never changes it.
package place

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"dibs/internal/reserve"
)

// Patterns says where patterns stand that are given in a folder, an absolute path. Symbolic
// links on the way to what a pattern matches are followed, as far as it names folders. A
// pattern that is also the name of a file that is there means that file as well.
func Patterns(folder string, patterns []string) ([]reserve.Target, error) {
	at, err := NewFolder(folder)
	if err != nil {
		return nil, err
	}
	targets := make([]reserve.Target, len(patterns))
	for i, text := range patterns {
		if targets[i], err = at.pattern(text); err != nil {
			return nil, err
		}
	}
	return targets, nil
}

// Paths says where files and folders lie that are named in a folder, an absolute path.
// They need not exist. One that ends with a slash is a folder.
func Paths(folder string, paths []string) ([]reserve.Target, error) {
	at, err := NewFolder(folder)
	if err != nil {
		return nil, err
	}
	targets := make([]reserve.Target, len(paths))
	for i, text := range paths {
		if targets[i], err = at.Path(text); err != nil {
			return nil, err
		}
	}
	return targets, nil
}

// Folder is where patterns and paths are given. It remembers what it found out about the file
// system, and is for one question, by one goroutine.
type Folder struct {
	real string
	// repositories and resolved have what was found out already, by folder.
	repositories map[string]repository
	resolved     map[string]string
}

// NewFolder returns the Folder of an absolute path.
func NewFolder(path string) (*Folder, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("the folder %q is no absolute path", path)
	}
	real, err := resolve(path)
	return &Folder{real: real, repositories: make(map[string]repository), resolved: make(map[string]string)}, err
}

func (f *Folder) pattern(text string) (reserve.Target, error) {
	if name, is, err := reserve.NameOf(text); is || err != nil {
		return reserve.Target{Text: text, At: []reserve.Spot{{Place: reserve.Names, Path: name}}}, err
	}
	t := reserve.Target{Text: text}
	if err := f.misread(text); err != nil {
		return t, err
	}
	if err := f.stand(&t, f.real, text); err != nil {
		return t, err
	}
	t.Files = f.meansFiles(text)
	// `sub/*.go`, where sub is a link, or in a repository of its own.
	lead, rest := plainFolders(text)
	if lead != "" {
		there, err := resolve(filepath.Join(f.real, lead))
		if err != nil {
			return t, err
		}
		if err := f.stand(&t, there, "/"+rest); err != nil {
			return t, err
		}
	}
	// `[id].tsx`, or a link.
	literal := filepath.Join(f.real, text)
	if _, err := os.Lstat(literal); err == nil && text != "." && !strings.Contains(text, "..") {
		there, err := resolve(literal)
		if err != nil {
			return t, err
		}
		f.lie(&t, there, func(path string) string { return "/" + reserve.Escape(strings.TrimPrefix(path, "/")) })
	}
	return t, nil
}

// meansFiles reports whether a pattern means files, rather than folders with all that is in
// them: one that names a file that is there, or that ends as the names of files do, with a
// dot and something behind it. In a .gitignore it could be a folder, too, and then every
// file would be in the way of every pattern: src/a.go of *.md, for src/a.go/b.md.
func (f *Folder) meansFiles(text string) bool {
	if info, err := os.Stat(filepath.Join(f.real, text)); err == nil {
		return !info.IsDir()
	}
	name := text[strings.LastIndexByte(text, '/')+1:]
	dot := strings.LastIndexByte(name, '.')
	return dot > 0 && strings.Trim(name[dot+1:], "*") != ""
}

// misread reports an absolute path, which in a .gitignore is none.
func (f *Folder) misread(text string) error {
	if !strings.HasPrefix(text, "/") {
		return nil
	}
	path := filepath.Clean(text)
	for _, top := range []string{f.real, f.repository(f.real).top} {
		if top == "" || top == "/" || path != top && !strings.HasPrefix(path, top+"/") {
			continue
		}
		rest, err := filepath.Rel(f.real, path)
		if err != nil || strings.HasPrefix(rest, "..") {
			return fmt.Errorf("%q: the slash at the beginning of a pattern stands for the current folder, %s: go to a folder above what you mean, and write its path from there", text, f.real)
		}
		if rest != "." {
			rest = "./" + rest
		}
		return fmt.Errorf("%q: the slash at the beginning of a pattern stands for the current folder: write %s", text, rest)
	}
	first, more, _ := strings.Cut(path[1:], "/")
	if _, err := os.Lstat(filepath.Join(f.real, first)); more == "" || err == nil {
		return nil
	}
	if _, err := os.Lstat(path); err != nil {
		return nil
	}
	return fmt.Errorf("%q: the slash at the beginning of a pattern stands for the current folder, in which there is no %s: write .%s if that is what you mean, else go to %s first",
		text, first, text, filepath.Dir(path))
}

// stand adds where a pattern stands that is given in a folder.
func (f *Folder) stand(t *reserve.Target, folder, pattern string) error {
	for _, s := range f.spots(folder) {
		glob, err := reserve.Anchor(strings.Trim(s.Path, "/"), pattern)
		if err != nil {
			return err
		}
		add(t, reserve.Spot{Place: s.Place, Path: glob})
	}
	return nil
}

// Path says where a file or folder lies, see Paths.
func (f *Folder) Path(text string) (reserve.Target, error) {
	if name, is, err := reserve.NameOf(text); is || err != nil {
		return reserve.Target{Text: text, At: []reserve.Spot{{Place: reserve.Names, Path: name}}}, err
	}
	t := reserve.Target{Text: text}
	if text == "" {
		return t, errors.New("a path is empty: write the path of a file")
	}
	path := text
	if !filepath.IsAbs(path) {
		path = f.real + "/" + path
	}
	in, real, err := f.follow(path)
	if err != nil {
		return t, err
	}
	info, err := os.Lstat(real)
	t.Folder = err == nil && info.IsDir() || err != nil && strings.HasSuffix(text, "/")
	f.lie(&t, real, asPath)
	// Whoever reserved the link by its own name means it, too.
	if name := filepath.Base(path); name != "." && name != ".." {
		f.lie(&t, filepath.Join(in, name), asPath)
	}
	return t, nil
}

func asPath(path string) string { return "/" + strings.TrimPrefix(path, "/") }

// follow returns where a path leads, and the folder that it is in by its own name. Of many
// files in a folder, the way there is followed once.
func (f *Folder) follow(path string) (in, real string, err error) {
	parent := filepath.Dir(filepath.Clean(path))
	in, known := f.resolved[parent]
	if !known {
		if in, err = resolve(parent); err != nil {
			return "", "", err
		}
		f.resolved[parent] = in
	}
	// One that is no link is where it seems to be, unless what leads there says ..
	if real = filepath.Join(in, filepath.Base(path)); path == filepath.Clean(path) {
		if info, err := os.Lstat(real); err == nil && info.Mode()&fs.ModeSymlink == 0 || errors.Is(err, fs.ErrNotExist) {
			return in, real, nil
		}
	}
	real, err = resolve(path)
	return in, real, err
}

// lie adds where a file lies.
func (f *Folder) lie(t *reserve.Target, path string, as func(string) string) {
	for _, s := range f.spots(path) {
		add(t, reserve.Spot{Place: s.Place, Path: as(s.Path)})
	}
}

func add(t *reserve.Target, s reserve.Spot) {
	if !slices.Contains(t.At, s) {
		t.At = append(t.At, s)
	}
}

// spots returns where a resolved path is: among all files, and in its repository.
func (f *Folder) spots(path string) []reserve.Spot {
	spots := []reserve.Spot{{Place: reserve.Files, Path: path}}
	if r := f.repository(path); r.common != "" {
		in := "/" + strings.Trim(strings.TrimPrefix(path, r.top), "/")
		spots = append(spots, reserve.Spot{Place: r.common, Path: in})
		if r.origin != "" {
			spots = append(spots, reserve.Spot{Place: reserve.OriginPrefix + r.origin, Path: in})
		}
	}
	return spots
}

// plainFolders returns the folders with which a pattern begins, and the rest of it.
func plainFolders(pattern string) (folders, rest string) {
	rest = strings.TrimLeft(strings.TrimPrefix(pattern, "."), "/")
	if strings.HasPrefix(pattern, "..") {
		return "", pattern
	}
	for {
		name, more, cut := strings.Cut(rest, "/")
		if !cut || more == "" || strings.ContainsAny(name, `\*?[`) || name == "." || name == ".." || name == "" {
			return folders, rest
		}
		folders, rest = filepath.Join(folders, name), more
	}
}

// maxLinks is how many links that lead nowhere are followed one after the other.
const maxLinks = 40

// resolve returns where a path leads, all links followed, as far as it exists.
func resolve(path string) (string, error) { return resolveLink(path, maxLinks) }

func resolveLink(path string, left int) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		return filepath.Abs(real)
	}
	if left == 0 || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !isNoFolder(err) {
		return "", fmt.Errorf("where %s leads to cannot be found out: %w", path, err)
	}
	path = filepath.Clean(path)
	dir, name := filepath.Split(path)
	if name == "" {
		return path, nil
	}
	if target, err := os.Readlink(path); err == nil { // to what is not there
		if !filepath.IsAbs(target) {
			target = filepath.Join(dir, target)
		}
		return resolveLink(target, left-1)
	}
	in, err := resolveLink(filepath.Clean(dir), left)
	return filepath.Join(in, name), err
}
