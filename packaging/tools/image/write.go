package main

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// write puts an image into file: a tar of an OCI layout with an index for Docker.
func write(image v1.Image, tag, file string, made time.Time) error {
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	folder, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("the layout: %w", err)
	}
	// The name under which podman and Docker know it once it is loaded.
	if err := folder.AppendImage(image, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": "docker.io/library/" + tag,
	})); err != nil {
		return fmt.Errorf("the layout: %w", err)
	}
	if err := index(image, tag, filepath.Join(dir, "manifest.json")); err != nil {
		return fmt.Errorf("manifest.json: %w", err)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := pack(os.DirFS(dir), tar.NewWriter(out), made); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return out.Close()
}

// index writes what Docker reads before version 25, which does not know OCI layouts.
func index(image v1.Image, tag, file string) error {
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	blob := func(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	this := entry{Config: blob(manifest.Config.Digest), RepoTags: []string{tag}}
	for _, l := range manifest.Layers {
		this.Layers = append(this.Layers, blob(l.Digest))
	}
	data, err := json.Marshal([]entry{this})
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// pack writes all files, in the order of their names, without a trace of this machine.
func pack(files fs.FS, w *tar.Writer, made time.Time) error {
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() {
			return w.WriteHeader(&tar.Header{Name: name + "/", Mode: 0o755, ModTime: made})
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), ModTime: made}); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
