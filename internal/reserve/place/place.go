// Package place finds the spots of patterns and paths given in a folder: which repository they are
// in, and where in there. It reads the file system as the caller sees it, and never changes it.
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

// Whole returns the first of the patterns given in a folder that means all files of a repository, or
// of the machine; empty if none does.
func Whole(folder string, patterns []string) string {
	targets, err := Patterns(folder, patterns)
	if err != nil {
		return "" // whoever reserves them hears of it
	}
	for _, t := range targets {
		for _, s := range t.At {
			if s.Place != reserve.Names && strings.Trim(s.Path, "/*") == "" {
				return t.Text
			}
		}
	}
	return ""
}

// Repository returns the place of the repository of a folder, an absolute path: by where it was cloned
// from, else by its common git directory. It is empty where there is none, or it cannot be told.
func Repository(folder string) string {
	at, err := NewFolder(folder)
	if err != nil {
		return ""
	}
	r := at.repository(at.real)
	if r.origin != "" {
		return reserve.OriginPrefix + r.origin
	}
	return r.common
}

// Patterns returns the targets of patterns given in a folder, an absolute path. It follows symbolic
// links in the folders that a pattern names. A pattern that is also the name of an existing file
// means that file as well.
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

// Paths returns the targets of files and folders named in a folder, an absolute path. They need not
// exist. A path that ends with a slash is a folder.
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

// Folder is a folder in which patterns and paths are given. It caches the state of the file system,
// so use it for one request only. It is not safe for concurrent use.
type Folder struct {
	real string
	// repositories and resolved are caches, by folder.
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
	if err := f.addPattern(&t, f.real, text); err != nil {
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
		if err := f.addPattern(&t, there, "/"+rest); err != nil {
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
		f.addPath(&t, there, func(path string) string { return "/" + reserve.Escape(strings.TrimPrefix(path, "/")) })
	}
	return t, nil
}

// meansFiles reports whether a pattern means only files, and not folders with their content: it names
// an existing file, or it ends with an extension, as file names do. In a .gitignore such a pattern
// could mean a folder, too. But then every file would conflict with every pattern: src/a.go with *.md,
// because of src/a.go/b.md.
func (f *Folder) meansFiles(text string) bool {
	if info, err := os.Stat(filepath.Join(f.real, text)); err == nil {
		return !info.IsDir()
	}
	return reserve.MeansFiles(text)
}

// misread returns an error for a pattern that looks like an absolute path: in a .gitignore it is not
// one.
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

// addPattern adds the spots of a pattern given in a folder.
func (f *Folder) addPattern(t *reserve.Target, folder, pattern string) error {
	for _, s := range f.spots(folder) {
		glob, err := reserve.Anchor(strings.Trim(s.Path, "/"), pattern)
		if err != nil {
			return err
		}
		add(t, reserve.Spot{Place: s.Place, Path: glob})
	}
	return nil
}

// Path returns the target of a file or folder, see Paths.
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
	in, real, found, err := f.follow(path)
	if err != nil {
		return t, err
	}
	folder := found != nil && found.IsDir()
	t.Folder = folder || found == nil && strings.HasSuffix(text, "/")
	if !folder { // so no repository begins here
		f.repositories[real] = f.repository(filepath.Dir(real))
	}
	f.addPath(&t, real, asPath)
	// A reservation of a link by its own name covers it, too.
	if name := filepath.Base(path); name != "." && name != ".." {
		if own := filepath.Join(in, name); own != real {
			f.addPath(&t, own, asPath)
		}
	}
	return t, nil
}

func asPath(path string) string { return "/" + strings.TrimPrefix(path, "/") }

// follow resolves a path. in is the folder that has its last name, real is where the path leads, and
// found is what is there, nil if nothing is. It resolves each folder once.
func (f *Folder) follow(path string) (in, real string, found fs.FileInfo, err error) {
	parent := filepath.Dir(filepath.Clean(path))
	in, known := f.resolved[parent]
	if !known {
		if in, err = resolve(parent); err != nil {
			return "", "", nil, err
		}
		f.resolved[parent] = in
	}
	// A file that is not a link is where it seems to be, unless its path has a ..
	if real = filepath.Join(in, filepath.Base(path)); path == filepath.Clean(path) {
		info, err := os.Lstat(real)
		if errors.Is(err, fs.ErrNotExist) {
			return in, real, nil, nil
		} else if err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return in, real, info, nil
		}
	}
	if real, err = resolve(path); err != nil {
		return "", "", nil, err
	}
	found, _ = os.Lstat(real)
	return in, real, found, nil
}

// addPath adds the spots of a resolved path. as makes the Path of a spot.
func (f *Folder) addPath(t *reserve.Target, path string, as func(string) string) {
	for _, s := range f.spots(path) {
		add(t, reserve.Spot{Place: s.Place, Path: as(s.Path)})
	}
}

func add(t *reserve.Target, s reserve.Spot) {
	if !slices.Contains(t.At, s) {
		t.At = append(t.At, s)
	}
}

// spots returns the spots of a resolved path: among all files, and in its repository.
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

// plainFolders splits a pattern into the folders that it begins with, and the rest.
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

// maxLinks is how many dangling links are followed in a row.
const maxLinks = 40

// resolve follows all links in a path, as far as the path exists.
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
	if target, err := os.Readlink(path); err == nil { // a dangling link
		if !filepath.IsAbs(target) {
			target = filepath.Join(dir, target)
		}
		return resolveLink(target, left-1)
	}
	in, err := resolveLink(filepath.Clean(dir), left)
	return filepath.Join(in, name), err
}
