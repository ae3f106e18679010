package cli_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dibs/internal/cli"
	"dibs/internal/testkit"
)

// TestMainImpostor connects to another user's socket in a directory for everybody.
func TestMainImpostor(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	dir, err := os.MkdirTemp("", "dibs")
	if err := errors.Join(err, os.Chmod(dir, 0o777|fs.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	var l net.Listener
	testkit.AsUser(t, 64001, 64001, func() { l, err = net.Listen("unix", socket) })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for named, want := range map[string]string{"": "DIBS_SOCKET_USER=64001\n", "64002": "mend socket_user or DIBS_SOCKET\n"} {
		t.Setenv("DIBS_SOCKET_USER", named)
		var stdout, stderr bytes.Buffer
		code := cli.Main(t.Context(), []string{"status", "--socket", socket}, nil, &stdout, &stderr)
		if code != 5 || stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), "dibs: user 64001 listens on "+socket) || !strings.HasSuffix(stderr.String(), want) {
			t.Errorf("named %q: exit code %d, stdout %q, stderr %q", named, code, &stdout, &stderr)
		}
	}
}
