package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// made makes an image of a program, and returns its file.
func made(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	program, file := filepath.Join(dir, "program"), filepath.Join(dir, "image.tar")
	if err := os.WriteFile(program, []byte("#!"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{program, "arm64", "v1.2.3", file}, "1700000000"); err != nil {
		t.Fatal(err)
	}
	return file
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestSameBytes(t *testing.T) {
	if !bytes.Equal(read(t, made(t)), read(t, made(t))) {
		t.Error("the same program gave two images")
	}
}

// TestLayout unpacks the image and reads it as an OCI layout.
func TestLayout(t *testing.T) {
	dir := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(read(t, made(t)))); ; {
		header, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, header.Name)
		if strings.HasSuffix(header.Name, "/") {
			err = os.Mkdir(path, 0o755)
		} else {
			data, failed := io.ReadAll(r)
			err = errors.Join(failed, os.WriteFile(path, data, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	list, err := index.IndexManifest()
	if err != nil || len(list.Manifests) != 1 {
		t.Fatalf("%+v, %v, want one image", list, err)
	}
	image, err := index.Image(list.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != "arm64" || config.Config.User != "65532:65532" || config.Config.StopSignal != "SIGTERM" ||
		!slices.Equal(config.Config.Entrypoint, []string{"/usr/bin/dibs"}) || !slices.Equal(config.Config.Cmd, []string{"serve"}) {
		t.Errorf("it runs as %+v", config)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	files := make(map[string]*tar.Header)
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = header
	}
	for volume := range config.Config.Volumes {
		if f := files[strings.TrimPrefix(volume, "/")+"/"]; f == nil || f.Uid != user || f.Mode != 0o700 {
			t.Errorf("the daemon cannot write to %s, or others can: %+v", volume, f)
		}
	}
	if f := files["usr/bin/dibs"]; f == nil || f.Mode != 0o755 || f.Uid != 0 {
		t.Errorf("the program: %+v", f)
	}
	if f := files["etc/ssl/certs/ca-certificates.crt"]; f == nil || f.Size < 100_000 {
		t.Errorf("the certificates: %+v", f)
	}
}

// TestDocker reads the image as Docker does before version 25.
func TestDocker(t *testing.T) {
	image, err := tarball.ImageFromPath(made(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if layers, err := image.Layers(); err != nil || len(layers) != 1 {
		t.Errorf("%d layers, %v", len(layers), err)
	}
	list, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(made(t)) })
	if err != nil || len(list) != 1 || !slices.Equal(list[0].RepoTags, []string{"dibs:v1.2.3"}) {
		data, _ := json.Marshal(list)
		t.Errorf("%s, %v", data, err)
	}
}

func TestMistakes(t *testing.T) {
	for _, tt := range []struct {
		args        []string
		epoch, want string
	}{
		{[]string{"program"}, "1", "say PROGRAM ARCH VERSION FILE"},
		{[]string{"program", "amd64", "v1.2.3", "file"}, "", "SOURCE_DATE_EPOCH"},
		{[]string{"/nowhere/program", "amd64", "v1.2.3", "file"}, "1", "/nowhere/program"},
	} {
		if err := run(tt.args, tt.epoch); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q with %q: %v, want %q", tt.args, tt.epoch, err, tt.want)
		}
	}
}
