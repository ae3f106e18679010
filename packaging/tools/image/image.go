package main

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// describe makes the image of a root file system, and says how it is run.
func describe(files []byte, arch, version string, made time.Time) (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("the layer: %w", err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: made}, CreatedBy: "packaging/release.sh " + version},
	})
	if err != nil {
		return nil, fmt.Errorf("the layer: %w", err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("the configuration: %w", err)
	}
	file = file.DeepCopy()
	file.Created = v1.Time{Time: made}
	file.OS, file.Architecture = "linux", arch
	owner := strconv.Itoa(user)
	file.Config = v1.Config{
		User: owner + ":" + owner,
		Env: []string{
			"PATH=/usr/bin", "HOME=/var/lib/dibs", "DIBS_STATE_DIR=/var/lib/dibs", "DIBS_SOCKET=/run/dibs/dibs.sock", "GOMEMLIMIT=1GiB",
		},
		Volumes:    map[string]struct{}{"/var/lib/dibs": {}, "/run/dibs": {}},
		StopSignal: "SIGTERM",
		Healthcheck: &v1.HealthConfig{
			Test: []string{"CMD", "/usr/bin/dibs", "status", "--json"}, Interval: 30 * time.Second, Timeout: 5 * time.Second, StartPeriod: time.Minute,
		},
		Entrypoint: []string{"/usr/bin/dibs"},
		Cmd:        []string{"serve"},
		Labels: map[string]string{
			"org.opencontainers.image.title": "dibs", "org.opencontainers.image.version": version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, file)
}
