package postgres

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// fill makes the data of a new server: a copy of what is in kept, or what initdb makes, which is then
// made lean and put there, unless kept is empty.
func (s *Server) fill(kept string) error {
	if kept == "" {
		return s.initdb()
	}
	program, err := os.Stat(filepath.Join(s.bin, "initdb"))
	if err != nil {
		return err
	}
	// Another version of the programs makes other data.
	kept = filepath.Join(kept, fmt.Sprintf("lean-%s-%d", strings.ReplaceAll(strings.Trim(s.bin, "/"), "/", "-"), program.ModTime().Unix()))
	if err := copied(kept, s.data(), s.owns); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := errors.Join(s.initdb(), s.lean()); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		return err
	}
	half, err := os.MkdirTemp(filepath.Dir(kept), "half")
	if err != nil {
		return err
	}
	defer os.RemoveAll(half)
	whole := filepath.Join(half, "data")
	if err := copied(s.data(), whole, nil); err != nil {
		return err
	}
	if err := os.Rename(whole, kept); err != nil && !errors.Is(err, fs.ErrExist) { // another process was quicker
		return err
	}
	return nil
}

func (s *Server) initdb() error {
	// Small segments of the log make data that is quickly copied.
	initdb := exec.Command(filepath.Join(s.bin, "initdb"), "--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "--wal-segsize=1", s.data())
	initdb.Dir, initdb.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.owns}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

// lean takes out of new data what nobody misses: the databases for making others, and recycled
// segments of the log. What remains is less than half of it, in a third of the files.
func (s *Server) lean() error {
	single := exec.Command(filepath.Join(s.bin, "postgres"), "--single", "-D", s.data(), "-c", "fsync=off", "-c", "min_wal_size=2MB", "-c", "max_wal_size=2MB", "postgres")
	single.Dir, single.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.owns}
	single.Stdin = strings.NewReader("UPDATE pg_database SET datistemplate = false;\nDROP DATABASE template0;\nDROP DATABASE template1;\nVACUUM FULL;\n")
	if out, err := single.CombinedOutput(); err != nil {
		return fmt.Errorf("the data is not made lean: %w: %s", err, out)
	}
	return nil
}

// copied copies a folder of files and folders. The copy is its owner's alone, who is this process's
// user if owner is nil.
func copied(from, to string, owner *syscall.Credential) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		within, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, within)
		if entry.IsDir() {
			err = os.Mkdir(target, 0o700)
		} else {
			err = copyFile(path, target)
		}
		if err == nil && owner != nil {
			err = os.Chown(target, int(owner.Uid), int(owner.Gid))
		}
		return err
	})
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
