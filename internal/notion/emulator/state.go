package emulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// stateFile keeps a world on disk. Changes made while a file is being written are written together
// by the next save.
type stateFile struct {
	path    string
	version int64 // the world's; guarded by the emulator's lock

	mu    sync.Mutex // locked while writing
	saved int64
}

// touch records a change of the world. The caller has the emulator's lock.
func (f *stateFile) touch() { f.version++ }

func (f *stateFile) load() (*world, error) {
	w := newWorld()
	if f.path == "" {
		return w, nil
	}
	data, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the emulator's state: %w", err)
	}
	w = &world{}
	if err := json.Unmarshal(data, w); err != nil {
		return nil, fmt.Errorf("reading the emulator's state %s: %w: move the file away to start anew", f.path, err)
	}
	w.fill()
	return w, nil
}

// save writes what snapshot returns, unless that version is on disk already. The file is replaced
// atomically.
func (f *stateFile) save(snapshot func() (data []byte, version int64)) error {
	if f.path == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	data, version := snapshot()
	if version == f.saved {
		return nil
	}
	if err := replaceFile(f.path, data); err != nil {
		return fmt.Errorf("writing the emulator's state: %w", err)
	}
	f.saved = version
	return nil
}

func replaceFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // already renamed, unless something failed
	if _, err := tmp.Write(data); err != nil {
		tmp.Close()
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

func (w *world) marshal() []byte { return compact(w) }
